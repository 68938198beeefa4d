package nn_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"fedrspo/nn"
)

// bounded is y·min(1, bound/√(|y|²+2⁻⁵²)) in plain loops.
func bounded(y []float64, bound float64) []float64 {
	sum := 0x1p-52
	for _, v := range y {
		sum += v * v
	}
	out := make([]float64, len(y))
	for k, v := range y {
		out[k] = v * min(1, bound/math.Sqrt(sum))
	}
	return out
}

// TestBoundedAgainstTwin compares predictions, the loss and its gradient in all
// parameters with plain loops and central differences, for rows inside the
// ball, outside it, and at zero, over full and short batches.
func TestBoundedAgainstTwin(t *testing.T) {
	const batch, in, out = 6, 3, 4
	for _, precision := range []nn.Precision{nn.Float64, nn.Float32} {
		for _, inner := range []nn.Model{nn.NewLinear(in, out), nn.NewMLP(in, 5, out)} {
			t.Run(precision.String()+"/"+inner.Name(), func(t *testing.T) {
				r := rand.New(rand.NewPCG(21, 22))
				const bound = 1.5
				m := nn.Bounded{Model: inner, Bound: bound}
				l := &target{t: normals(r, batch*out)}
				s := newSession(t, nn.SessionConfig{Model: m, Batch: batch, Precision: precision, Loss: l.apply})
				theta := make([]float64, m.Layout().Len())
				m.Init(theta, r)
				for i := range theta {
					theta[i] = float64(float32(theta[i] + 0.1*r.NormFloat64()))
				}
				if inner.Name() == "mlp" { // the output at zero is zero, no unit at its kink
					b, _ := m.Layout().Find("fc2.bias")
					clear(b.Slice(theta))
					b, _ = m.Layout().Find("fc1.bias")
					for k := range b.Slice(theta) {
						b.Slice(theta)[k] = -0x1p-6
					}
				}
				s.Load(theta)
				x := make([][]float64, batch)
				for i := range x {
					x[i] = normals(r, in)
					for k := range x[i] {
						x[i][k] *= []float64{0.3, 4, 0}[i%3]
					}
					s.SetRow(i, x[i])
				}
				predict := func(i int) []float64 { return bounded(forward(inner, theta, x[i]), bound) }
				loss := func() float64 {
					sum := 0.0
					for i := range l.rows {
						for j, y := range predict(i) {
							d := y - l.t[i*out+j]
							sum += d * d / 2
						}
					}
					return sum / float64(l.rows)
				}
				tol := 1e-12
				if precision == nn.Float32 {
					tol = 1e-5
				}
				grad := make([]float64, m.Layout().Trainable())
				for _, rows := range []int{batch, 1, 4} {
					l.rows = rows
					y := make([]float64, rows*out)
					if err := s.Predict(y, rows); err != nil {
						t.Fatal(err)
					}
					inside, outside := 0, 0
					for i := range rows {
						n := 0.0
						for j, want := range predict(i) {
							got := y[i*out+j]
							n += got * got
							if math.Abs(got-want) > tol*(1+math.Abs(want)) {
								t.Errorf("%d rows: prediction [%d,%d] = %v, want %v", rows, i, j, got, want)
							}
						}
						switch n = math.Sqrt(n); {
						case n > bound*(1+tol):
							t.Errorf("row %d has norm %v, bound %v", i, n, bound)
						case n > bound*(1-tol):
							outside++
						case n > 0:
							inside++
						}
					}
					if rows == batch && (inside < 2 || outside < 2) {
						t.Fatalf("%d rows inside the ball, %d outside: the case shows little", inside, outside)
					}
					got, err := s.Gradient(rows)
					if err != nil {
						t.Fatal(err)
					}
					if want := loss(); math.Abs(got-want) > tol*(1+want) {
						t.Errorf("%d rows: loss %v, want %v", rows, got, want)
					}
					s.CopyGradient(grad)
					for i := range grad {
						const step = 1e-5
						old := theta[i]
						theta[i] = old + step
						up := loss()
						theta[i] = old - step
						down := loss()
						theta[i] = old
						// The third derivative is of size |x|³ < 1000, so the
						// difference quotient is off by 1e-7 at most.
						if num := (up - down) / (2 * step); math.Abs(grad[i]-num) > 1e-7+10*tol*(1+math.Abs(num)) {
							t.Errorf("%d rows: gradient[%d] = %v, central difference %v", rows, i, grad[i], num)
						}
					}
				}
			})
		}
	}
}

// TestBoundedIsItsModelInside: with a bound that no output reaches, the
// gradient is the bits of the model without the layer; so is a zero output's.
func TestBoundedIsItsModelInside(t *testing.T) {
	const batch, in, out = 4, 3, 2
	r := rand.New(rand.NewPCG(23, 24))
	inner := nn.NewMLP(in, 6, out)
	l := &target{t: normals(r, batch*out), rows: batch}
	theta := make([]float64, inner.Layout().Len())
	inner.Init(theta, r)
	x := normals(r, batch*in)
	clear(x[:in])
	var losses []float64
	var grads [][]float64
	for _, m := range []nn.Model{inner, nn.Bounded{Model: inner, Bound: 1e6}} {
		s := newSession(t, nn.SessionConfig{Model: m, Batch: batch, Loss: l.apply})
		s.Load(theta)
		for i := range batch {
			s.SetRow(i, x[i*in:(i+1)*in])
		}
		v, err := s.Gradient(batch)
		if err != nil {
			t.Fatal(err)
		}
		g := make([]float64, len(theta))
		s.CopyGradient(g)
		losses, grads = append(losses, v), append(grads, g)
	}
	if losses[0] != losses[1] {
		t.Errorf("losses %v", losses)
	}
	for i := range theta {
		if grads[0][i] != grads[1][i] {
			t.Fatalf("gradient[%d] is %v, without the layer %v", i, grads[1][i], grads[0][i])
		}
	}
}

// TestBoundedFarOutside: outputs whose squares overflow are scaled like others.
func TestBoundedFarOutside(t *testing.T) {
	s := newSession(t, nn.SessionConfig{Model: nn.Bounded{Model: nn.NewLinear(1, 2), Bound: 10}, Batch: 1})
	s.Load([]float64{3e200, -4e200})
	s.SetRow(0, []float64{1})
	y := make([]float64, 2)
	if err := s.Predict(y, 1); err != nil || math.Abs(y[0]-6) > 1e-14 || math.Abs(y[1]+8) > 1e-14 {
		t.Errorf("prediction %v, want 6 and -8 (error %v)", y, err)
	}
}

func TestBoundedRejects(t *testing.T) {
	for _, bound := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if _, err := nn.NewSession(nn.SessionConfig{Model: nn.Bounded{Model: nn.NewLinear(2, 2), Bound: bound}, Batch: 2}); err == nil {
			t.Errorf("bound %v: no error", bound)
		}
	}
}

// TestAddProximal adds μ(θ-ref), entry by entry, to the gradient of the last
// run, before clipping sees it; the loss stays.
func TestAddProximal(t *testing.T) {
	const batch, in, out = 3, 2, 3
	for _, precision := range []nn.Precision{nn.Float64, nn.Float32} {
		t.Run(fmt.Sprint(precision), func(t *testing.T) {
			r := rand.New(rand.NewPCG(25, 26))
			m := nn.NewMLP(in, 4, out)
			l := &target{t: normals(r, batch*out), rows: batch}
			s := newSession(t, nn.SessionConfig{Model: m, Batch: batch, Precision: precision, Loss: l.apply})
			n := m.Layout().Len()
			theta, ref := make([]float64, n), normals(r, n)
			m.Init(theta, r)
			s.Load(theta)
			s.Store(theta) // as the precision rounds it
			for i := range batch {
				s.SetRow(i, normals(r, in))
			}
			if _, err := s.Gradient(batch); err != nil {
				t.Fatal(err)
			}
			plain, got := make([]float64, n), make([]float64, n)
			s.CopyGradient(plain)
			for _, mu := range []float64{0, 1, 0.25} {
				if _, err := s.Gradient(batch); err != nil {
					t.Fatal(err)
				}
				s.AddProximal(mu, ref)
				s.CopyGradient(got)
				unit := 0x1p-53
				if precision == nn.Float32 {
					unit = 0x1p-24
				}
				for i := range got {
					term := mu * (theta[i] - ref[i])
					// Rounded once as a term and once as a sum.
					if want := plain[i] + term; math.Abs(got[i]-want) > 2*unit*(math.Abs(want)+math.Abs(term)) {
						t.Errorf("mu %v: gradient[%d] is %v, want %v", mu, i, got[i], want)
					}
					if mu == 0 && got[i] != plain[i] {
						t.Errorf("mu 0 changes gradient[%d]", i)
					}
				}
			}
			// A term far longer than the clip norm decides the clipped step.
			if _, err := s.Gradient(batch); err != nil {
				t.Fatal(err)
			}
			s.AddProximal(1e9, ref)
			s.ResetOptimizer()
			if err := s.Update(nn.Adam{Clip: 1}, 0.01); err != nil {
				t.Fatal(err)
			}
			s.Store(got)
			for i := range got {
				// Adam's first step is the rate, against the sign of the gradient,
				// short by ε over its entry of the unit vector.
				want := theta[i] - math.Copysign(0.01, theta[i]-ref[i])
				if math.Abs(got[i]-want) > 1e-6 {
					t.Errorf("parameter %d is %v after the step, want %v", i, got[i], want)
				}
			}
		})
	}
}
