package cuda

import (
	"fmt"
	"unsafe"

	"fedrspo/internal/cuda/driver"
)

// Memory is a piece of device memory.
type Memory struct {
	// Ptr is its address.
	Ptr driver.Ptr
	// Bytes is what was asked for.
	Bytes uint64
}

// granule is the unit of allocation.
const granule = 512

func rounded(n uint64) uint64 { return (n + granule - 1) / granule * granule }

// Alloc returns n bytes of device memory with whatever they hold. It takes a
// piece of that size which was freed, else asks the driver. An error wraps
// ErrMemory and says how much there is.
func (d *Device) Alloc(n uint64) (Memory, error) {
	n = max(n, 1)
	d.mu.Lock()
	defer d.mu.Unlock()
	r := rounded(n)
	if list := d.free[r]; len(list) > 0 {
		p := list[len(list)-1]
		d.free[r] = list[:len(list)-1]
		d.lent += r
		return Memory{p, n}, nil
	}
	p, err := d.api.MemAlloc(r)
	if driver.Is(err, driver.OutOfMemory) {
		d.drain()
		p, err = d.api.MemAlloc(r)
	}
	if driver.Is(err, driver.OutOfMemory) {
		free, total, ierr := d.api.MemGetInfo()
		if ierr != nil {
			return Memory{}, d.wrap(err)
		}
		return Memory{}, d.wrap(fmt.Errorf("%w: %s more; %s of %s are free and this process holds %s; use a smaller batch or fewer workers, or end other processes: %w",
			ErrMemory, size(r), size(free), size(total), size(d.lent), err))
	}
	if err != nil {
		return Memory{}, d.wrap(err)
	}
	d.lent += r
	return Memory{p, n}, nil
}

// Free puts memory back into the pool; nothing in any stream may still use it.
func (d *Device) Free(m Memory) {
	if m.Ptr == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	r := rounded(m.Bytes)
	d.free[r] = append(d.free[r], m.Ptr)
	d.lent -= r
}

// drain gives the pool back to the driver. Caller holds the lock.
func (d *Device) drain() {
	for r, list := range d.free {
		for _, p := range list {
			// An address that the driver gave can be freed, or the context is
			// broken, which the next call reports.
			_ = d.api.MemFree(p)
		}
		delete(d.free, r)
	}
}

// Drain gives memory that nobody uses back to the driver, for other processes.
func (d *Device) Drain() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.drain()
}

// Host is page-locked host memory, which devices copy to and from on their own.
type Host[T any] struct {
	// Data is the memory; it starts as zeros.
	Data []T
	dev  *Device
}

// NewHost returns n elements, which are of a type without pointers.
func NewHost[T any](d *Device, n int) (Host[T], error) {
	var zero T
	bytes := uint64(max(n, 1)) * uint64(unsafe.Sizeof(zero))
	p, err := d.api.MemAllocHost(bytes)
	if err != nil {
		return Host[T]{}, d.wrap(fmt.Errorf("%s of page-locked host memory (see ulimit -l): %w", size(bytes), err))
	}
	h := Host[T]{unsafe.Slice((*T)(p), max(n, 1))[:n], d}
	clear(h.Data)
	return h, nil
}

// Close frees the memory; no copy may still use it.
func (h *Host[T]) Close() error {
	if h.Data == nil {
		return nil
	}
	p := unsafe.Pointer(unsafe.SliceData(h.Data))
	h.Data = nil
	return h.dev.api.MemFreeHost(p)
}
