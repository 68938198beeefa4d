package nn_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"fedrspo/internal/graphop"
	"fedrspo/nn"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// target is a loss ½ mean_i Σ_j (y_ij - t_ij)² over the first rows rows: a
// smooth stand-in that the graph differentiates through its own operations.
type target struct {
	rows int
	t    []float64
}

func (l *target) apply(out *gorgonia.Node) (*gorgonia.Node, error) {
	if out.Dtype() == tensor.Float32 {
		return applyTarget[float32](l, out)
	}
	return applyTarget[float64](l, out)
}

func applyTarget[T graphop.Float](l *target, out *gorgonia.Node) (*gorgonia.Node, error) {
	batch, d := out.Shape()[0], out.Shape()[1]
	loss, g := graphop.NewScalar[T](), make([]T, batch*d)
	gT := graphop.Wrap(g, batch, d)
	return graphop.Apply(graphop.Spec{
		Name: "target", Dtype: graphop.Dtype[T](), Shape: tensor.ScalarShape(), Wrt: []bool{true},
		Do: func(in []gorgonia.Value) (gorgonia.Value, error) {
			sum := 0.0
			for i, y := range graphop.Data[T](in[0])[:l.rows*d] {
				r := float64(y) - l.t[i]
				sum += r * r / 2
				g[i] = T(r / float64(l.rows))
			}
			clear(g[l.rows*d:])
			return loss.Set(sum / float64(l.rows)), nil
		},
		Diff: func(in gorgonia.Nodes, out, grad *gorgonia.Node) (gorgonia.Nodes, error) {
			n, err := graphop.Apply(graphop.Spec{Name: "target gradient", Dtype: graphop.Dtype[T](), Shape: in[0].Shape(),
				Do: func([]gorgonia.Value) (gorgonia.Value, error) { return gT, nil }}, out, grad)
			return gorgonia.Nodes{n}, err
		},
	}, out)
}

// forward is the slow twin of the networks: plain loops in float64.
func forward(m nn.Model, theta, x []float64) []float64 {
	l := m.Layout()
	get := func(name string) []float64 {
		s, _ := l.Find(name)
		return s.Slice(theta)
	}
	affine := func(w, b, x []float64, out int) []float64 {
		y := make([]float64, out)
		for o := range y {
			if b != nil {
				y[o] = b[o]
			}
			for k, v := range x {
				y[o] += w[o*len(x)+k] * v
			}
		}
		return y
	}
	if m.Name() == "linear" {
		return affine(get("weight"), nil, x, m.Out())
	}
	b1 := get("fc1.bias")
	h := affine(get("fc1.weight"), b1, x, len(b1))
	for k := range h {
		h[k] = max(h[k], 0)
	}
	return affine(get("fc2.weight"), get("fc2.bias"), h, m.Out())
}

func (l *target) slow(m nn.Model, theta []float64, x [][]float64) float64 {
	sum := 0.0
	for i := range l.rows {
		for j, y := range forward(m, theta, x[i]) {
			r := y - l.t[i*m.Out()+j]
			sum += r * r / 2
		}
	}
	return sum / float64(l.rows)
}

func models() []nn.Model {
	return []nn.Model{nn.NewMLP(8, 64, 50), nn.NewMLP(3, 5, 2), nn.NewMLP(1, 1, 1), nn.NewLinear(8, 50), nn.NewLinear(1, 1)}
}

func shapeName(m nn.Model) string { return fmt.Sprintf("%s-%d-%d", m.Name(), m.In(), m.Out()) }

func normals(r *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = r.NormFloat64()
	}
	return v
}

// TestSessionAgainstTwin compares predictions, the loss and every gradient
// entry with plain loops and central differences, over full and short batches,
// and checks that the rows beyond a short batch do not matter.
func TestSessionAgainstTwin(t *testing.T) {
	for _, precision := range []nn.Precision{nn.Float64, nn.Float32} {
		for _, m := range models() {
			t.Run(precision.String()+"/"+shapeName(m), func(t *testing.T) {
				const batch = 7
				r := rand.New(rand.NewPCG(1, 2))
				l := &target{t: normals(r, batch*m.Out())}
				s := newSession(t, nn.SessionConfig{Model: m, Batch: batch, Precision: precision, Loss: l.apply})
				theta := make([]float64, m.Layout().Len())
				m.Init(theta, r)
				for i := range theta {
					theta[i] = float64(float32(theta[i] + 0.1*r.NormFloat64())) // exact in both precisions
				}
				x := make([][]float64, batch)
				s.Load(theta)
				for i := range x {
					x[i] = normals(r, m.In())
					s.SetRow(i, x[i])
				}
				// Rounding of sums of at most 65 products of numbers near 1.
				tol, step := 1e-12, 1e-5
				if precision == nn.Float32 {
					tol = 1e-5
				}
				grad := make([]float64, m.Layout().Trainable())
				for _, rows := range []int{batch, 1, 4} {
					l.rows = rows
					got, err := s.Gradient(rows)
					if err != nil {
						t.Fatal(err)
					}
					want := l.slow(m, theta, x)
					if math.Abs(got-want) > tol*(1+want) {
						t.Errorf("%d rows: loss %v, want %v", rows, got, want)
					}
					s.CopyGradient(grad)
					for i := range grad {
						old := theta[i]
						theta[i] = old + step
						up := l.slow(m, theta, x)
						theta[i] = old - step
						down := l.slow(m, theta, x)
						theta[i] = old
						// The loss is quadratic between kinks of the ReLU: the
						// difference quotient errs by rounding only, about 1e-16/step.
						if num := (up - down) / (2 * step); math.Abs(grad[i]-num) > 1e-9*(1+want)+10*tol*(1+math.Abs(num)) {
							t.Fatalf("%d rows: gradient[%d] = %v, central difference %v", rows, i, grad[i], num)
						}
					}
					y := make([]float64, rows*m.Out())
					if err := s.Predict(y, rows); err != nil {
						t.Fatal(err)
					}
					for i := range rows {
						for j, want := range forward(m, theta, x[i]) {
							if got := y[i*m.Out()+j]; math.Abs(got-want) > tol*(1+math.Abs(want)) {
								t.Errorf("prediction [%d,%d] = %v, want %v", i, j, got, want)
							}
						}
					}
				}
			})
		}
	}
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

// TestAdamAgainstTwin compares several updates, at changing learning rates,
// with the formulas written out (paper, appendix C.1: clipping per array by
// default, then Adam with epsilon outside the root after bias correction).
func TestAdamAgainstTwin(t *testing.T) {
	m := nn.NewMLP(4, 6, 3)
	for _, o := range []nn.Adam{{Clip: 1}, {}, {Clip: 0.3, ClipGlobal: true}, {Beta1: 0.5, Beta2: 0.9, Epsilon: 1e-3, Clip: 0.2}} {
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			r := rand.New(rand.NewPCG(3, 4))
			l := &target{rows: 5, t: normals(r, 5*m.Out())}
			s := newSession(t, nn.SessionConfig{Model: m, Batch: 5, Loss: l.apply})
			theta := normals(r, m.Layout().Len())
			s.Load(theta)
			for i := range 5 {
				s.SetRow(i, normals(r, m.In()))
			}
			beta1, beta2, eps := 0.9, 0.999, 1e-8
			if o.Beta1 != 0 {
				beta1, beta2, eps = o.Beta1, o.Beta2, o.Epsilon
			}
			n := len(theta)
			grad, m1, m2, got := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
			for round := range 2 { // the second after ResetOptimizer
				for step := 1; step <= 4; step++ {
					if _, err := s.Gradient(5); err != nil {
						t.Fatal(err)
					}
					s.CopyGradient(grad)
					lr := 0.1 / float64(step)
					if err := s.Update(o, lr); err != nil {
						t.Fatal(err)
					}
					total := 0.0
					for _, g := range grad {
						total += g * g
					}
					for _, seg := range m.Layout().Segments() {
						sum := 0.0
						for _, g := range seg.Slice(grad) {
							sum += g * g
						}
						if o.ClipGlobal {
							sum = total
						}
						scale := 1.0
						if o.Clip > 0 {
							scale = min(1, o.Clip/math.Sqrt(sum))
						}
						for i := seg.Offset; i < seg.Offset+seg.Len; i++ {
							g := scale * grad[i]
							m1[i] = beta1*m1[i] + (1-beta1)*g
							m2[i] = beta2*m2[i] + (1-beta2)*g*g
							mh := m1[i] / (1 - math.Pow(beta1, float64(step)))
							vh := m2[i] / (1 - math.Pow(beta2, float64(step)))
							theta[i] -= lr * mh / (math.Sqrt(vh) + eps)
						}
					}
					s.Store(got)
					for i := range got {
						if math.Abs(got[i]-theta[i]) > 1e-12*(1+math.Abs(theta[i])) {
							t.Fatalf("round %d step %d: parameter %d = %v, want %v", round, step, i, got[i], theta[i])
						}
					}
					copy(theta, got) // compare one step at a time
				}
				s.ResetOptimizer()
				clear(m1)
				clear(m2)
			}
		})
	}
}

// TestSessionsInParallel builds and runs sessions of one model on several
// goroutines; all must compute the same bits (run with -race).
func TestSessionsInParallel(t *testing.T) {
	m := nn.NewMLP(8, 64, 50)
	theta := make([]float64, m.Layout().Len())
	m.Init(theta, rand.New(rand.NewPCG(5, 6)))
	x, tgt := normals(rand.New(rand.NewPCG(7, 8)), 8), normals(rand.New(rand.NewPCG(9, 9)), 16*50)
	results := make(chan []float64)
	const workers = 4
	for range workers {
		go func() {
			out := make([]float64, len(theta))
			defer func() { results <- out }()
			l := &target{rows: 16, t: tgt}
			s, err := nn.NewSession(nn.SessionConfig{Model: m, Batch: 16, Loss: l.apply})
			if err != nil {
				t.Error(err)
				return
			}
			defer s.Close()
			s.Load(theta)
			for i := range 16 {
				s.SetRow(i, x)
			}
			for range 20 {
				if _, err := s.Gradient(16); err != nil {
					t.Error(err)
				}
				if err := s.Update(nn.Adam{Clip: 1}, 1e-2); err != nil {
					t.Error(err)
				}
			}
			s.Store(out)
		}()
	}
	first := <-results
	for range workers - 1 {
		other := <-results
		for i := range first {
			if first[i] != other[i] {
				t.Fatalf("parameter %d differs between workers: %v and %v", i, first[i], other[i])
			}
		}
	}
}

// TestNonFiniteNamesTheTensor feeds a huge target: the loss or the gradient
// overflows, Update must refuse and leave the parameters as they were.
func TestNonFiniteNamesTheTensor(t *testing.T) {
	m := nn.NewMLP(2, 3, 2)
	l := &target{rows: 1, t: []float64{1e200, 1e200}}
	s := newSession(t, nn.SessionConfig{Model: m, Batch: 1, Loss: l.apply})
	theta := make([]float64, m.Layout().Len())
	m.Init(theta, rand.New(rand.NewPCG(1, 1)))
	s.Load(theta)
	s.SetRow(0, []float64{1, 1})
	if _, err := s.Gradient(1); !errors.Is(err, nn.ErrNonFinite) {
		t.Errorf("infinite loss: got error %v, want ErrNonFinite", err)
	}
	if err := s.Update(nn.Adam{Clip: 1}, 1e-3); !errors.Is(err, nn.ErrNonFinite) {
		t.Errorf("gradient whose norm overflows: got error %v, want ErrNonFinite", err)
	}
	got := make([]float64, len(theta))
	s.Store(got)
	for i := range got {
		if got[i] != theta[i] {
			t.Fatal("a refused update changed the parameters")
		}
	}
}

func TestSessionRefuses(t *testing.T) {
	m := nn.NewLinear(2, 2)
	s := newSession(t, nn.SessionConfig{Model: m, Batch: 3})
	if _, err := s.Gradient(1); err == nil {
		t.Error("Gradient without a loss: no error")
	}
	for _, rows := range []int{0, -1, 4} {
		if err := s.Predict(make([]float64, max(0, 2*rows)), rows); err == nil {
			t.Errorf("Predict on %d rows of 3: no error", rows)
		}
	}
	if err := s.Predict(make([]float64, 3), 1); err == nil {
		t.Error("Predict into a slice of the wrong length: no error")
	}
	for _, o := range []nn.Adam{{Beta1: 1}, {Beta2: -1}, {Epsilon: math.NaN()}, {Clip: -1}} {
		if err := o.Validate(); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
	for _, lr := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if err := s.Update(nn.Adam{}, lr); err == nil {
			t.Errorf("learning rate %v: no error", lr)
		}
	}
	for _, cfg := range []nn.SessionConfig{
		{Model: m}, {Model: m, Batch: 1 << 62}, {Model: m, Batch: 1 << 40}, {Model: m, Batch: 1, Precision: 2},
		{Model: m, Batch: 1, Loss: func(*gorgonia.Node) (*gorgonia.Node, error) { return nil, nil }},
	} {
		if _, err := nn.NewSession(cfg); err == nil {
			t.Errorf("%+v: no error", cfg)
		}
	}
	if _, err := nn.NewSession(nn.SessionConfig{Model: m, Batch: 1, Threads: 1 << 62}); err != nil {
		t.Errorf("more threads than rows: %v", err)
	}
	for name, f := range map[string]func(){
		"row -1":             func() { s.SetRow(-1, make([]float64, 2)) },
		"row 3 of 3":         func() { s.SetRow(3, make([]float64, 2)) },
		"a feature too many": func() { s.SetRow(0, make([]float64, 3)) },
		"a feature too few":  func() { s.SetRow32(0, make([]float32, 1)) },
		"a short gradient":   func() { s.CopyGradient(make([]float64, 3)) },
		"a long gradient":    func() { s.CopyGradient(make([]float64, 5)) },
	} {
		func() {
			defer func() {
				if r, ok := recover().(string); !ok || !strings.HasPrefix(r, "nn: ") {
					t.Errorf("%s: recovered %v, want a message", name, r)
				}
			}()
			f()
		}()
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Gradient(1); err == nil {
		t.Error("Gradient of a closed session: no error")
	}
	if err := s.Predict(make([]float64, 2), 1); err == nil {
		t.Error("Predict of a closed session: no error")
	}
}

// TestPredictNonFinite: features or parameters that are not finite never become
// predictions that look well.
func TestPredictNonFinite(t *testing.T) {
	for _, precision := range []nn.Precision{nn.Float64, nn.Float32} {
		m := nn.NewMLP(2, 3, 2)
		s := newSession(t, nn.SessionConfig{Model: m, Batch: 3, Precision: precision})
		theta, y := make([]float64, m.Layout().Len()), make([]float64, 6)
		m.Init(theta, rand.New(rand.NewPCG(1, 1)))
		s.Load(theta)
		s.SetRow(2, []float64{1, math.NaN()})
		if err := s.Predict(y[:4], 2); err != nil {
			t.Errorf("%v: the rows before: %v", precision, err)
		}
		if err := s.Predict(y, 3); !errors.Is(err, nn.ErrNonFinite) || !strings.Contains(err.Error(), "row 2") {
			t.Errorf("%v: NaN in row 2: error %v", precision, err)
		}
		theta[len(theta)-1] = math.Inf(1)
		s.Load(theta)
		if err := s.Predict(y[:2], 1); !errors.Is(err, nn.ErrNonFinite) {
			t.Errorf("%v: infinite bias: error %v", precision, err)
		}
	}
}

// TestGlorotUniform checks bound, spread and zero biases of the initialiser
// (paper, appendix C.1).
func TestGlorotUniform(t *testing.T) {
	m := nn.NewMLP(8, 64, 50)
	theta := make([]float64, m.Layout().Len())
	m.Init(theta, rand.New(rand.NewPCG(11, 12)))
	for _, s := range m.Layout().Segments() {
		w := s.Slice(theta)
		if len(s.Shape) == 1 {
			for i, x := range w {
				if x != 0 {
					t.Fatalf("%s[%d] = %v, want 0", s.Name, i, x)
				}
			}
			continue
		}
		bound := math.Sqrt(6 / float64(s.Shape[0]+s.Shape[1]))
		sum, most := 0.0, 0.0
		for _, x := range w {
			sum += x * x
			most = max(most, math.Abs(x))
		}
		if most > bound || most < 0.97*bound {
			t.Errorf("%s: largest weight %v, bound %v", s.Name, most, bound)
		}
		// Variance b²/3; the standard error of the estimate is about 4 % for 512 draws.
		if got, want := sum/float64(len(w)), bound*bound/3; math.Abs(got/want-1) > 0.2 {
			t.Errorf("%s: variance %v, want about %v", s.Name, got, want)
		}
	}
}
