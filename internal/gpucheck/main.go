// Command gpucheck tries a CUDA device with what the module asks of it, from the
// driver to training steps, and stops at the first failure. scripts/gpu_check.sh
// runs it beside the tests.
package main

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"time"

	"fedrspo/internal/cuda"
	"fedrspo/internal/cuda/cublas"
	"fedrspo/internal/cuda/driver"
	"fedrspo/internal/cuda/kernels"
	"fedrspo/internal/stream"
	"fedrspo/nn"
	"fedrspo/resnet"

	"gorgonia.org/gorgonia"
)

// options are sizes; a rehearsal on the emulated device takes small ones.
type options struct {
	device                           string
	grid, batch, steps, timed, small int
	launches                         int
}

func main() {
	var o options
	flag.StringVar(&o.device, "device", "cuda", "device: cuda or cuda:N")
	flag.IntVar(&o.grid, "grid", 12, "side of the network's output")
	flag.IntVar(&o.batch, "batch", 64, "images in a step")
	flag.IntVar(&o.steps, "steps", 10, "training steps compared with the processor")
	flag.IntVar(&o.timed, "timed", 50, "training steps timed")
	flag.IntVar(&o.launches, "launches", 10000, "launches timed")
	flag.IntVar(&o.small, "product", 4096, "side of the matrix product that is timed")
	flag.Parse()
	for _, step := range []struct {
		name string
		run  func(options) error
	}{
		{"devices", devices}, {"kernels", load}, {"launches", launches}, {"products", products},
		{"training steps against the processor", compare}, {"training speed", speed},
	} {
		fmt.Printf("== %s\n", step.name)
		if err := step.run(o); err != nil {
			fmt.Fprintf(os.Stderr, "gpucheck: %s: %v\n", step.name, err)
			os.Exit(1)
		}
	}
}

func devices(o options) error {
	for _, line := range nn.DeviceReport() {
		fmt.Println(line)
	}
	_, err := cuda.Choose(o.device)
	return err
}

// open returns the device with its context on this thread, and a stream.
func open(o options) (*cuda.Device, *cuda.Stream, error) {
	n, err := cuda.Choose(o.device)
	if err != nil {
		return nil, nil, err
	}
	d, err := cuda.Open(n)
	if err != nil {
		return nil, nil, err
	}
	if err := d.Enter(); err != nil { // for good: the program has one thread of work
		return nil, nil, err
	}
	s, err := d.NewStream()
	return d, s, err
}

// load times the driver's compiler, or its cache.
func load(o options) error {
	d, s, err := open(o)
	if err != nil {
		return err
	}
	for _, e := range []kernels.Elem{kernels.Float32, kernels.Float64} {
		start := time.Now()
		k, err := d.Load(e.String(), e.PTX())
		if err != nil {
			return err
		}
		fmt.Printf("%d kernels for %v loaded in %v\n", len(k), e, time.Since(start).Round(time.Millisecond))
	}
	return s.Close()
}

func launches(o options) error {
	d, s, err := open(o)
	if err != nil {
		return err
	}
	q, err := kernels.NewQueue(s, kernels.Float32, kernels.Options{OwnProducts: true})
	if err != nil {
		return err
	}
	m, err := d.Alloc(4)
	if err != nil {
		return err
	}
	defer d.Free(m)
	s.Zero(m.Ptr, 4)
	start := time.Now()
	for range o.launches {
		q.ReLU(m.Ptr, m.Ptr, 1)
	}
	queued := time.Since(start)
	if err := s.Sync(); err != nil {
		return err
	}
	fmt.Printf("%d launches queued in %v each, done in %v each\n", o.launches, queued/time.Duration(o.launches), time.Since(start)/time.Duration(o.launches))
	start = time.Now()
	for range o.launches / 10 {
		q.ReLU(m.Ptr, m.Ptr, 1)
		if err := s.Sync(); err != nil {
			return err
		}
	}
	fmt.Printf("a launch and a wait for it: %v\n", time.Since(start)/time.Duration(max(1, o.launches/10)))
	return errors.Join(q.Close(), s.Close())
}

// products compares matrix products with float64 on the processor at a small
// size, and times them at a large one.
func products(o options) error {
	d, s, err := open(o)
	if err != nil {
		return err
	}
	if name, err := cublas.Find(); err != nil {
		fmt.Println(err)
	} else {
		fmt.Println("cuBLAS is", name)
	}
	for _, c := range []struct {
		name string
		kernels.Options
		bound float64
	}{
		{"own kernels", kernels.Options{OwnProducts: true}, 1e-6},
		{"cuBLAS float32", kernels.Options{}, 1e-6},
		{"cuBLAS TF32", kernels.Options{TF32: true}, 2e-3},
	} {
		q, err := kernels.NewQueue(s, kernels.Float32, c.Options)
		if errors.Is(err, cublas.ErrMissing) {
			fmt.Println(c.name, "left out")
			continue
		}
		if err != nil {
			return err
		}
		off, err := accuracy(d, q)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		if !(off <= c.bound) {
			return fmt.Errorf("%s: a product is %.2g off, and at most %.2g is rounding", c.name, off, c.bound)
		}
		rate, err := speedOf(d, q, o.small)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		fmt.Printf("%s: relative error %.2g, %.1f TFLOPS at %d cubed\n", c.name, off, rate, o.small)
		if err := q.Close(); err != nil {
			return err
		}
	}
	return s.Close()
}

// accuracy returns the relative error of a product, in the Euclidean norm.
func accuracy(d *cuda.Device, q *kernels.Queue) (float64, error) {
	const m, n, k = 190, 170, 210 // more than the own kernel alone would do
	h, err := cuda.NewHost[float32](d, m*k+k*n+m*n)
	if err != nil {
		return 0, err
	}
	defer h.Close()
	mem, err := d.Alloc(uint64(4 * len(h.Data)))
	if err != nil {
		return 0, err
	}
	defer d.Free(mem)
	r := stream.New(stream.Key{Purpose: "product"})
	for i := range h.Data {
		h.Data[i] = float32(r.NormFloat64())
	}
	a, b, c := h.Data[:m*k], h.Data[m*k:][:k*n], h.Data[m*k+k*n:]
	pa, pb, pc := mem.Ptr, mem.Ptr+4*m*k, mem.Ptr+4*(m*k+k*n)
	cuda.Upload(q.Stream, pa, h.Data)
	q.Gemm(m, n, k, kernels.Matrix{Ptr: pa, Stride: k}, kernels.Matrix{Ptr: pb, Stride: n}, pc, n, kernels.Epilogue{})
	cuda.Download(q.Stream, c, pc)
	if err := q.Sync(); err != nil {
		return 0, err
	}
	diff, norm := 0.0, 0.0
	for i := range m {
		for j := range n {
			want := 0.0
			for l := range k {
				want += float64(a[i*k+l]) * float64(b[l*n+j])
			}
			e := float64(c[i*n+j]) - want
			diff, norm = diff+e*e, norm+want*want
		}
	}
	return math.Sqrt(diff / norm), nil
}

// speedOf returns 10^12 operations a second of a square product.
func speedOf(d *cuda.Device, q *kernels.Queue, side int) (float64, error) {
	bytes := 4 * side * side
	mem, err := d.Alloc(uint64(3 * bytes))
	if err != nil {
		return 0, err
	}
	defer d.Free(mem)
	q.Zero(mem.Ptr, mem.Bytes)
	product := func() {
		q.Gemm(side, side, side, kernels.Matrix{Ptr: mem.Ptr, Stride: side}, kernels.Matrix{Ptr: mem.Ptr + driver.Ptr(bytes), Stride: side}, mem.Ptr+driver.Ptr(2*bytes), side, kernels.Epilogue{})
	}
	product()
	if err := q.Sync(); err != nil {
		return 0, err
	}
	const runs = 5
	start := time.Now()
	for range runs {
		product()
	}
	err = q.Sync()
	return runs * 2 * math.Pow(float64(side), 3) / time.Since(start).Seconds() / 1e12, err
}

// trainer is a session with data.
type trainer struct {
	nn.Session
	batch int
}

// newTrainer returns the paper's network for maps on a device, nil for the
// processor, with the same images, targets and parameters every time.
func newTrainer(o options, d *nn.Device) (*trainer, error) {
	m, err := resnet.New(resnet.Config{Grid: o.grid})
	if err != nil {
		return nil, err
	}
	r := stream.New(stream.Key{Purpose: "network"})
	targets := make([]float32, o.batch*m.Out())
	for i := range targets {
		targets[i] = float32(r.Float64())
	}
	s, err := nn.NewSession(nn.SessionConfig{Model: m, Batch: o.batch, Precision: nn.Float32, Device: d, Threads: 4,
		Loss: func(out *gorgonia.Node) (*gorgonia.Node, error) { return meanSquares(out, targets) }})
	if err != nil {
		return nil, err
	}
	theta := make([]float64, m.Layout().Len())
	m.Init(theta, r)
	s.Load(theta)
	s.ResetOptimizer()
	x := make([]float32, m.In())
	for i := range o.batch {
		for k := range x {
			x[k] = float32(r.NormFloat64())
		}
		s.SetRow32(i, x)
	}
	return &trainer{s, o.batch}, nil
}

func (t *trainer) step() (float64, error) {
	loss, err := t.Gradient(t.batch)
	if err == nil {
		err = t.Update(nn.Adam{Clip: 1}, 1e-3)
	}
	return loss, err
}

// compare takes training steps on the processor and on the device. Their losses
// differ by rounding, which steps amplify.
func compare(o options) error {
	d, err := nn.OpenDevice(o.device, false)
	if err != nil {
		return err
	}
	cpu, err := newTrainer(o, nil)
	if err != nil {
		return err
	}
	gpu, err := newTrainer(o, d)
	if err != nil {
		return err
	}
	for step := range o.steps {
		want, err := cpu.step()
		if err != nil {
			return err
		}
		got, err := gpu.step()
		if err != nil {
			return err
		}
		off := math.Abs(got-want) / want
		fmt.Printf("step %d: loss %.7f on the processor, %.7f on the device, %.1e apart\n", step, want, got, off)
		if bound := 1e-4 * float64(step+1); !(off <= bound) {
			return fmt.Errorf("step %d: the losses are %.2g apart, and at most %.2g is rounding", step, off, bound)
		}
	}
	return errors.Join(cpu.Close(), gpu.Close())
}

// speed times training steps, each with the upload of its images.
func speed(o options) error {
	for _, tf32 := range []bool{false, true} {
		d, err := nn.OpenDevice(o.device, tf32)
		if err != nil {
			fmt.Println("left out:", err)
			continue
		}
		t, err := newTrainer(o, d)
		if err != nil {
			return err
		}
		for range 3 {
			if _, err := t.step(); err != nil {
				return err
			}
		}
		start := time.Now()
		for range o.timed {
			if _, err := t.step(); err != nil {
				return err
			}
		}
		took := time.Since(start).Seconds() / float64(o.timed)
		fmt.Printf("%v: %.3f ms a training step of %d images, %.0f img/s\n", d, 1e3*took, o.batch, float64(o.batch)/took)
		if err := t.Close(); err != nil {
			return err
		}
	}
	return nil
}
