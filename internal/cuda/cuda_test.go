package cuda_test

import (
	"errors"
	"strings"
	"testing"

	"fedrspo/internal/cuda"
	"fedrspo/internal/cuda/cudatest"
	"fedrspo/internal/cuda/driver"
	"fedrspo/internal/cuda/kernels"
)

var one = driver.Dim{X: 1, Y: 1, Z: 1}

func check(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// device returns device 0, current on this thread.
func device(t testing.TB) *cuda.Device {
	t.Helper()
	cudatest.Setup(t)
	d, err := cuda.Open(0)
	check(t, err)
	check(t, d.Enter())
	t.Cleanup(d.Leave)
	return d
}

// TestDevices: each device is described, and what cannot be used says why.
func TestDevices(t *testing.T) {
	device(t)
	list, err := cuda.Devices()
	check(t, err)
	if len(list) == 0 || list[0].Name == "" || list[0].Problem != "" || list[0].Memory == 0 {
		t.Errorf("devices %+v", list)
	}
	if n, err := cuda.Choose("cuda"); err != nil || n != 0 {
		t.Errorf("the first device is %d, error %v", n, err)
	}
	if _, err := cuda.Choose("cuda:99"); !errors.Is(err, cuda.ErrUnavailable) || !strings.Contains(err.Error(), `"cuda:99", want cuda:0 to cuda:`) {
		t.Errorf("device 99: %v", err)
	}
}

// TestUnusable: reasons come with what to do.
func TestUnusable(t *testing.T) {
	device(t)
	restore := func(name string, value int) { t.Cleanup(func() { cudatest.Set(t, name, value) }) }
	for _, c := range []struct {
		name         string
		value, usual int
		want         string
	}{
		{"version", 11040, 13000, "the driver knows CUDA 11.4, and the kernels need 11.8"},
		{"capability", 61, 90, "compute capability 6.1, and the kernels need 7.5"},
		{"devices", 0, 1, "finds no device"},
	} {
		restore(c.name, c.usual)
		cudatest.Set(t, c.name, c.value)
		if _, err := cuda.Choose("cuda"); !errors.Is(err, cuda.ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s %d: error %v, want one with %q", c.name, c.value, err, c.want)
		}
		if c.name != "devices" {
			if _, err := cuda.Choose("cuda:0"); !errors.Is(err, cuda.ErrUnavailable) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s %d, by number: error %v, want one with %q", c.name, c.value, err, c.want)
			}
		}
		cudatest.Set(t, c.name, c.usual)
	}
}

// TestPool: freed memory is used again, and given to others before a request
// fails; the failure says how much there is and what to do.
func TestPool(t *testing.T) {
	d := device(t)
	a, err := d.Alloc(1000)
	check(t, err)
	d.Free(a)
	b, err := d.Alloc(1001)
	check(t, err)
	if a.Ptr != b.Ptr {
		t.Error("memory of one size class was not used again")
	}
	d.Free(b)
	d.Drain()
	live := cudatest.Get(t, "live")
	cudatest.Set(t, "memory", 1<<20)
	t.Cleanup(func() { cudatest.Set(t, "memory", 4<<30) })
	if a, err = d.Alloc(700 << 10); err != nil {
		t.Fatal(err)
	}
	_, err = d.Alloc(600 << 10)
	if !errors.Is(err, cuda.ErrMemory) {
		t.Fatalf("too much memory: error %v", err)
	}
	for _, want := range []string{"614400 bytes more", "of 1.0 MiB are free", "use a smaller batch", "device 0"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
	d.Free(a)
	if b, err = d.Alloc(600 << 10); err != nil {
		t.Errorf("memory of another size is still in the pool: %v", err)
	}
	d.Free(b)
	d.Drain()
	if n := cudatest.Get(t, "live"); n != live {
		t.Errorf("%d allocations live, before %d", n, live)
	}
}

// TestLaunch: arguments are checked against the PTX.
func TestLaunch(t *testing.T) {
	d := device(t)
	k, err := d.Load(kernels.Float64.String(), kernels.Float64.PTX())
	check(t, err)
	for _, args := range [][]cuda.Arg{
		{cuda.P(0), cuda.P(0)},
		{cuda.P(0), cuda.P(0), cuda.I(0)},
	} {
		s, err := d.NewStream()
		check(t, err)
		s.Launch(k["relu"], one, one, args...)
		if err := s.Sync(); err == nil || !strings.Contains(err.Error(), "kernel relu") {
			t.Errorf("arguments %v: error %v", args, err)
		}
		check(t, s.Close())
	}
	if _, err := d.Load("nothing", []byte("")); err == nil || !strings.Contains(err.Error(), "no kernels") {
		t.Errorf("an empty module: %v", err)
	}
}
