package driver_test

import (
	"bytes"
	"errors"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"fedrspo/internal/cuda/cudatest"
	"fedrspo/internal/cuda/driver"
	"fedrspo/internal/cuda/kernels"
)

// open returns the driver with a context of device 0 on this thread.
func open(t testing.TB) driver.API {
	t.Helper()
	cudatest.Setup(t)
	api, err := driver.Open()
	if err != nil {
		t.Fatal(err)
	}
	runtime.LockOSThread()
	t.Cleanup(runtime.UnlockOSThread)
	d := must(api.DeviceGet(0))(t)
	check(t, api.CtxSetCurrent(must(api.DevicePrimaryCtxRetain(d))(t)))
	t.Cleanup(func() { check(t, api.CtxSetCurrent(0), api.DevicePrimaryCtxRelease(d)) })
	return api
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		check(t, err)
		return v
	}
}

func check(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// TestDevices: what is found is described.
func TestDevices(t *testing.T) {
	api := open(t)
	if v := must(api.DriverGetVersion())(t); v < 11080 {
		t.Errorf("version %d", v)
	}
	if n := must(api.DeviceGetCount())(t); n < 1 {
		t.Errorf("%d devices", n)
	}
	if name := must(api.DeviceGetName(0))(t); name == "" || strings.ContainsRune(name, 0) {
		t.Errorf("name %q", name)
	}
	if n := must(api.DeviceTotalMem(0))(t); n < 1<<30 {
		t.Errorf("%d bytes", n)
	}
	if v := must(api.DeviceGetAttribute(driver.CapabilityMajor, 0))(t); v < 5 || v > 30 {
		t.Errorf("compute capability %d", v)
	}
	free, total, err := api.MemGetInfo()
	if check(t, err); free > total || total < 1<<30 {
		t.Errorf("%d of %d bytes free", free, total)
	}
	var e *driver.Error
	if _, err := api.DeviceGet(99); !errors.As(err, &e) || e.Call != "cuDeviceGet" || e.Result != 101 {
		t.Errorf("device 99: %v", err)
	}
}

// TestCopies: bytes survive the way to the device, between two places there, and
// back, through a stream.
func TestCopies(t *testing.T) {
	api := open(t)
	const n = 100_003
	s := must(api.StreamCreate())(t)
	h := must(api.MemAllocHost(n))(t)
	a, b := must(api.MemAlloc(n))(t), must(api.MemAlloc(n))(t)
	host := unsafe.Slice((*byte)(h), n)
	want := make([]byte, n)
	for i := range want {
		want[i] = byte(i * 7 % 251)
	}
	copy(host, want)
	check(t, api.MemcpyHtoDAsync(a, h, n, s), api.MemcpyDtoDAsync(b, a, n, s), api.MemsetD8Async(a, 9, n, s), api.StreamSynchronize(s))
	clear(host)
	check(t, api.MemcpyDtoHAsync(h, b, n, s), api.StreamSynchronize(s))
	if !bytes.Equal(host, want) {
		t.Error("the bytes that came back differ")
	}
	check(t, api.MemcpyDtoHAsync(h, a+1, n-1, s), api.StreamSynchronize(s))
	if host[0] != 9 || host[n-2] != 9 {
		t.Errorf("bytes set to 9 are %d and %d", host[0], host[n-2])
	}
	check(t, api.MemFree(a), api.MemFree(b), api.MemFreeHost(h), api.StreamDestroy(s))
}

// TestLaunch: a kernel of two pointers, an int and a double computes.
func TestLaunch(t *testing.T) {
	api := open(t)
	s := must(api.StreamCreate())(t)
	m := must(api.ModuleLoadData(kernels.Float32.PTX()))(t)
	f := must(api.ModuleGetFunction(m, "proximal"))(t)
	const n = 1000
	h := must(api.MemAllocHost(16 * n))(t)
	d := must(api.MemAlloc(16 * n))(t)
	g, p := unsafe.Slice((*float32)(h), n), unsafe.Slice((*float32)(unsafe.Add(h, 4*n)), n)
	ref := unsafe.Slice((*float64)(unsafe.Add(h, 8*n)), n)
	for i := range n {
		g[i], p[i], ref[i] = 1, float32(i), 2
	}
	check(t, api.MemcpyHtoDAsync(d, h, 16*n, s))
	mu := 0.5
	slots := []uint64{uint64(d), uint64(d + 4*n), uint64(d + 8*n), *(*uint64)(unsafe.Pointer(&mu)), n}
	params := make([]unsafe.Pointer, len(slots))
	for i := range slots {
		params[i] = unsafe.Pointer(&slots[i])
	}
	start, end := must(api.EventCreate())(t), must(api.EventCreate())(t)
	check(t, api.EventRecord(start, s), api.LaunchKernel(f, driver.Dim{X: 3, Y: 1, Z: 1}, driver.Dim{X: 64, Y: 1, Z: 1}, s, params),
		api.EventRecord(end, s), api.EventSynchronize(end), api.MemcpyDtoHAsync(h, d, 4*n, s), api.StreamSynchronize(s))
	for i, v := range g {
		if want := 1 + 0.5*(float32(i)-2); v != want {
			t.Fatalf("element %d is %v, want %v", i, v, want)
		}
	}
	if ms := must(api.EventElapsedTime(start, end))(t); !(ms > 0) {
		t.Errorf("the kernel took %v ms", ms)
	}
	check(t, api.EventDestroy(start), api.EventDestroy(end), api.MemFree(d), api.MemFreeHost(h), api.ModuleUnload(m), api.StreamDestroy(s))
}

// TestErrors: each names the call, the result in words, and what it was about.
func TestErrors(t *testing.T) {
	api := open(t)
	for _, c := range []struct {
		name string
		want []string
		call func() error
	}{
		{"more memory than there is", []string{"cuMemAlloc", "out of memory", "1152921504606846976 bytes"}, func() error { _, err := api.MemAlloc(1 << 60); return err }},
		{"a broken image", []string{"cuModuleLoadData", "invalid"}, func() error { _, err := api.ModuleLoadData([]byte("no PTX")); return err }},
		{"an unknown kernel", []string{"cuModuleGetFunction", "symbol not found", "kernel nothing"}, func() error {
			m := must(api.ModuleLoadData(kernels.Float64.PTX()))(t)
			defer api.ModuleUnload(m)
			_, err := api.ModuleGetFunction(m, "nothing")
			return err
		}},
	} {
		err := c.call()
		var e *driver.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: error %v", c.name, err)
			continue
		}
		for _, w := range c.want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: error %q lacks %q", c.name, err, w)
			}
		}
	}
	if _, err := api.MemAlloc(1 << 60); !driver.Is(err, driver.OutOfMemory) {
		t.Errorf("not told apart: %v", err)
	}
}

// TestNoContext: a thread without a context gets an error, not a crash.
func TestNoContext(t *testing.T) {
	api := open(t)
	check(t, api.CtxSetCurrent(0))
	if _, err := api.MemAlloc(1); !driver.Is(err, 201) {
		t.Errorf("memory without a context: %v", err)
	}
}

// TestAllocations: what a training step calls again and again leaves the garbage
// collector alone.
func TestAllocations(t *testing.T) {
	if race {
		t.Skip("the race detector allocates")
	}
	api := open(t)
	if api.Binding() != "purego" {
		t.Skip("package cu copies the arguments of a launch to memory of its own")
	}
	s := must(api.StreamCreate())(t)
	m := must(api.ModuleLoadData(kernels.Float32.PTX()))(t)
	f := must(api.ModuleGetFunction(m, "to_double"))(t)
	h, d := must(api.MemAllocHost(64))(t), must(api.MemAlloc(64))(t)
	slots := []uint64{uint64(d), uint64(d), 1}
	params := []unsafe.Pointer{unsafe.Pointer(&slots[0]), unsafe.Pointer(&slots[1]), unsafe.Pointer(&slots[2])}
	if n := testing.AllocsPerRun(50, func() {
		for _, err := range [...]error{
			api.MemcpyHtoDAsync(d, h, 64, s),
			api.LaunchKernel(f, driver.Dim{X: 1, Y: 1, Z: 1}, driver.Dim{X: 32, Y: 1, Z: 1}, s, params),
			api.StreamSynchronize(s),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	check(t, api.MemFree(d), api.MemFreeHost(h), api.ModuleUnload(m), api.StreamDestroy(s))
}

// BenchmarkLaunch is the time that a launch costs the calling thread.
func BenchmarkLaunch(b *testing.B) {
	api := open(b)
	s := must(api.StreamCreate())(b)
	m := must(api.ModuleLoadData(kernels.Float32.PTX()))(b)
	f := must(api.ModuleGetFunction(m, "relu"))(b)
	d := must(api.MemAlloc(64))(b)
	slots := []uint64{uint64(d), uint64(d), 1}
	params := []unsafe.Pointer{unsafe.Pointer(&slots[0]), unsafe.Pointer(&slots[1]), unsafe.Pointer(&slots[2])}
	for b.Loop() {
		check(b, api.LaunchKernel(f, driver.Dim{X: 1, Y: 1, Z: 1}, driver.Dim{X: 1, Y: 1, Z: 1}, s, params))
	}
	check(b, api.StreamSynchronize(s))
}

// BenchmarkCall is the time of a call that does next to nothing.
func BenchmarkCall(b *testing.B) {
	api := open(b)
	d := must(api.DeviceGet(0))(b)
	c := must(api.DevicePrimaryCtxRetain(d))(b)
	for b.Loop() {
		if err := api.CtxSetCurrent(c); err != nil {
			b.Fatal(err)
		}
	}
	check(b, api.DevicePrimaryCtxRelease(d))
}
