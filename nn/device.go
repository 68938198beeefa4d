package nn

import (
	"errors"
	"fmt"
	"strings"

	"fedrspo/internal/cuda"
	"fedrspo/internal/cuda/cublas"
	"fedrspo/internal/cuda/kernels"
)

// Device is a CUDA device that sessions compute on; nil is the processor.
// Sessions on one device run side by side, each in a queue of its own.
type Device struct {
	dev  *cuda.Device
	tf32 bool
}

// ErrDevice is wrapped by errors about devices that are not there or cannot be
// used.
var ErrDevice = errors.New("no such device")

// OpenDevice returns the device of a name: "cpu", which is nil; "cuda", the first
// CUDA device that can be used, or "cuda:N"; "auto", the first that can be used,
// or the processor where there is none. With tf32, float32 matrices are rounded
// to 10 bits of fraction on the way into tensor cores; without it, products are
// those of float32. The error wraps ErrDevice.
func OpenDevice(name string, tf32 bool) (*Device, error) {
	switch {
	case name == "cpu":
		if tf32 {
			return nil, fmt.Errorf("%w: TF32 is a format of CUDA devices, and the device is cpu", ErrDevice)
		}
		return nil, nil
	case name == "auto", name == "cuda", strings.HasPrefix(name, "cuda:"):
	default:
		return nil, fmt.Errorf("%w: %q, want cpu, cuda, cuda:N or auto", ErrDevice, name)
	}
	ordinal, err := cuda.Choose(name)
	if err != nil {
		if name == "auto" && !tf32 {
			return nil, nil
		}
		return nil, fmt.Errorf("%w: %w", ErrDevice, err)
	}
	d, err := cuda.Open(ordinal)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDevice, err)
	}
	if tf32 {
		if _, err := cublas.Find(); err != nil {
			return nil, fmt.Errorf("%w: TF32 needs cuBLAS: %w", ErrDevice, err)
		}
	}
	return &Device{d, tf32}, nil
}

// String returns "cpu", or the device's number and name, with TF32 if it is on.
func (d *Device) String() string {
	if d == nil {
		return "cpu"
	}
	s := fmt.Sprintf("cuda:%d (%s)", d.dev.Ordinal, d.dev.Name)
	if d.tf32 {
		s += " with TF32"
	}
	return s
}

// DeviceReport describes, a line each, what can compute here and why something
// cannot.
func DeviceReport() []string {
	lines := []string{"cpu: " + KernelLevel()}
	version, err := cuda.DriverVersion()
	if err != nil {
		return append(lines, "cuda: "+err.Error())
	}
	list, err := cuda.Devices()
	if err != nil {
		return append(lines, "cuda: "+err.Error())
	}
	if len(list) == 0 {
		lines = append(lines, "cuda: the driver finds no device")
	}
	for _, i := range list {
		line := fmt.Sprintf("cuda:%d: %v", i.Ordinal, i)
		if i.Problem != "" {
			line += "; cannot be used: " + i.Problem
		}
		lines = append(lines, line)
	}
	lines = append(lines, "driver: CUDA "+version)
	if name, err := cublas.Find(); err != nil {
		lines = append(lines, fmt.Sprintf("matrix products: own kernels, which are slower; %v", err))
	} else {
		lines = append(lines, "matrix products: "+name)
	}
	return lines
}

// elem is the precision in terms of the kernels.
func (p Precision) elem() kernels.Elem {
	if p == Float32 {
		return kernels.Float32
	}
	return kernels.Float64
}
