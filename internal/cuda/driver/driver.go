// Package driver calls the CUDA driver API, libcuda.so.1, through one interface
// of the functions that this module needs.
//
// The default implementation opens the library when the program runs, by
// github.com/ebitengine/purego and without cgo: one binary serves machines with
// and without a GPU. The build tag cu chooses one over gorgonia.org/cu, with
// cgo, which links the library instead (README.md says how). The build tag
// nocuda leaves both out, which makes a static binary; there, and on other
// systems than Linux on amd64 and arm64, [Open] returns [ErrUnsupported].
//
// The environment variable FEDRSPO_LIBCUDA names another library file to open,
// such as the one of a container or of a test.
package driver

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"
)

// LibraryVariable is the environment variable that names the driver library.
const LibraryVariable = "FEDRSPO_LIBCUDA"

var (
	// ErrUnsupported says that this build of the program has no CUDA at all.
	ErrUnsupported = errors.New("this build of the program has no CUDA")
	// ErrNoDriver says that there is no usable CUDA driver on this machine.
	ErrNoDriver = errors.New("no usable CUDA driver")
)

// Handles of the driver. Those of a context may be used in that context only.
type (
	// Device is a device, found by its ordinal.
	Device int32
	// Context holds the state of a device for this process.
	Context uintptr
	// Stream is a queue of work that runs in order.
	Stream uintptr
	// Event is a mark in a stream.
	Event uintptr
	// Module is loaded code.
	Module uintptr
	// Function is a kernel of a module.
	Function uintptr
	// Ptr is an address in device memory; 0 is no address.
	Ptr uint64
)

// Attribute names a property of a device (CUdevice_attribute).
type Attribute int32

const (
	// Multiprocessors is the number of streaming multiprocessors.
	Multiprocessors Attribute = 16
	// ComputeMode is 0 for a device that processes share, 2 for one that
	// refuses all, 3 for one process at a time.
	ComputeMode Attribute = 20
	// CapabilityMajor is the compute capability before the point.
	CapabilityMajor Attribute = 75
	// CapabilityMinor is the compute capability behind the point.
	CapabilityMinor Attribute = 76
)

// API is the functions of the driver. Each bears the name of the C function
// without its prefix cu and without the suffix of its version. An error is an
// *[Error]. All are safe for concurrent use; those that work on memory, streams,
// events and modules need a context that is current on the calling thread, so
// that the caller holds runtime.LockOSThread.
type API interface {
	// Binding names the implementation: "purego" or "cu".
	Binding() string
	// Init initialises the driver; it comes before all others.
	Init() error
	// DriverGetVersion returns the newest CUDA version that the driver knows,
	// as 1000 major + 10 minor.
	DriverGetVersion() (int, error)
	DeviceGetCount() (int, error)
	DeviceGet(ordinal int) (Device, error)
	DeviceGetName(d Device) (string, error)
	DeviceGetAttribute(a Attribute, d Device) (int, error)
	// DeviceTotalMem returns the device's memory in bytes.
	DeviceTotalMem(d Device) (uint64, error)
	// DevicePrimaryCtxRetain returns the context that this process shares with
	// libraries such as cuBLAS.
	DevicePrimaryCtxRetain(d Device) (Context, error)
	DevicePrimaryCtxRelease(d Device) error
	// CtxSetCurrent makes a context current on the calling thread.
	CtxSetCurrent(c Context) error
	// MemGetInfo returns free and total device memory in bytes.
	MemGetInfo() (free, total uint64, err error)
	// MemAlloc returns n bytes of device memory.
	MemAlloc(n uint64) (Ptr, error)
	MemFree(p Ptr) error
	// MemAllocHost returns n bytes of page-locked host memory.
	MemAllocHost(n uint64) (unsafe.Pointer, error)
	MemFreeHost(p unsafe.Pointer) error
	// The copies take bytes and are queued in a stream; host memory is from
	// MemAllocHost and must stay as it is until the copy is done.
	MemcpyHtoDAsync(dst Ptr, src unsafe.Pointer, n uint64, s Stream) error
	MemcpyDtoHAsync(dst unsafe.Pointer, src Ptr, n uint64, s Stream) error
	MemcpyDtoDAsync(dst, src Ptr, n uint64, s Stream) error
	// MemsetD8Async sets n bytes.
	MemsetD8Async(dst Ptr, value byte, n uint64, s Stream) error
	// StreamCreate returns a stream that does not wait for the default stream.
	StreamCreate() (Stream, error)
	StreamDestroy(s Stream) error
	// StreamSynchronize waits for all work of a stream, and returns the error
	// of any of it.
	StreamSynchronize(s Stream) error
	EventCreate() (Event, error)
	EventDestroy(e Event) error
	EventRecord(e Event, s Stream) error
	EventSynchronize(e Event) error
	// EventElapsedTime returns the milliseconds between two events that have
	// passed, with a resolution of about half a microsecond.
	EventElapsedTime(start, end Event) (float64, error)
	// ModuleLoadData loads PTX, a cubin or a fatbin; the error has the log of
	// the compiler.
	ModuleLoadData(image []byte) (Module, error)
	ModuleUnload(m Module) error
	ModuleGetFunction(m Module, name string) (Function, error)
	// LaunchKernel queues a kernel. params are pointers to the arguments, each
	// in a slot of eight bytes; the driver copies them before it returns. They
	// lie outside the stack.
	LaunchKernel(f Function, grid, block Dim, s Stream, params []unsafe.Pointer) error
}

// Dim is the size of a grid in blocks, or of a block in threads.
type Dim struct{ X, Y, Z uint32 }

// Result is what a function of the driver returned, a CUresult.
type Result int32

// Results that callers tell apart.
const (
	OutOfMemory Result = 2
	NoDevice    Result = 100
)

var resultNames = map[Result]string{
	1: "invalid value", 2: "out of memory", 3: "not initialized", 4: "the driver is shutting down",
	34: "the library is a stub, not a driver", 46: "device unavailable", 100: "no device", 101: "invalid device",
	200: "invalid image", 201: "no context is current", 205: "map failed", 209: "no code for this device", 218: "invalid PTX",
	222: "PTX is newer than the driver", 300: "invalid source", 304: "operating system error", 400: "invalid handle",
	500: "named symbol not found", 600: "not ready", 700: "illegal address", 701: "out of resources for this launch",
	702: "launch timed out", 715: "illegal instruction", 716: "misaligned address", 717: "invalid address space",
	718: "invalid program counter", 719: "launch failed", 800: "not permitted", 801: "not supported",
	802: "system not ready", 803: "driver and display driver do not match", 804: "compatibility mode on unsupported hardware",
	999: "unknown error",
}

// String returns a description in words with the number.
func (r Result) String() string {
	if s, ok := resultNames[r]; ok {
		return fmt.Sprintf("%s (CUDA error %d)", s, int32(r))
	}
	return fmt.Sprintf("CUDA error %d", int32(r))
}

// Error is a call of the driver that failed.
type Error struct {
	// Call is the C function, such as cuMemAlloc, and Detail what it was about;
	// Detail may be empty.
	Call, Detail string
	Result       Result
}

// Error names the call, the result in words and what it was about.
func (e *Error) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("%s: %v", e.Call, e.Result)
	}
	return fmt.Sprintf("%s: %v: %s", e.Call, e.Result, e.Detail)
}

// Is says whether err is an *Error with result r.
func Is(err error, r Result) bool {
	var e *Error
	return errors.As(err, &e) && e.Result == r
}

// failed returns the error of a call, nil for result 0.
func failed(call string, result int32, detail string) error {
	if result == 0 {
		return nil
	}
	return &Error{Call: call, Detail: detail, Result: Result(result)}
}

var opened struct {
	sync.Once
	api API
	err error
}

// Open loads and initialises the driver, once in a process. The error wraps
// ErrUnsupported or ErrNoDriver.
func Open() (API, error) {
	opened.Do(func() {
		opened.api, opened.err = open()
		if opened.err != nil {
			return
		}
		if err := opened.api.Init(); err != nil {
			opened.api, opened.err = nil, fmt.Errorf("%w: %w", ErrNoDriver, err)
		}
	})
	return opened.api, opened.err
}
