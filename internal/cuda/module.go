package cuda

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"fedrspo/internal/cuda/driver"
)

// Kernel is a function of a module, loaded on a device.
type Kernel struct {
	name     string
	function driver.Function
	sizes    []uint8 // bytes of the parameters
}

// Name returns the kernel's name.
func (k *Kernel) Name() string { return k.name }

// moduleEntry is a module that is loaded once.
type moduleEntry struct {
	sync.Once
	kernels map[string]*Kernel
	err     error
}

// Load compiles PTX for the device and returns its kernels by name. It does so
// once for each name; the driver keeps the code in a cache of its own, so that
// only the first process on a machine waits.
func (d *Device) Load(name string, ptx []byte) (map[string]*Kernel, error) {
	d.mu.Lock()
	m := d.modules[name]
	if m == nil {
		m = &moduleEntry{}
		d.modules[name] = m
	}
	d.mu.Unlock()
	m.Do(func() { m.kernels, m.err = d.load(ptx) })
	if m.err != nil {
		return nil, d.wrap(fmt.Errorf("kernels for %s: %w", name, m.err))
	}
	return m.kernels, nil
}

func (d *Device) load(ptx []byte) (map[string]*Kernel, error) {
	entries := parsePTX(string(ptx))
	if len(entries) == 0 {
		return nil, fmt.Errorf("the PTX has no kernels")
	}
	m, err := d.api.ModuleLoadData(ptx)
	if err != nil {
		return nil, err
	}
	for name, k := range entries {
		if k.function, err = d.api.ModuleGetFunction(m, name); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

var (
	entryPattern = regexp.MustCompile(`\.entry\s+(\w+)\(([^)]*)\)`)
	paramPattern = regexp.MustCompile(`\.param\s+\.[bufs](\d+)`)
)

// parsePTX returns the kernels of PTX with the sizes of their parameters.
func parsePTX(ptx string) map[string]*Kernel {
	kernels := map[string]*Kernel{}
	for _, m := range entryPattern.FindAllStringSubmatch(ptx, -1) {
		k := &Kernel{name: m[1]}
		for _, p := range paramPattern.FindAllStringSubmatch(strings.TrimSpace(m[2]), -1) {
			bits, err := strconv.Atoi(p[1])
			if err != nil {
				continue // digits
			}
			k.sizes = append(k.sizes, uint8(bits/8))
		}
		kernels[k.name] = k
	}
	return kernels
}
