package resnet_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"fedrspo/internal/cputime"
	"fedrspo/internal/graphop"
	"fedrspo/nn"
	"fedrspo/resnet"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

func newModel(t testing.TB, cfg resnet.Config) *resnet.Model {
	t.Helper()
	m, err := resnet.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func newSession(t testing.TB, cfg nn.SessionConfig) nn.Session {
	t.Helper()
	s, err := nn.NewSession(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// squared is the mean squared error over the elements of the first rows rows,
// as PyTorch's mse_loss. It keeps the output of the last run. Without a target
// the loss is zero.
type squared struct {
	rows   int
	target []float64
	out    []float64
}

func (l *squared) apply(out *gorgonia.Node) (*gorgonia.Node, error) {
	if out.Dtype() == tensor.Float32 {
		return applySquared[float32](l, out)
	}
	return applySquared[float64](l, out)
}

func applySquared[T graphop.Float](l *squared, out *gorgonia.Node) (*gorgonia.Node, error) {
	batch, d := out.Shape()[0], out.Shape()[1]
	loss, g := graphop.NewScalar[T](), make([]T, batch*d)
	gT := graphop.Wrap(g, batch, d)
	l.out = make([]float64, batch*d)
	return graphop.Apply(graphop.Spec{
		Name: "squared error", Dtype: graphop.Dtype[T](), Shape: tensor.ScalarShape(), Wrt: []bool{true},
		Do: func(in []gorgonia.Value) (gorgonia.Value, error) {
			sum, n := 0.0, float64(l.rows*d)
			for i, y := range graphop.Data[T](in[0])[:l.rows*d] {
				l.out[i] = float64(y)
				if l.target != nil {
					r := float64(y) - l.target[i]
					sum += r * r
					g[i] = T(2 * r / n)
				}
			}
			return loss.Set(sum / n), nil
		},
		Diff: func(in gorgonia.Nodes, out, grad *gorgonia.Node) (gorgonia.Nodes, error) {
			n, err := graphop.Apply(graphop.Spec{Name: "squared error gradient", Dtype: graphop.Dtype[T](), Shape: in[0].Shape(),
				Do: func([]gorgonia.Value) (gorgonia.Value, error) { return gT, nil }}, out, grad)
			return gorgonia.Nodes{n}, err
		},
	}, out)
}

// TestLayout: 157,504 trainable parameters for every grid (paper, appendix C),
// with the names, shapes and order of torchvision's resnet18.
func TestLayout(t *testing.T) {
	for _, grid := range []int{0, 12, 18, 24, 30} {
		m := newModel(t, resnet.Config{Grid: grid})
		want := grid
		if grid == 0 {
			want = 12
		}
		if m.Grid() != want || m.Side() != 8*want || m.In() != 8*want*8*want*3 || m.Out() != want*want {
			t.Errorf("grid %d: grid %d, side %d, %d features, %d outputs", grid, m.Grid(), m.Side(), m.In(), m.Out())
		}
		if n := m.Layout().Trainable(); n != 157504 {
			t.Errorf("grid %d: %d trainable parameters, want 157504", grid, n)
		}
		if n := m.Layout().Len() - m.Layout().Trainable(); n != 5*2*64 {
			t.Errorf("grid %d: %d numbers in buffers, want 640", grid, n)
		}
	}
	if n := newModel(t, resnet.Config{Head: resnet.Conv1x1}).Layout().Trainable(); n != 157504+65 {
		t.Errorf("%d trainable parameters with a convolution as head, want 157569", n)
	}
	var got []string
	for _, s := range newModel(t, resnet.Config{}).Layout().Segments() {
		got = append(got, fmt.Sprint(s.Name, s.Shape))
	}
	want := []string{"conv1.weight[64 3 7 7]", "bn1.weight[64]", "bn1.bias[64]"}
	buffers := []string{"bn1.running_mean[64]", "bn1.running_var[64]"}
	for _, block := range []string{"layer1.0", "layer1.1"} {
		for _, i := range []string{"1", "2"} {
			norm := block + ".bn" + i
			want = append(want, block+".conv"+i+".weight[64 64 3 3]", norm+".weight[64]", norm+".bias[64]")
			buffers = append(buffers, norm+".running_mean[64]", norm+".running_var[64]")
		}
	}
	if want = append(want, buffers...); !slices.Equal(got, want) {
		t.Errorf("layout\n%v\nwant\n%v", got, want)
	}
	for _, cfg := range []resnet.Config{{Grid: -1}, {Grid: 129}, {Head: 2}} {
		if _, err := resnet.New(cfg); err == nil {
			t.Errorf("%+v: no error", cfg)
		}
	}
}

// TestInit: Glorot uniform convolutions with fans of kernel area times channels,
// normalisations as the identity (paper, appendix C), and the same numbers for
// the same seed.
func TestInit(t *testing.T) {
	m := newModel(t, resnet.Config{Head: resnet.Conv1x1})
	draw := func(seed uint64) []float64 {
		theta := slices.Repeat([]float64{math.NaN()}, m.Layout().Len())
		m.Init(theta, rand.New(rand.NewPCG(seed, 2)))
		return theta
	}
	theta := draw(1)
	if !slices.Equal(theta, draw(1)) || slices.Equal(theta, draw(2)) {
		t.Error("the initial parameters are not those of the seed")
	}
	constant := map[string]float64{"weight": 1, "bias": 0, "running_mean": 0, "running_var": 1}
	for _, s := range m.Layout().Segments() {
		w := s.Slice(theta)
		lo, hi := slices.Min(w), slices.Max(w)
		if len(s.Shape) == 1 {
			kind := s.Name[len(s.Name)-len(kindOf(s.Name)):]
			if lo != constant[kind] || hi != lo {
				t.Errorf("%s from %v to %v, want %v", s.Name, lo, hi, constant[kind])
			}
			continue
		}
		if s.Name == "head.weight" {
			if lo != 1.0/64 || hi != lo {
				t.Errorf("%s from %v to %v, want the mean", s.Name, lo, hi)
			}
			continue
		}
		bound := math.Sqrt(6 / float64(s.Shape[2]*s.Shape[3]*(s.Shape[0]+s.Shape[1])))
		sum := 0.0
		for _, v := range w {
			sum += v * v
		}
		if hi > bound || lo < -bound || hi < 0.99*bound || lo > -0.99*bound {
			t.Errorf("%s from %v to %v, want about ±%v", s.Name, lo, hi, bound)
		}
		// Variance bound²/3, with a standard error below 1 % for 9408 draws.
		if v := sum / float64(len(w)) / (bound * bound / 3); math.Abs(v-1) > 0.04 {
			t.Errorf("%s: variance %v times that of the distribution", s.Name, v)
		}
	}
}

// kindOf returns what follows the last dot.
func kindOf(name string) string {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '.' {
			return name[i+1:]
		}
	}
	return name
}

// TestHeads: with either head, on every size of map, outputs are finite and not
// negative; a convolution as head starts as the mean and learns.
func TestHeads(t *testing.T) {
	for _, grid := range []int{2, 12, 18, 24, 30} {
		var first []float64
		for _, head := range []resnet.Head{resnet.Mean, resnet.Conv1x1} {
			m := newModel(t, resnet.Config{Grid: grid, Head: head})
			r := rand.New(rand.NewPCG(5, 6))
			theta := make([]float64, m.Layout().Len())
			m.Init(theta, r)
			l := &squared{rows: 1, target: make([]float64, m.Out())}
			for i := range l.target {
				l.target[i] = 3 * r.Float64()
			}
			s := newSession(t, nn.SessionConfig{Model: m, Batch: 1, Precision: nn.Float32, Loss: l.apply})
			s.Load(theta)
			x := make([]float32, m.In())
			for i := range x {
				x[i] = float32(r.NormFloat64())
			}
			s.SetRow32(0, x)
			y := make([]float64, m.Out())
			if err := s.Predict(y, 1); err != nil {
				t.Fatal(err)
			}
			if slices.Min(y) < 0 || slices.Max(y) == 0 || slices.ContainsFunc(y, func(v float64) bool { return v-v != 0 }) {
				t.Errorf("grid %d, %s: outputs from %v to %v", grid, m.Name(), slices.Min(y), slices.Max(y))
			}
			if first == nil {
				first = y
			}
			for i := range y {
				// A sum of 64 numbers in another order.
				if math.Abs(y[i]-first[i]) > 1e-5*first[i] {
					t.Fatalf("grid %d: output %d of a convolution as head starts at %v, the mean at %v", grid, i, y[i], first[i])
				}
			}
			if grid != 2 {
				continue
			}
			var losses []float64
			for range 10 {
				v, err := s.Gradient(1)
				if err != nil {
					t.Fatal(err)
				}
				losses = append(losses, v)
				if err := s.Update(nn.Adam{}, 1e-3); err != nil {
					t.Fatal(err)
				}
			}
			if losses[9] > 0.7*losses[0] {
				t.Errorf("%s: losses %v do not fall", m.Name(), losses)
			}
		}
	}
}

// BenchmarkStep measures a training step (forward, mean squared error, backward,
// Adam) and a prediction on maps of 96x96, and the memory of a session that has
// made both. Times are milliseconds of a step; cpu ones are of the processor
// time of all threads together.
//
//	go test ./resnet -run - -bench Step
func BenchmarkStep(b *testing.B) {
	for _, batch := range []int{1, 16, 64, 256} {
		for _, conv := range []nn.Convolution{nn.ConvAuto, nn.ConvDirect} {
			for _, threads := range []int{1, 2} {
				b.Run(fmt.Sprintf("batch=%d/conv=%v/threads=%d", batch, conv, threads), func(b *testing.B) {
					benchStep(b, nn.SessionConfig{Batch: batch, Convolution: conv, Threads: threads})
				})
			}
		}
	}
}

func benchStep(b *testing.B, cfg nn.SessionConfig) {
	m := newModel(b, resnet.Config{})
	r := rand.New(rand.NewPCG(7, 8))
	l := &squared{rows: cfg.Batch, target: make([]float64, cfg.Batch*m.Out())}
	x, y := make([]float32, m.In()), make([]float64, cfg.Batch*m.Out())
	theta := make([]float64, m.Layout().Len())
	m.Init(theta, r)
	before := heap()
	cfg.Model, cfg.Precision, cfg.Loss = m, nn.Float32, l.apply
	s := newSession(b, cfg)
	s.Load(theta)
	for i := range cfg.Batch {
		for k := range x {
			x[k] = float32(r.NormFloat64())
		}
		s.SetRow32(i, x)
	}
	train := func() {
		if _, err := s.Gradient(cfg.Batch); err != nil {
			b.Fatal(err)
		}
		if err := s.Update(nn.Adam{}, 1e-3); err != nil {
			b.Fatal(err)
		}
	}
	predict := func() {
		if err := s.Predict(y, cfg.Batch); err != nil {
			b.Fatal(err)
		}
	}
	train()
	predict()
	memory := (heap() - before) / (1 << 20)
	for _, c := range []struct {
		name string
		f    func()
	}{{"train", train}, {"predict", predict}} {
		b.Run(c.name, func(b *testing.B) {
			c.f() // into the caches
			cpu, wall := make([]float64, 0, 1<<16), make([]float64, 0, 1<<16)
			b.ReportAllocs()
			for b.Loop() {
				c0, w0 := cputime.Now(), time.Now()
				c.f()
				cpu = append(cpu, (cputime.Now()-c0).Seconds()*1000)
				wall = append(wall, time.Since(w0).Seconds()*1000)
			}
			slices.Sort(cpu)
			slices.Sort(wall)
			b.ReportMetric(cpu[0], "cpu-best")
			b.ReportMetric(cpu[len(cpu)/2], "cpu-median")
			b.ReportMetric(wall[0], "wall-best")
			b.ReportMetric(wall[len(wall)/2], "wall-median")
			b.ReportMetric(float64(cfg.Batch)*1000/cpu[len(cpu)/2], "img/cpu-s")
			b.ReportMetric(memory, "MiB/session")
		})
	}
}

// heap returns the bytes in use.
func heap() float64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return float64(s.HeapAlloc)
}
