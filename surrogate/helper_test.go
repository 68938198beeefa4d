package surrogate_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"fedrspo/oracle"
	"fedrspo/oracle/dijkstra"
	"fedrspo/oracle/knapsack"
	"fedrspo/oracle/qp"
	"fedrspo/surrogate"
)

// box is { w : lo <= w <= hi }, the set whose linear minimiser and projection
// are one line each.
type box struct{ lo, hi []float64 }

// cube is [lo, hi]^d.
func cube(d int, lo, hi float64) *box {
	b := &box{make([]float64, d), make([]float64, d)}
	for i := range b.lo {
		b.lo[i], b.hi[i] = lo, hi
	}
	return b
}

// unitBox is [-1, 1]^d.
func unitBox(d int) *box { return cube(d, -1, 1) }

func (b *box) Dim() int { return len(b.lo) }

func (b *box) Radius() float64 {
	sum := 0.0
	for i, lo := range b.lo {
		sum += max(lo*lo, b.hi[i]*b.hi[i])
	}
	return math.Sqrt(sum)
}

func (b *box) Violation(w []float64) float64 {
	worst := 0.0
	for i, x := range w {
		worst = max(worst, b.lo[i]-x, x-b.hi[i])
	}
	return worst
}

func (b *box) NewLinear() oracle.Linear       { return &boxSolver{box: b} }
func (b *box) NewProjector() oracle.Projector { return &boxSolver{box: b} }

type boxSolver struct {
	*box
	at []float64 // what was projected last
}

func (b *boxSolver) Solve(dst, theta []float64) (oracle.Info, error) {
	if err := oracle.CheckSolve(dst, theta, b.Dim()); err != nil {
		return oracle.Info{}, err
	}
	for i, x := range theta {
		dst[i] = b.hi[i]
		if x > 0 {
			dst[i] = b.lo[i]
		}
	}
	return oracle.Info{Status: oracle.Optimal}, nil
}

func (b *boxSolver) Project(dst, theta []float64, lambda float64, _ *oracle.Warm) (oracle.Info, error) {
	if err := oracle.CheckProject(dst, theta, lambda, b.Dim()); err != nil {
		return oracle.Info{}, err
	}
	b.at = b.at[:0]
	for i, x := range theta {
		b.at = append(b.at, -x/lambda)
		dst[i] = min(max(-x/lambda, b.lo[i]), b.hi[i])
	}
	return oracle.Info{Status: oracle.Optimal}, nil
}

func (b *boxSolver) JVP(dst, v []float64) error {
	if b.at == nil {
		return oracle.ErrNoProjection
	}
	for i, x := range b.at {
		dst[i] = 0
		if b.lo[i] < x && x < b.hi[i] {
			dst[i] = v[i]
		}
	}
	return nil
}

// set is a polytope to test on, with an upper bound of its diameter. accuracy
// bounds |δw| of an iterative projection; 0 means exact up to rounding.
type set struct {
	name     string
	polytope oracle.Polytope
	diameter float64
	accuracy float64
}

// boxSet is a random box around the origin or away from it.
func boxSet(r *rand.Rand, d int) set {
	b := &box{make([]float64, d), make([]float64, d)}
	sum := 0.0
	for i := range b.lo {
		b.lo[i] = 2*r.Float64() - 1.5
		b.hi[i] = b.lo[i] + 2*r.Float64()
		sum += (b.hi[i] - b.lo[i]) * (b.hi[i] - b.lo[i])
	}
	return set{name: "box", polytope: b, diameter: math.Sqrt(sum)}
}

// orthant bounds the diameter of a subset of [0,1]^d of radius R: no two of
// its points are further apart than the corners of the box, and s.t >= 0 gives
// |s-t|² <= |s|² + |t|² <= 2R².
func orthant(p oracle.Polytope) float64 {
	return min(math.Sqrt(float64(p.Dim())), math.Sqrt2*p.Radius())
}

func knapsackSet(r *rand.Rand, d int) set {
	a, sum := make([]float64, d), 0.0
	for i := range a {
		a[i] = 0.5 + r.Float64()
		sum += a[i]
	}
	p, err := knapsack.New(a, sum*(0.1+0.8*r.Float64()))
	if err != nil {
		panic(err)
	}
	return set{name: "knapsack", polytope: p, diameter: orthant(p)}
}

func topKSet(r *rand.Rand, d int) set {
	k := float64(d) * (0.1 + 0.8*r.Float64())
	if d > 2 {
		k = math.Ceil(k)
	}
	p, err := knapsack.NewTopK(d, k)
	if err != nil {
		panic(err)
	}
	return set{name: "topk", polytope: p, diameter: orthant(p)}
}

// pathSet is the relaxed path polytope of a small grid between two random
// cells, with cycles: the exact linear minimiser for any costs, and a
// projection whose duality gap of at most 1e-12 bounds |δw| by √(2e-12).
func pathSet(r *rand.Rand, d int) set {
	height := 1
	if d = min(max(d, 2), 20); d == 20 {
		height = 4
	}
	width := d / height
	from := r.IntN(d)
	to := (from + 1 + r.IntN(d-1)) % d
	g, err := dijkstra.NewGrid(dijkstra.Config{Height: height, Width: width, Negative: dijkstra.Cycles,
		Source: dijkstra.Cell{Row: from / width, Col: from % width}, Sink: dijkstra.Cell{Row: to / width, Col: to % width}})
	if err != nil {
		panic(err)
	}
	p, err := qp.NewExactPath(g)
	if err != nil {
		panic(err)
	}
	return set{name: "path", polytope: p, diameter: orthant(p), accuracy: math.Sqrt(2e-12)}
}

// lambdas span the regimes from nearly the LP to nearly the point of least
// norm.
var lambdas = []float64{1e-4, 1e-2, 0.3, 2, 50, 1e3}

// point is one random sample on one random set.
type point struct {
	set
	*evaluator
	lambda     float64
	c          []float64
	chat, next []float64 // two predictions
}

// eachPoint runs f on random points over all kinds of sets, dimensions and λ.
// Half of the predictions are near the true costs.
func eachPoint(t *testing.T, seed uint64, f func(t *testing.T, p point)) {
	t.Helper()
	for k, kind := range []func(*rand.Rand, int) set{boxSet, knapsackSet, topKSet, pathSet} {
		for _, d := range []int{1, 2, 5, 20, 50} {
			r := rand.New(rand.NewPCG(seed, uint64(100*k+d)))
			s := kind(r, d)
			if s.polytope.Dim() != d {
				continue // a path has at least two cells, and here at most 20
			}
			t.Run(fmt.Sprintf("%s/d=%d", s.name, d), func(t *testing.T) {
				for _, lambda := range lambdas {
					// The accuracy of paths is promised for λ from 0.05 to 100.
					if s.accuracy > 0 && (lambda < 0.05 || lambda > 100) {
						continue
					}
					for try := range 6 {
						if try%3 == 0 {
							s = kind(r, d)
						}
						p := point{set: s, evaluator: newEvaluator(s.polytope), lambda: lambda, c: normals(r, d, 1)}
						for i := range p.c {
							p.c[i] -= 0.5
						}
						spread := []float64{1, 0.01 * lambda}[try%2]
						p.chat = add(p.c, 1, normals(r, d, spread))
						p.next = add(p.chat, 1, normals(r, d, spread))
						f(t, p)
					}
				}
			})
		}
	}
}

// evaluator evaluates losses of single samples over one set.
type evaluator struct {
	pool *oracle.Pool
	r    float64 // radius
}

func newEvaluator(p oracle.Polytope) *evaluator {
	return &evaluator{oracle.NewPool(p, 1), p.Radius()}
}

// loss returns value and gradient of l at chat.
func (e *evaluator) loss(t *testing.T, l surrogate.Loss, c, chat []float64, lambda float64) (float64, []float64) {
	t.Helper()
	b := surrogate.Batch{Loss: l, Pool: e.pool, Targets: surrogate.NewTargets(c, len(c)), Rows: []int{0}, Lambda: lambda}
	values, grad := make([]float64, 1), make([]float64, len(c))
	v, err := b.Eval(chat, values, grad)
	if err != nil {
		t.Fatal(err)
	}
	return v, grad
}

// rspo is RSPO+ at the point's own cost and λ.
func (p point) rspo(t *testing.T, chat []float64) (float64, []float64) {
	t.Helper()
	return p.loss(t, surrogate.RSPOPlus{}, p.c, chat, p.lambda)
}

// project returns P_λ(θ).
func (e *evaluator) project(t *testing.T, theta []float64, lambda float64) []float64 {
	t.Helper()
	w := make([]float64, len(theta))
	if err := e.pool.Solver().Regularize(w, theta, lambda, nil); err != nil {
		t.Fatal(err)
	}
	return w
}

// minimize returns w*(θ) and z*(θ).
func (e *evaluator) minimize(t *testing.T, theta []float64) ([]float64, float64) {
	t.Helper()
	w := make([]float64, len(theta))
	z, err := e.pool.Solver().Minimize(w, theta)
	if err != nil {
		t.Fatal(err)
	}
	return w, z
}

// roundoff bounds the error of a loss value: it is a sum of d terms of the size
// of a w and λ w², and 1e-13 is 450 units in the last place; an error δw of a
// decision changes it by at most |δw| (|a| + 2 λ R).
func (p point) roundoff() float64 {
	size := norm(p.c) + 2*norm(p.chat) + 2*norm(p.next)
	return 1e-13*(size*p.r+p.lambda*p.r*p.r) + p.accuracy*(size+2*p.lambda*p.r)
}

// decisionRoundoff bounds the error |δw| of P_λ: that of the solver, and of
// rounding -θ/λ and a multiplier of the same size.
func (p point) decisionRoundoff() float64 {
	return p.accuracy + 1e-14*(1+(norm(p.c)+2*norm(p.chat)+2*norm(p.next))/p.lambda)
}

func normals(r *rand.Rand, n int, scale float64) []float64 {
	v := make([]float64, n)
	for i := range v {
		v[i] = scale * r.NormFloat64()
	}
	return v
}

func add(a []float64, s float64, b []float64) []float64 {
	v := make([]float64, len(a))
	for i := range a {
		v[i] = a[i] + s*b[i]
	}
	return v
}

func sub(a, b []float64) []float64 { return add(a, -1, b) }

func scaled(s float64, a []float64) []float64 { return add(make([]float64, len(a)), s, a) }

func dot(a, b []float64) float64 {
	s := 0.0
	for i, x := range a {
		s += x * b[i]
	}
	return s
}

func norm(a []float64) float64 { return math.Sqrt(dot(a, a)) }

// checkGradient compares grad with central differences of f at x. For a
// gradient that is L-Lipschitz along the coordinates these are off by L step/2
// at most; noise is the rounding error of f.
func checkGradient(t *testing.T, f func(x []float64) float64, x, grad []float64, step, lipschitz, noise float64) {
	t.Helper()
	x = add(x, 0, x)
	tol := lipschitz*step/2 + noise/step
	for i, old := range x {
		x[i] = old + step
		up := f(x)
		x[i] = old - step
		down := f(x)
		x[i] = old
		if fd := (up - down) / (2 * step); !(math.Abs(fd-grad[i]) <= tol) {
			t.Errorf("derivative %d is %v, central differences give %v (tolerance %g)", i, grad[i], fd, tol)
			return
		}
	}
}
