package cuda

import (
	"fmt"
	"math"
	"unsafe"

	"fedrspo/internal/cuda/driver"
)

// Stream is a queue of work on a device. It keeps the first error: after one,
// further work is dropped.
type Stream struct {
	dev    *Device
	handle driver.Stream
	err    error
	// The arguments of a launch, each in a slot of eight bytes, and their
	// addresses.
	slots  [maxArguments]uint64
	params [maxArguments]unsafe.Pointer
}

// maxArguments is the most parameters that a kernel has.
const maxArguments = 20

// NewStream returns an empty stream.
func (d *Device) NewStream() (*Stream, error) {
	h, err := d.api.StreamCreate()
	if err != nil {
		return nil, d.wrap(err)
	}
	s := &Stream{dev: d, handle: h}
	for i := range s.slots {
		s.params[i] = unsafe.Pointer(&s.slots[i])
	}
	return s, nil
}

// Device returns the stream's device.
func (s *Stream) Device() *Device { return s.dev }

// Handle returns the driver's handle, for libraries.
func (s *Stream) Handle() driver.Stream { return s.handle }

// Close destroys the stream after its work is done.
func (s *Stream) Close() error { return s.dev.api.StreamDestroy(s.handle) }

// Err returns the first error of queueing work.
func (s *Stream) Err() error { return s.err }

// Fail makes err the stream's error, unless it has one or err is nil.
func (s *Stream) Fail(err error) {
	if s.err == nil && err != nil {
		s.err = s.dev.wrap(err)
	}
}

// Sync waits until all work is done and returns the first error.
func (s *Stream) Sync() error {
	if s.err == nil {
		s.Fail(s.dev.api.StreamSynchronize(s.handle))
	}
	return s.err
}

// Upload copies page-locked host memory, which stays as it is until the copy is
// done, to the device.
func Upload[T any](s *Stream, dst driver.Ptr, src []T) {
	if s.err == nil && len(src) > 0 {
		s.Fail(s.dev.api.MemcpyHtoDAsync(dst, unsafe.Pointer(&src[0]), bytes(src), s.handle))
	}
}

// Download copies from the device to page-locked host memory.
func Download[T any](s *Stream, dst []T, src driver.Ptr) {
	if s.err == nil && len(dst) > 0 {
		s.Fail(s.dev.api.MemcpyDtoHAsync(unsafe.Pointer(&dst[0]), src, bytes(dst), s.handle))
	}
}

func bytes[T any](x []T) uint64 { return uint64(len(x)) * uint64(unsafe.Sizeof(x[0])) }

// Copy copies n bytes on the device.
func (s *Stream) Copy(dst, src driver.Ptr, n uint64) {
	if s.err == nil && n > 0 {
		s.Fail(s.dev.api.MemcpyDtoDAsync(dst, src, n, s.handle))
	}
}

// Zero sets n bytes to zero.
func (s *Stream) Zero(dst driver.Ptr, n uint64) {
	if s.err == nil && n > 0 {
		s.Fail(s.dev.api.MemsetD8Async(dst, 0, n, s.handle))
	}
}

// Arg is an argument of a kernel.
type Arg struct {
	bits uint64
	size uint8
}

// P is a pointer argument; the zero address is null.
func P(p driver.Ptr) Arg { return Arg{uint64(p), 8} }

// I is an int.
func I(n int) Arg { return Arg{uint64(uint32(int32(n))), 4} }

// L is a long long.
func L(n int) Arg { return Arg{uint64(n), 8} }

// D is a double.
func D(x float64) Arg { return Arg{math.Float64bits(x), 8} }

// B is an int that is 1 for true.
func B(x bool) Arg {
	if x {
		return I(1)
	}
	return I(0)
}

// Launch queues a kernel. Arguments that do not fit its parameters are an error.
func (s *Stream) Launch(k *Kernel, grid, block driver.Dim, args ...Arg) {
	if s.err != nil {
		return
	}
	if len(args) != len(k.sizes) || len(args) > maxArguments {
		s.Fail(fmt.Errorf("kernel %s: %d arguments, want %d", k.name, len(args), len(k.sizes)))
		return
	}
	for i, a := range args {
		if a.size != k.sizes[i] {
			s.Fail(fmt.Errorf("kernel %s: argument %d has %d bytes, want %d", k.name, i, a.size, k.sizes[i]))
			return
		}
		s.slots[i] = a.bits
	}
	if err := s.dev.api.LaunchKernel(k.function, grid, block, s.handle, s.params[:len(args)]); err != nil {
		s.Fail(fmt.Errorf("kernel %s with a grid of %dx%dx%d blocks: %w", k.name, grid.X, grid.Y, grid.Z, err))
	}
}
