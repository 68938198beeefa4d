//go:build linux && (amd64 || arm64) && !nocuda && !(cu && cgo)

package driver

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
)

// libraryNames are where drivers and container runtimes put libcuda.
var libraryNames = []string{"libcuda.so.1", "/usr/local/nvidia/lib64/libcuda.so.1", "/usr/lib/wsl/lib/libcuda.so.1"}

func open() (API, error) {
	names := libraryNames
	if v := os.Getenv(LibraryVariable); v != "" {
		names = []string{v}
	}
	lib, err := OpenLibrary(names...)
	if err != nil {
		return nil, fmt.Errorf("%w: %w; install the NVIDIA driver, or set %s to its libcuda.so.1", ErrNoDriver, err, LibraryVariable)
	}
	p := &pure{}
	for _, f := range []struct {
		name string
		at   *uintptr
	}{
		{"cuInit", &p.init}, {"cuDriverGetVersion", &p.driverGetVersion},
		{"cuDeviceGetCount", &p.deviceGetCount}, {"cuDeviceGet", &p.deviceGet}, {"cuDeviceGetName", &p.deviceGetName},
		{"cuDeviceGetAttribute", &p.deviceGetAttribute}, {"cuDeviceTotalMem_v2", &p.deviceTotalMem},
		{"cuDevicePrimaryCtxRetain", &p.primaryCtxRetain}, {"cuDevicePrimaryCtxRelease_v2", &p.primaryCtxRelease},
		{"cuCtxSetCurrent", &p.ctxSetCurrent}, {"cuMemGetInfo_v2", &p.memGetInfo},
		{"cuMemAlloc_v2", &p.memAlloc}, {"cuMemFree_v2", &p.memFree},
		{"cuMemAllocHost_v2", &p.memAllocHost}, {"cuMemFreeHost", &p.memFreeHost},
		{"cuMemcpyHtoDAsync_v2", &p.memcpyHtoD}, {"cuMemcpyDtoHAsync_v2", &p.memcpyDtoH}, {"cuMemcpyDtoDAsync_v2", &p.memcpyDtoD},
		{"cuMemsetD8Async", &p.memsetD8},
		{"cuStreamCreate", &p.streamCreate}, {"cuStreamDestroy_v2", &p.streamDestroy}, {"cuStreamSynchronize", &p.streamSynchronize},
		{"cuEventCreate", &p.eventCreate}, {"cuEventDestroy_v2", &p.eventDestroy}, {"cuEventRecord", &p.eventRecord},
		{"cuEventSynchronize", &p.eventSynchronize}, {"cuEventElapsedTime", &p.eventElapsedTime},
		{"cuModuleLoadDataEx", &p.moduleLoadDataEx}, {"cuModuleUnload", &p.moduleUnload}, {"cuModuleGetFunction", &p.moduleGetFunction},
		{"cuLaunchKernel", &p.launchKernel},
	} {
		if *f.at, err = lib.Symbol(f.name); err != nil {
			return nil, fmt.Errorf("%w: %w; the driver may be too old, CUDA 11.8 (driver 520) or newer is needed", ErrNoDriver, err)
		}
	}
	return p, nil
}

// pure is the addresses of the driver's functions. The names are those of the
// library, which has a function of another name for each change of a signature.
type pure struct {
	init, driverGetVersion                                                       uintptr
	deviceGetCount, deviceGet, deviceGetName, deviceGetAttribute, deviceTotalMem uintptr
	primaryCtxRetain, primaryCtxRelease, ctxSetCurrent                           uintptr
	memGetInfo, memAlloc, memFree, memAllocHost, memFreeHost                     uintptr
	memcpyHtoD, memcpyDtoH, memcpyDtoD, memsetD8                                 uintptr
	streamCreate, streamDestroy, streamSynchronize                               uintptr
	eventCreate, eventDestroy, eventRecord, eventSynchronize, eventElapsedTime   uintptr
	moduleLoadDataEx, moduleUnload, moduleGetFunction                            uintptr
	launchKernel                                                                 uintptr
}

// call calls a function that returns a CUresult.
//
//go:uintptrescapes
func call(name string, f uintptr, args ...uintptr) error {
	r, _, _ := purego.SyscallN(f, args...)
	return failed(name, int32(r), "")
}

// hot is call without an allocation, for what every step of training calls. Go
// memory behind an address is on the heap, and the caller keeps it alive.
func hot(name string, f uintptr, args ...uintptr) error {
	b := buffers.Get().(*[11]uintptr)
	n := copy(b[:], args)
	r, _, _ := purego.SyscallN(f, b[:n]...)
	buffers.Put(b)
	return failed(name, int32(r), "")
}

var buffers = sync.Pool{New: func() any { return new([11]uintptr) }}

// at is the address of a variable that C writes to. The arguments of call keep
// it alive and off the stack.
func at[T any](p *T) unsafe.Pointer { return unsafe.Pointer(p) }

func (p *pure) Binding() string { return "purego" }

func (p *pure) Init() error { return call("cuInit", p.init, 0) }

func (p *pure) DriverGetVersion() (int, error) {
	var v int32
	err := call("cuDriverGetVersion", p.driverGetVersion, uintptr(at(&v)))
	return int(v), err
}

func (p *pure) DeviceGetCount() (int, error) {
	var n int32
	err := call("cuDeviceGetCount", p.deviceGetCount, uintptr(at(&n)))
	return int(n), err
}

func (p *pure) DeviceGet(ordinal int) (Device, error) {
	var d Device
	err := call("cuDeviceGet", p.deviceGet, uintptr(at(&d)), uintptr(ordinal))
	return d, err
}

func (p *pure) DeviceGetName(d Device) (string, error) {
	name := make([]byte, 256)
	err := call("cuDeviceGetName", p.deviceGetName, uintptr(unsafe.Pointer(&name[0])), uintptr(len(name)), uintptr(d))
	return cString(name), err
}

// cString returns the text before the first zero byte.
func cString(b []byte) string {
	if i := bytes.IndexByte(b, 0); i >= 0 {
		b = b[:i]
	}
	return string(b)
}

func (p *pure) DeviceGetAttribute(a Attribute, d Device) (int, error) {
	var v int32
	err := call("cuDeviceGetAttribute", p.deviceGetAttribute, uintptr(at(&v)), uintptr(a), uintptr(d))
	return int(v), err
}

func (p *pure) DeviceTotalMem(d Device) (uint64, error) {
	var n uint64
	err := call("cuDeviceTotalMem", p.deviceTotalMem, uintptr(at(&n)), uintptr(d))
	return n, err
}

func (p *pure) DevicePrimaryCtxRetain(d Device) (Context, error) {
	var c Context
	err := call("cuDevicePrimaryCtxRetain", p.primaryCtxRetain, uintptr(at(&c)), uintptr(d))
	return c, err
}

func (p *pure) DevicePrimaryCtxRelease(d Device) error {
	return call("cuDevicePrimaryCtxRelease", p.primaryCtxRelease, uintptr(d))
}

func (p *pure) CtxSetCurrent(c Context) error {
	return hot("cuCtxSetCurrent", p.ctxSetCurrent, uintptr(c))
}

func (p *pure) MemGetInfo() (free, total uint64, err error) {
	var v [2]uint64
	err = call("cuMemGetInfo", p.memGetInfo, uintptr(at(&v[0])), uintptr(at(&v[1])))
	return v[0], v[1], err
}

func (p *pure) MemAlloc(n uint64) (Ptr, error) {
	var d Ptr
	err := call("cuMemAlloc", p.memAlloc, uintptr(at(&d)), uintptr(n))
	return d, detailed(err, "%d bytes", n)
}

// detailed adds what a failed call was about.
func detailed(err error, format string, args ...any) error {
	if e, ok := err.(*Error); ok {
		e.Detail = fmt.Sprintf(format, args...)
	}
	return err
}

func (p *pure) MemFree(d Ptr) error { return call("cuMemFree", p.memFree, uintptr(d)) }

func (p *pure) MemAllocHost(n uint64) (unsafe.Pointer, error) {
	var h unsafe.Pointer // C memory, which the garbage collector ignores
	err := call("cuMemAllocHost", p.memAllocHost, uintptr(at(&h)), uintptr(n))
	return h, detailed(err, "%d bytes", n)
}

func (p *pure) MemFreeHost(h unsafe.Pointer) error {
	return call("cuMemFreeHost", p.memFreeHost, uintptr(h))
}

func (p *pure) MemcpyHtoDAsync(dst Ptr, src unsafe.Pointer, n uint64, s Stream) error {
	return hot("cuMemcpyHtoDAsync", p.memcpyHtoD, uintptr(dst), uintptr(src), uintptr(n), uintptr(s))
}

func (p *pure) MemcpyDtoHAsync(dst unsafe.Pointer, src Ptr, n uint64, s Stream) error {
	return hot("cuMemcpyDtoHAsync", p.memcpyDtoH, uintptr(dst), uintptr(src), uintptr(n), uintptr(s))
}

func (p *pure) MemcpyDtoDAsync(dst, src Ptr, n uint64, s Stream) error {
	return hot("cuMemcpyDtoDAsync", p.memcpyDtoD, uintptr(dst), uintptr(src), uintptr(n), uintptr(s))
}

func (p *pure) MemsetD8Async(dst Ptr, value byte, n uint64, s Stream) error {
	return hot("cuMemsetD8Async", p.memsetD8, uintptr(dst), uintptr(value), uintptr(n), uintptr(s))
}

// nonBlocking is CU_STREAM_NON_BLOCKING.
const nonBlocking = 1

func (p *pure) StreamCreate() (Stream, error) {
	var s Stream
	err := call("cuStreamCreate", p.streamCreate, uintptr(at(&s)), nonBlocking)
	return s, err
}

func (p *pure) StreamDestroy(s Stream) error {
	return call("cuStreamDestroy", p.streamDestroy, uintptr(s))
}

func (p *pure) StreamSynchronize(s Stream) error {
	return hot("cuStreamSynchronize", p.streamSynchronize, uintptr(s))
}

func (p *pure) EventCreate() (Event, error) {
	var e Event
	err := call("cuEventCreate", p.eventCreate, uintptr(at(&e)), 0)
	return e, err
}

func (p *pure) EventDestroy(e Event) error { return call("cuEventDestroy", p.eventDestroy, uintptr(e)) }

func (p *pure) EventRecord(e Event, s Stream) error {
	return call("cuEventRecord", p.eventRecord, uintptr(e), uintptr(s))
}

func (p *pure) EventSynchronize(e Event) error {
	return call("cuEventSynchronize", p.eventSynchronize, uintptr(e))
}

func (p *pure) EventElapsedTime(start, end Event) (float64, error) {
	var ms float32
	err := call("cuEventElapsedTime", p.eventElapsedTime, uintptr(at(&ms)), uintptr(start), uintptr(end))
	return float64(ms), err
}

// Options of cuModuleLoadDataEx.
const (
	jitErrorLog     = 5 // CU_JIT_ERROR_LOG_BUFFER
	jitErrorLogSize = 6 // CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES
)

func (p *pure) ModuleLoadData(image []byte) (Module, error) {
	image = append(image[:len(image):len(image)], 0) // PTX is a C string
	log := make([]byte, 8192)
	options := []int32{jitErrorLog, jitErrorLogSize}
	// The driver writes through an address that it reads from memory, which
	// keeps nothing alive.
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&log[0])
	values := []uintptr{uintptr(unsafe.Pointer(&log[0])), uintptr(len(log))}
	var m Module
	err := call("cuModuleLoadDataEx", p.moduleLoadDataEx, uintptr(at(&m)), uintptr(unsafe.Pointer(&image[0])), uintptr(len(options)),
		uintptr(unsafe.Pointer(&options[0])), uintptr(unsafe.Pointer(&values[0])))
	return m, detailed(err, "%s", cString(log))
}

func (p *pure) ModuleUnload(m Module) error {
	return call("cuModuleUnload", p.moduleUnload, uintptr(m))
}

func (p *pure) ModuleGetFunction(m Module, name string) (Function, error) {
	c := append([]byte(name), 0)
	var f Function
	err := call("cuModuleGetFunction", p.moduleGetFunction, uintptr(at(&f)), uintptr(m), uintptr(unsafe.Pointer(&c[0])))
	return f, detailed(err, "kernel %s", name)
}

func (p *pure) LaunchKernel(f Function, grid, block Dim, s Stream, params []unsafe.Pointer) error {
	err := hot("cuLaunchKernel", p.launchKernel, uintptr(f), uintptr(grid.X), uintptr(grid.Y), uintptr(grid.Z),
		uintptr(block.X), uintptr(block.Y), uintptr(block.Z), 0, uintptr(s), uintptr(unsafe.Pointer(unsafe.SliceData(params))), 0)
	runtime.KeepAlive(params)
	return err
}
