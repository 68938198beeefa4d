//go:build linux && (amd64 || arm64) && cu && cgo && !nocuda

package driver

// #include <cuda.h>
import "C"

import (
	"fmt"
	"unsafe"

	"gorgonia.org/cu"
)

// open returns the linked driver. The package cu has initialised it already:
// without a driver or a device the program ends before main.
func open() (API, error) { return linked{}, nil }

// linked is the driver through gorgonia.org/cu, and through C where that
// package lacks a function. Its handles are structures of one pointer.
type linked struct{}

// wrap turns one of our handles into one of cu's, and unwrap one of cu's into
// ours.
func wrap[T any, H ~uintptr](h H) T { return *(*T)(unsafe.Pointer(&h)) }

func unwrap[H ~uintptr, T any](v T) H { return *(*H)(unsafe.Pointer(&v)) }

// fromCu turns an error of cu, an integer of an unexported type, into ours.
func fromCu(name string, err error) error {
	if err == nil {
		return nil
	}
	var r int32
	if _, e := fmt.Sscan(fmt.Sprintf("%d", err), &r); e != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return failed(name, r, "")
}

func detailed(err error, format string, args ...any) error {
	if e, ok := err.(*Error); ok {
		e.Detail = fmt.Sprintf(format, args...)
	}
	return err
}

func (linked) Binding() string { return "cu" }

func (linked) Init() error { return failed("cuInit", int32(C.cuInit(0)), "") }

func (linked) DriverGetVersion() (int, error) {
	if v := cu.Version(); v >= 0 {
		return v, nil
	}
	return 0, failed("cuDriverGetVersion", int32(cu.Unknown), "")
}

func (linked) DeviceGetCount() (int, error) {
	n, err := cu.NumDevices()
	return n, fromCu("cuDeviceGetCount", err)
}

func (linked) DeviceGet(ordinal int) (Device, error) {
	d, err := cu.GetDevice(ordinal)
	return Device(d), fromCu("cuDeviceGet", err)
}

func (linked) DeviceGetName(d Device) (string, error) {
	name, err := cu.Device(d).Name()
	return name, fromCu("cuDeviceGetName", err)
}

func (linked) DeviceGetAttribute(a Attribute, d Device) (int, error) {
	v, err := cu.Device(d).Attribute(cu.DeviceAttribute(a))
	return v, fromCu("cuDeviceGetAttribute", err)
}

func (linked) DeviceTotalMem(d Device) (uint64, error) {
	n, err := cu.Device(d).TotalMem()
	return uint64(n), fromCu("cuDeviceTotalMem", err)
}

func (linked) DevicePrimaryCtxRetain(d Device) (Context, error) {
	c, err := cu.Device(d).RetainPrimaryCtx()
	return unwrap[Context](c), fromCu("cuDevicePrimaryCtxRetain", err)
}

func (linked) DevicePrimaryCtxRelease(d Device) error {
	return fromCu("cuDevicePrimaryCtxRelease", cu.Device(d).ReleasePrimaryCtx())
}

func (linked) CtxSetCurrent(c Context) error {
	return fromCu("cuCtxSetCurrent", cu.SetCurrentContext(wrap[cu.CUContext](c)))
}

func (linked) MemGetInfo() (free, total uint64, err error) {
	f, t, err := cu.MemInfo()
	return uint64(f), uint64(t), fromCu("cuMemGetInfo", err)
}

func (linked) MemAlloc(n uint64) (Ptr, error) {
	p, err := cu.MemAlloc(int64(n))
	return Ptr(p), detailed(fromCu("cuMemAlloc", err), "%d bytes", n)
}

func (linked) MemFree(p Ptr) error { return fromCu("cuMemFree", cu.MemFree(cu.DevicePtr(p))) }

func (linked) MemAllocHost(n uint64) (unsafe.Pointer, error) {
	var p unsafe.Pointer
	r := C.cuMemAllocHost(&p, C.size_t(n))
	return p, failed("cuMemAllocHost", int32(r), fmt.Sprintf("%d bytes", n))
}

func (linked) MemFreeHost(p unsafe.Pointer) error {
	return fromCu("cuMemFreeHost", cu.MemFreeHost(p))
}

func (linked) MemcpyHtoDAsync(dst Ptr, src unsafe.Pointer, n uint64, s Stream) error {
	return fromCu("cuMemcpyHtoDAsync", cu.MemcpyHtoDAsync(cu.DevicePtr(dst), src, int64(n), wrap[cu.Stream](s)))
}

func (linked) MemcpyDtoHAsync(dst unsafe.Pointer, src Ptr, n uint64, s Stream) error {
	return fromCu("cuMemcpyDtoHAsync", cu.MemcpyDtoHAsync(dst, cu.DevicePtr(src), int64(n), wrap[cu.Stream](s)))
}

func (linked) MemcpyDtoDAsync(dst, src Ptr, n uint64, s Stream) error {
	return fromCu("cuMemcpyDtoDAsync", cu.MemcpyDtoDAsync(cu.DevicePtr(dst), cu.DevicePtr(src), int64(n), wrap[cu.Stream](s)))
}

func (linked) MemsetD8Async(dst Ptr, value byte, n uint64, s Stream) error {
	return fromCu("cuMemsetD8Async", cu.MemsetD8Async(cu.DevicePtr(dst), value, int64(n), wrap[cu.Stream](s)))
}

func (linked) StreamCreate() (Stream, error) {
	s, err := cu.MakeStream(cu.NonBlocking)
	return unwrap[Stream](s), fromCu("cuStreamCreate", err)
}

func (linked) StreamDestroy(s Stream) error {
	h := wrap[cu.Stream](s)
	return fromCu("cuStreamDestroy", h.Destroy())
}

func (linked) StreamSynchronize(s Stream) error {
	return fromCu("cuStreamSynchronize", wrap[cu.Stream](s).Synchronize())
}

func (linked) EventCreate() (Event, error) {
	e, err := cu.MakeEvent(cu.DefaultEvent)
	return unwrap[Event](e), fromCu("cuEventCreate", err)
}

func (linked) EventDestroy(e Event) error {
	h := wrap[cu.Event](e)
	return fromCu("cuEventDestroy", cu.DestroyEvent(&h))
}

func (linked) EventRecord(e Event, s Stream) error {
	return fromCu("cuEventRecord", wrap[cu.Event](e).Record(wrap[cu.Stream](s)))
}

func (linked) EventSynchronize(e Event) error {
	return fromCu("cuEventSynchronize", wrap[cu.Event](e).Synchronize())
}

func (linked) EventElapsedTime(start, end Event) (float64, error) {
	ms, err := wrap[cu.Event](start).Elapsed(wrap[cu.Event](end))
	return ms, fromCu("cuEventElapsedTime", err)
}

// ModuleLoadData copies the image as a C string: cu loads PTX only.
func (linked) ModuleLoadData(image []byte) (Module, error) {
	m, err := cu.LoadData(string(image))
	return unwrap[Module](m), fromCu("cuModuleLoadData", err)
}

func (linked) ModuleUnload(m Module) error {
	return fromCu("cuModuleUnload", wrap[cu.Module](m).Unload())
}

func (linked) ModuleGetFunction(m Module, name string) (Function, error) {
	f, err := wrap[cu.Module](m).Function(name)
	return unwrap[Function](f), detailed(fromCu("cuModuleGetFunction", err), "kernel %s", name)
}

func (linked) LaunchKernel(f Function, grid, block Dim, s Stream, params []unsafe.Pointer) error {
	return fromCu("cuLaunchKernel", wrap[cu.Function](f).Launch(int(grid.X), int(grid.Y), int(grid.Z),
		int(block.X), int(block.Y), int(block.Z), 0, wrap[cu.Stream](s), params))
}
