// Package cuda is devices, their memory, streams of work and kernels, over the
// functions of package driver.
//
// A [Device] is shared by the process. Its memory goes back to a pool and not to
// the driver, because to allocate there takes as long as a training step. A
// [Stream] belongs to one goroutine at a time and keeps the first error of its
// work, so that operations are queued one after the other and checked once, by
// [Stream.Sync] or [Stream.Err].
//
// Everything that reaches the driver happens between [Device.Enter] and
// [Device.Leave]: a context is current on a thread, not on a goroutine.
package cuda

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"sync"

	"fedrspo/internal/cuda/driver"
)

var (
	// ErrUnavailable says that nothing here can compute: no driver, no device, or
	// none that can be used.
	ErrUnavailable = errors.New("CUDA is not available")
	// ErrMemory says that the device's memory is not enough.
	ErrMemory = errors.New("out of device memory")
)

// The oldest device and driver that the kernels run on.
const (
	minMajor, minMinor = 7, 5
	minDriver          = 11080
)

// Info describes a device.
type Info struct {
	// Ordinal numbers the device from 0, as CUDA_VISIBLE_DEVICES leaves them.
	Ordinal int
	// Name is the product's, such as "NVIDIA H200".
	Name string
	// Major and Minor are the compute capability, Multiprocessors their number,
	// Memory the total in bytes.
	Major, Minor    int
	Multiprocessors int
	Memory          uint64
	// Problem says why the device cannot be used; empty for one that can.
	Problem string
}

// String returns a line without the problem.
func (i Info) String() string {
	return fmt.Sprintf("%s, compute capability %d.%d, %d multiprocessors, %s", i.Name, i.Major, i.Minor, i.Multiprocessors, size(i.Memory))
}

// size writes bytes in a unit that fits.
func size(n uint64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", n)
}

// DriverVersion returns the newest CUDA version that the driver knows, such as
// "12.4". An error wraps ErrUnavailable.
func DriverVersion() (string, error) {
	api, err := open()
	if err != nil {
		return "", err
	}
	v, err := api.DriverGetVersion()
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return versionText(v), nil
}

func versionText(v int) string { return fmt.Sprintf("%d.%d", v/1000, v%1000/10) }

// open returns the driver, or an error wrapping ErrUnavailable.
func open() (driver.API, error) {
	api, err := driver.Open()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return api, nil
}

// Devices lists all devices, also those that cannot be used. Without a driver
// the error wraps ErrUnavailable.
func Devices() ([]Info, error) {
	api, err := open()
	if err != nil {
		return nil, err
	}
	n, err := api.DeviceGetCount()
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	list := make([]Info, n)
	for i := range list {
		if list[i], err = describe(api, i); err != nil {
			return nil, fmt.Errorf("%w: device %d: %w", ErrUnavailable, i, err)
		}
	}
	return list, nil
}

func describe(api driver.API, ordinal int) (Info, error) {
	i := Info{Ordinal: ordinal}
	d, err := api.DeviceGet(ordinal)
	if err != nil {
		return i, err
	}
	if i.Name, err = api.DeviceGetName(d); err != nil {
		return i, err
	}
	if i.Memory, err = api.DeviceTotalMem(d); err != nil {
		return i, err
	}
	mode := 0
	for a, at := range map[driver.Attribute]*int{
		driver.CapabilityMajor: &i.Major, driver.CapabilityMinor: &i.Minor,
		driver.Multiprocessors: &i.Multiprocessors, driver.ComputeMode: &mode,
	} {
		if *at, err = api.DeviceGetAttribute(a, d); err != nil {
			return i, err
		}
	}
	version, err := api.DriverGetVersion()
	switch {
	case err != nil:
		return i, err
	case version < minDriver:
		i.Problem = fmt.Sprintf("the driver knows CUDA %s, and the kernels need %s: install a driver of version 520 or newer", versionText(version), versionText(minDriver))
	case i.Major < minMajor || i.Major == minMajor && i.Minor < minMinor:
		i.Problem = fmt.Sprintf("compute capability %d.%d, and the kernels need %d.%d (Turing) or newer", i.Major, i.Minor, minMajor, minMinor)
	case mode == 2:
		i.Problem = "its compute mode prohibits all processes (nvidia-smi -c DEFAULT)"
	}
	return i, nil
}

// Choose returns the ordinal of the device that a name stands for: "cuda", the
// first that can be used, or "cuda:N". An error wraps ErrUnavailable.
func Choose(name string) (int, error) {
	list, err := Devices()
	if err != nil {
		return 0, err
	}
	if len(list) == 0 {
		return 0, fmt.Errorf("%w: the driver finds no device", ErrUnavailable)
	}
	if number, ok := strings.CutPrefix(name, "cuda:"); ok {
		n, err := strconv.Atoi(number)
		switch {
		case err != nil || n < 0 || n >= len(list):
			return 0, fmt.Errorf("%w: device %q, want cuda:0 to cuda:%d", ErrUnavailable, name, len(list)-1)
		case list[n].Problem != "":
			return 0, fmt.Errorf("%w: device %d (%s): %s", ErrUnavailable, n, list[n].Name, list[n].Problem)
		}
		return n, nil
	}
	for _, i := range list {
		if i.Problem == "" {
			return i.Ordinal, nil
		}
	}
	return 0, fmt.Errorf("%w: device 0 (%s): %s", ErrUnavailable, list[0].Name, list[0].Problem)
}

// Device is a device with the context that the process shares. It is safe for
// concurrent use.
type Device struct {
	Info
	api     driver.API
	context driver.Context

	mu      sync.Mutex
	free    map[uint64][]driver.Ptr // by size
	lent    uint64                  // bytes in use
	modules map[string]*moduleEntry
}

var devices struct {
	sync.Mutex
	open map[int]*Device
}

// Open returns device ordinal, the same at every call: it stays open until the
// process ends.
func Open(ordinal int) (*Device, error) {
	devices.Lock()
	defer devices.Unlock()
	if d := devices.open[ordinal]; d != nil {
		return d, nil
	}
	api, err := open()
	if err != nil {
		return nil, err
	}
	info, err := describe(api, ordinal)
	if err != nil {
		return nil, fmt.Errorf("%w: device %d: %w", ErrUnavailable, ordinal, err)
	}
	if info.Problem != "" {
		return nil, fmt.Errorf("%w: device %d (%s): %s", ErrUnavailable, ordinal, info.Name, info.Problem)
	}
	h, err := api.DeviceGet(ordinal)
	if err != nil {
		return nil, fmt.Errorf("%w: device %d: %w", ErrUnavailable, ordinal, err)
	}
	d := &Device{Info: info, api: api, free: map[uint64][]driver.Ptr{}, modules: map[string]*moduleEntry{}}
	if d.context, err = api.DevicePrimaryCtxRetain(h); err != nil {
		return nil, fmt.Errorf("%w: device %d (%s): %w", ErrUnavailable, ordinal, info.Name, err)
	}
	if devices.open == nil {
		devices.open = map[int]*Device{}
	}
	devices.open[ordinal] = d
	return d, nil
}

// Enter ties the goroutine to its thread and makes the device's context current
// there. Leave follows, also after an error.
func (d *Device) Enter() error {
	runtime.LockOSThread()
	if err := d.api.CtxSetCurrent(d.context); err != nil {
		return d.wrap(err)
	}
	return nil
}

// Leave ends what Enter began.
func (d *Device) Leave() { runtime.UnlockOSThread() }

// wrap names the device in an error.
func (d *Device) wrap(err error) error {
	return fmt.Errorf("device %d (%s): %w", d.Ordinal, d.Name, err)
}
