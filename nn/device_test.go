package nn_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"fedrspo/internal/cuda"
	"fedrspo/internal/cuda/cudatest"
	"fedrspo/nn"
	"fedrspo/resnet"
)

// device returns the first CUDA device, emulated unless tests run on a real one.
func device(t testing.TB) *nn.Device {
	t.Helper()
	cudatest.Setup(t)
	d, err := nn.OpenDevice("cuda", false)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestDeviceImages compares every operation on images, as blocks and as layers,
// with plain loops and central differences, as the processor's are.
func TestDeviceImages(t *testing.T) {
	d := device(t)
	nets := imageNets()
	half := len(nets) / 2
	for i, blocks := range nets[:half] {
		want := newImageProblem(blocks, 3).expect()
		for _, m := range []*imageNet{blocks, nets[half+i]} {
			for _, precision := range []nn.Precision{nn.Float64, nn.Float32} {
				t.Run(fmt.Sprintf("%v/%v", m, precision), func(t *testing.T) {
					p := newImageProblem(m, 3)
					p.compare(t, p.session(t, nn.SessionConfig{Device: d, Precision: precision}), precision, want)
				})
			}
		}
	}
}

// pair trains a model on the processor and on the device, side by side, and
// compares parameters, gradients, losses and predictions after every step.
func pair(t *testing.T, m nn.Model, precision nn.Precision, batch, steps int, mu, tol float64) {
	t.Helper()
	r := rand.New(rand.NewPCG(7, 8))
	l := &target{rows: batch, t: normals(r, batch*m.Out())}
	theta := make([]float64, m.Layout().Len())
	m.Init(theta, r)
	for i, v := range theta {
		theta[i] = float64(float32(v))
	}
	sessions := [2]nn.Session{}
	for k, d := range []*nn.Device{nil, device(t)} {
		sessions[k] = newSession(t, nn.SessionConfig{Model: m, Batch: batch, Precision: precision, Loss: l.apply, Device: d})
		sessions[k].Load(theta)
		sessions[k].ResetOptimizer()
	}
	ref := slices.Clone(theta)
	for step := range steps {
		rows := batch - step%2*(batch/2)
		l.rows = rows
		for i := range rows {
			x := normals(r, m.In())
			for _, s := range sessions {
				s.SetRow(i, x)
			}
		}
		var loss [2]float64
		var grad, stored, y [2][]float64
		for k, s := range sessions {
			var err error
			if loss[k], err = s.Gradient(rows); err != nil {
				t.Fatal(err)
			}
			if mu > 0 {
				s.AddProximal(mu, ref)
			}
			grad[k] = make([]float64, m.Layout().Trainable())
			s.CopyGradient(grad[k])
			if err := s.Update(nn.Adam{Clip: 0.5, ClipGlobal: step == 2}, 1e-3); err != nil {
				t.Fatal(err)
			}
			stored[k] = make([]float64, len(theta))
			s.Store(stored[k])
			y[k] = predict(t, s, m, rows)
		}
		if d := relative(loss[1:], loss[:1]); !(d <= tol) {
			t.Errorf("step %d: losses %v on the processor and on the device, %.2g apart", step, loss, d)
		}
		for what, v := range map[string][2][]float64{"gradients": grad, "parameters": stored, "predictions": y} {
			if d := relative(v[1], v[0]); !(d <= tol) {
				t.Errorf("step %d: %s are %.2g apart, %.2g allowed", step, what, d, tol)
			}
		}
	}
}

// TestDeviceTraining: ten steps of the paper's networks and of their variants
// agree with the processor's to rounding, which steps amplify: Adam divides by
// the root of a moment that starts at zero.
func TestDeviceTraining(t *testing.T) {
	for _, m := range []nn.Model{nn.NewMLP(8, 64, 50), nn.NewLinear(5, 3), nn.Bounded{Model: nn.NewMLP(3, 5, 2), Bound: 0.5}} {
		t.Run(shapeName(m)+"/float64", func(t *testing.T) { pair(t, m, nn.Float64, 6, 10, 0, 1e-9) })
		t.Run(shapeName(m)+"/float32", func(t *testing.T) { pair(t, m, nn.Float32, 6, 10, 0, 1e-3) })
		t.Run(shapeName(m)+"/proximal", func(t *testing.T) { pair(t, m, nn.Float64, 6, 5, 0.3, 1e-9) })
	}
	for _, head := range []resnet.Head{resnet.Mean, resnet.Conv1x1} {
		m, err := resnet.New(resnet.Config{Grid: 2, Head: head})
		if err != nil {
			t.Fatal(err)
		}
		t.Run(m.Name(), func(t *testing.T) { pair(t, m, nn.Float32, 2, 2, 0, 1e-3) })
	}
}

// TestDeviceBits: the same training twice, and beside another session, has the
// same bits.
func TestDeviceBits(t *testing.T) {
	d := device(t)
	m := imageNets()[1]
	var got [3][]float64
	var group sync.WaitGroup
	for k := range got {
		p := newImageProblem(m, 3)
		s := p.session(t, nn.SessionConfig{Device: d, Precision: nn.Float32})
		group.Go(func() { got[k] = p.run(t, s, 3, 3) })
		if k == 0 {
			group.Wait() // the others run at once
		}
	}
	group.Wait()
	for k := range got {
		if !slices.Equal(got[k], got[0]) {
			t.Errorf("run %d has other bits than the first", k)
		}
	}
}

// TestDeviceNonFinite: a gradient that is not finite names its array, and leaves
// parameters, moments and step count as they were.
func TestDeviceNonFinite(t *testing.T) {
	m := nn.NewMLP(2, 3, 2)
	l := &target{rows: 1, t: []float64{1e200, 1e200}}
	s := newSession(t, nn.SessionConfig{Model: m, Batch: 1, Loss: l.apply, Device: device(t)})
	theta, got := make([]float64, m.Layout().Len()), make([]float64, m.Layout().Len())
	m.Init(theta, rand.New(rand.NewPCG(1, 1)))
	s.Load(theta)
	s.SetRow(0, []float64{1, 1})
	if _, err := s.Gradient(1); !errors.Is(err, nn.ErrNonFinite) {
		t.Errorf("infinite loss: error %v", err)
	}
	if err := s.Update(nn.Adam{Clip: 1}, 1e-3); !errors.Is(err, nn.ErrNonFinite) || !strings.Contains(err.Error(), "fc") {
		t.Errorf("gradient whose norm overflows: error %v", err)
	}
	s.Store(got)
	if !slices.Equal(got, theta) {
		t.Error("a refused update changed the parameters")
	}
	for _, rows := range []int{0, 2} {
		if err := s.Predict(make([]float64, 2*rows), rows); err == nil {
			t.Errorf("%d rows in a graph of 1: no error", rows)
		}
	}
}

// TestDeviceMemory: a session gives everything back; one that does not fit says
// so and leaves nothing behind.
func TestDeviceMemory(t *testing.T) {
	d := device(t)
	live := func() (int, int) { return cudatest.Get(t, "live"), cudatest.Get(t, "live host") }
	cfg := nn.SessionConfig{Model: imageNets()[1], Batch: 3, Precision: nn.Float32, Device: d, Loss: (&target{rows: 3, t: make([]float64, 3*6)}).apply}
	open := func() error {
		s, err := nn.NewSession(cfg)
		if err != nil {
			return err
		}
		return s.Close()
	}
	if err := open(); err != nil {
		t.Fatal(err)
	}
	n, host := live()
	if err := open(); err != nil { // from the pool
		t.Fatal(err)
	}
	if m, h := live(); m != n || h != host {
		t.Errorf("%d and %d allocations live after one session, %d and %d after two", n, host, m, h)
	}
	cudatest.Set(t, "memory", 1<<20)
	defer cudatest.Set(t, "memory", 4<<30)
	cfg.Batch = 300
	if err := open(); !errors.Is(err, cuda.ErrMemory) || !strings.Contains(err.Error(), "use a smaller batch") {
		t.Errorf("a session that does not fit: error %v", err)
	}
	if _, h := live(); h != host {
		t.Errorf("%d pieces of host memory live after an error, before %d", h, host)
	}
}

// TestDeviceAllocates: a training step allocates nothing.
func TestDeviceAllocates(t *testing.T) {
	p := newImageProblem(imageNets()[0], 3)
	s := p.session(t, nn.SessionConfig{Device: device(t), Precision: nn.Float32})
	step := func() {
		if _, err := s.Gradient(3); err != nil {
			t.Fatal(err)
		}
		if err := s.Update(nn.Adam{Clip: 1}, 1e-3); err != nil {
			t.Fatal(err)
		}
	}
	step()
	if race {
		t.Skip("the race detector allocates")
	}
	if n := testing.AllocsPerRun(5, step); n != 0 {
		t.Errorf("%v allocations a step", n)
	}
}

// TestOpenDevice: names, and what cannot be.
func TestOpenDevice(t *testing.T) {
	device(t)
	if d, err := nn.OpenDevice("cpu", false); d != nil || err != nil || d.String() != "cpu" {
		t.Errorf("cpu: %v, %v", d, err)
	}
	for _, name := range []string{"auto", "cuda:0"} {
		if d, err := nn.OpenDevice(name, false); err != nil || !strings.HasPrefix(d.String(), "cuda:0 (") {
			t.Errorf("%s: %v, %v", name, d, err)
		}
	}
	for _, c := range []struct {
		name string
		tf32 bool
		want string
	}{{"cpu", true, "TF32"}, {"tpu", false, `"tpu", want cpu, cuda, cuda:N or auto`}, {"cuda:x", false, `"cuda:x"`}, {"cuda:64", false, "cuda:0"}} {
		if _, err := nn.OpenDevice(c.name, c.tf32); !errors.Is(err, nn.ErrDevice) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
	d, err := nn.OpenDevice("cuda", true)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasSuffix(d.String(), "with TF32") {
		t.Errorf("a device with TF32 is %v", d)
	}
	if _, err := nn.NewSession(nn.SessionConfig{Model: nn.NewLinear(1, 1), Batch: 1, Device: d, Convolution: nn.ConvWinograd}); err == nil {
		t.Error("winograd on a device: no error")
	}
	newSession(t, nn.SessionConfig{Model: nn.NewLinear(1, 1), Batch: 1, Device: d})
	if mode := cudatest.MathMode(t); mode != 3 {
		t.Errorf("math mode %d of cuBLAS, want 3", mode)
	}
	report := strings.Join(nn.DeviceReport(), "\n")
	for _, want := range []string{"cpu: ", "cuda:0: ", "driver: CUDA 13.0", "matrix products: "} {
		if !strings.Contains(report, want) {
			t.Errorf("report %q lacks %q", report, want)
		}
	}
	cudatest.Set(t, "capability", 61)
	defer cudatest.Set(t, "capability", 90)
	if d, err := nn.OpenDevice("auto", false); d != nil || err != nil {
		t.Errorf("auto without a usable device: %v, %v", d, err)
	}
	if report := strings.Join(nn.DeviceReport(), "\n"); !strings.Contains(report, "cannot be used: compute capability 6.1") {
		t.Errorf("report %q", report)
	}
}
