package experiment

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"fedrspo/nn"
	"fedrspo/run"
)

// deviceName is the flag value of a device's name.
type deviceName struct{ at *string }

func (d deviceName) String() string {
	if d.at == nil {
		return ""
	}
	return cmp.Or(*d.at, "cpu")
}

// Get implements flag.Getter.
func (d deviceName) Get() any { return d.String() }

func (d deviceName) Set(text string) error {
	if number, ok := strings.CutPrefix(text, "cuda:"); ok {
		if n, err := strconv.Atoi(number); err != nil || n < 0 || strconv.Itoa(n) != number {
			return fmt.Errorf("want cuda:N with the number N of a device")
		}
	} else if !slices.Contains([]string{"cpu", "cuda", "auto"}, text) {
		return fmt.Errorf("want cpu, cuda, cuda:N or auto")
	}
	*d.at = text
	return nil
}

// device opens where the setting's networks run; nil is the processor.
func (s Setting) device() (*nn.Device, error) {
	d, err := nn.OpenDevice(deviceName{&s.Device}.String(), s.TF32)
	if err != nil {
		return nil, fmt.Errorf("-device %s: %w", s.Device, err)
	}
	return d, nil
}

// Version identifies the program, the machine's arithmetic, and the device that
// the setting's networks run on.
func (s Setting) Version() (run.Version, error) {
	v := Version()
	d, err := s.device()
	if d != nil {
		v.Device = d.String()
	}
	return v, err
}

// DeviceReport describes, a line each, the devices that networks can run on, and
// why something that is here cannot be used.
func DeviceReport() []string { return nn.DeviceReport() }
