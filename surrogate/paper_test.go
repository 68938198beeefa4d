package surrogate_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"fedrspo/oracle"
	"fedrspo/oracle/knapsack"
	"fedrspo/surrogate"
)

// TestRSPOPlusNonnegative: ℓ >= 0 (paper, proposition 3 i).
func TestRSPOPlusNonnegative(t *testing.T) {
	eachPoint(t, 1, func(t *testing.T, p point) {
		if v, _ := p.rspo(t, p.chat); !(v >= -p.roundoff()) {
			t.Errorf("lambda %g: loss %v", p.lambda, v)
		}
	})
}

// TestRSPOPlusVanishesAtTruth: ĉ = c gives ℓ = 0 and ∇ = 0, exactly, as a
// divergence of equal points does (paper, proposition 2 and corollary 1).
func TestRSPOPlusVanishesAtTruth(t *testing.T) {
	eachPoint(t, 2, func(t *testing.T, p point) {
		if v, g := p.rspo(t, p.c); v != 0 || norm(g) != 0 {
			t.Errorf("lambda %g: loss %v, gradient %v", p.lambda, v, g)
		}
	})
}

// TestRSPOPlusConvex: ℓ is convex along random segments, and lies above its
// tangents (paper, proposition 3 ii).
func TestRSPOPlusConvex(t *testing.T) {
	eachPoint(t, 3, func(t *testing.T, p point) {
		a, ga := p.rspo(t, p.chat)
		b, _ := p.rspo(t, p.next)
		for _, s := range []float64{0.1, 0.5, 0.8} {
			m, _ := p.rspo(t, add(scaled(1-s, p.chat), s, p.next))
			if !(m <= (1-s)*a+s*b+p.roundoff()) {
				t.Errorf("lambda %g: %v at %v of the way from %v to %v", p.lambda, m, s, a, b)
			}
		}
		if tangent := a + dot(ga, sub(p.next, p.chat)); !(b >= tangent-p.roundoff()) {
			t.Errorf("lambda %g: %v below the tangent %v", p.lambda, b, tangent)
		}
	})
}

// TestRSPOPlusLipschitz: |ℓ(a)-ℓ(b)| <= 2D|a-b| with D the diameter of S
// (paper, proposition 3 iii).
func TestRSPOPlusLipschitz(t *testing.T) {
	eachPoint(t, 4, func(t *testing.T, p point) {
		a, _ := p.rspo(t, p.chat)
		b, _ := p.rspo(t, p.next)
		if bound := 2 * p.diameter * norm(sub(p.chat, p.next)); !(math.Abs(a-b) <= bound+p.roundoff()) {
			t.Errorf("lambda %g: values %v apart, bound %v", p.lambda, math.Abs(a-b), bound)
		}
	})
}

// TestRSPOPlusSmooth: |∇(a)-∇(b)| <= (4/λ)|a-b| (paper, proposition 3 iv).
func TestRSPOPlusSmooth(t *testing.T) {
	eachPoint(t, 5, func(t *testing.T, p point) {
		_, a := p.rspo(t, p.chat)
		_, b := p.rspo(t, p.next)
		bound := 4 / p.lambda * norm(sub(p.chat, p.next))
		if got := norm(sub(a, b)); !(got <= bound+4*p.decisionRoundoff()) {
			t.Errorf("lambda %g: gradients %v apart, bound %v", p.lambda, got, bound)
		}
	})
}

// TestRSPOPlusCocoercive: (∇(a)-∇(b))·(a-b) >= (λ/4)|∇(a)-∇(b)|² (paper,
// proposition 3 iv).
func TestRSPOPlusCocoercive(t *testing.T) {
	eachPoint(t, 6, func(t *testing.T, p point) {
		_, a := p.rspo(t, p.chat)
		_, b := p.rspo(t, p.next)
		g, x := sub(a, b), sub(p.chat, p.next)
		left, right := dot(g, x), p.lambda/4*dot(g, g)
		// An error e of the gradients moves the sides by e|x| and (λ/2)e|g|.
		tol := 4 * p.decisionRoundoff() * (norm(x) + p.lambda*norm(g))
		if !(left >= right-tol) {
			t.Errorf("lambda %g: %v < %v", p.lambda, left, right)
		}
	})
}

// distanceForm is (λ/2)(|u-Π(v)|² - |u-Π(u)|²) with u = (c-2ĉ)/λ, v = -c/λ.
func distanceForm(t *testing.T, e *evaluator, c, chat []float64, lambda float64) float64 {
	u := scaled(1/lambda, sub(c, scaled(2, chat)))
	pu, pv := e.project(t, scaled(-lambda, u), lambda), e.project(t, c, lambda)
	du, dv := sub(u, pu), sub(u, pv)
	return lambda / 2 * (dot(dv, dv) - dot(du, du))
}

// bregmanForm is F(c-2ĉ) - F(-c) - Π(v)·(2c-2ĉ), with
// F(a) = max over s of a.s - (λ/2)|s|².
func bregmanForm(t *testing.T, e *evaluator, c, chat []float64, lambda float64) float64 {
	envelope := func(a []float64) float64 {
		s := e.project(t, scaled(-1, a), lambda)
		return dot(a, s) - lambda/2*dot(s, s)
	}
	pv := e.project(t, c, lambda)
	return envelope(sub(c, scaled(2, chat))) - envelope(scaled(-1, c)) - dot(pv, scaled(2, sub(c, chat)))
}

// TestRSPOPlusForms: the distance form and the Bregman form are the same
// number (paper, proposition 2), and ∇ is its derivative (corollary 1).
func TestRSPOPlusForms(t *testing.T) {
	eachPoint(t, 7, func(t *testing.T, p point) {
		v, g := p.rspo(t, p.chat)
		if b := bregmanForm(t, p.evaluator, p.c, p.chat, p.lambda); !(math.Abs(v-b) <= p.roundoff()) {
			t.Errorf("lambda %g: loss %v, Bregman form %v", p.lambda, v, b)
		}
		// The distance form squares numbers of size |θ|/λ.
		u := (norm(p.c)+2*norm(p.chat))/p.lambda + p.r
		if d := distanceForm(t, p.evaluator, p.c, p.chat, p.lambda); !(math.Abs(v-d) <= p.roundoff()+1e-14*p.lambda*u*u) {
			t.Errorf("lambda %g: loss %v, distance form %v", p.lambda, v, d)
		}
		step := math.Sqrt(p.roundoff() * p.lambda)
		checkGradient(t, func(x []float64) float64 { v, _ := p.rspo(t, x); return v }, p.chat, g, step, 4/p.lambda, p.roundoff())
	})
}

// TestRSPOPlusUpperBounds: ℓ <= (2/λ)|ĉ-c|² and ℓ <= 2D|ĉ-c|: smoothness and
// continuity from ĉ = c, where loss and gradient vanish (paper, proposition 3).
func TestRSPOPlusUpperBounds(t *testing.T) {
	eachPoint(t, 8, func(t *testing.T, p point) {
		v, _ := p.rspo(t, p.chat)
		gap := norm(sub(p.chat, p.c))
		if !(v <= 2/p.lambda*gap*gap+p.roundoff()) || !(v <= 2*p.diameter*gap+p.roundoff()) {
			t.Errorf("lambda %g: loss %v at distance %v, diameter %v", p.lambda, v, gap, p.diameter)
		}
	})
}

// TestRSPOPlusBoundsRegularizedRegret: ℓ >= R_reg + λ|ŵ-w*|² and R_reg >= 0,
// with ŵ = P_λ(ĉ), w* = P_λ(c) and R_reg the regret of ŵ in the regularised
// objective (paper, theorem 1).
func TestRSPOPlusBoundsRegularizedRegret(t *testing.T) {
	eachPoint(t, 9, func(t *testing.T, p point) {
		v, _ := p.rspo(t, p.chat)
		w, best := p.project(t, p.chat, p.lambda), p.project(t, p.c, p.lambda)
		objective := func(w []float64) float64 { return dot(p.c, w) + p.lambda/2*dot(w, w) }
		regret, gap := objective(w)-objective(best), sub(w, best)
		if !(regret >= -p.roundoff()) {
			t.Errorf("lambda %g: regularised regret %v", p.lambda, regret)
		}
		if bound := regret + p.lambda*dot(gap, gap); !(v >= bound-p.roundoff()) {
			t.Errorf("lambda %g: loss %v below %v", p.lambda, v, bound)
		}
	})
}

// TestRSPOPlusBoundsTrueRegret: c·ŵ - z*(c) <= ℓ + (λ/2)R² (paper, corollary 2
// and equation 3).
func TestRSPOPlusBoundsTrueRegret(t *testing.T) {
	eachPoint(t, 10, func(t *testing.T, p point) {
		v, _ := p.rspo(t, p.chat)
		_, z := p.minimize(t, p.c)
		regret := dot(p.c, p.project(t, p.chat, p.lambda)) - z
		if bound := v + p.lambda/2*p.r*p.r; !(regret <= bound+p.roundoff()) {
			t.Errorf("lambda %g: regret %v of the regularised decision, bound %v", p.lambda, regret, bound)
		}
	})
}

// TestRSPOPlusTendsToSPOPlus: where the LP optima are unique, value and
// gradient tend to those of SPO+ as λ -> 0 (paper, section 3.2).
// For small λ the projection is the optimal vertex itself (Mangasarian 1979),
// so the gradients agree up to rounding and the values up to λR².
func TestRSPOPlusTendsToSPOPlus(t *testing.T) {
	eachPoint(t, 11, func(t *testing.T, p point) {
		if p.accuracy > 0 {
			return // paths are solved for λ >= 0.05, far from the limit
		}
		// A prediction at a distance; near c, the optima at c and at 2ĉ-c are
		// the same vertex and both losses vanish.
		chat := add(p.c, 1, normals(rand.New(rand.NewPCG(11, uint64(len(p.c)))), len(p.c), 1))
		v, g := p.loss(t, surrogate.SPOPlus{}, p.c, chat, 0)
		p.lambda, p.chat = 1e-6, chat
		rv, rg := p.rspo(t, chat)
		if !(math.Abs(v-rv) <= p.lambda*p.r*p.r+p.roundoff()) {
			t.Errorf("RSPO+ %v, SPO+ %v", rv, v)
		}
		if gap := norm(sub(g, rg)); !(gap <= 4*p.decisionRoundoff()) {
			t.Errorf("gradients %v apart", gap)
		}
	})
}

// TestRSPOPlusQuadraticRegime: if S holds a ball of radius r about 0 and
// λ >= (|c|+2|ĉ|)/r then ℓ = (2/λ)|ĉ-c|² and ∇ = (4/λ)(ĉ-c) (paper, remark 3
// and appendix B.1); [-1,1]^d with r = 1.
func TestRSPOPlusQuadraticRegime(t *testing.T) {
	r := rand.New(rand.NewPCG(12, 12))
	for d := 1; d <= 50; d += 7 {
		e := newEvaluator(unitBox(d))
		for _, scale := range []float64{1e-4, 1, 300} {
			c, chat := normals(r, d, scale), normals(r, d, scale)
			for _, factor := range []float64{1, 3, 1000} {
				lambda := factor * (norm(c) + 2*norm(chat))
				v, g := e.loss(t, surrogate.RSPOPlus{}, c, chat, lambda)
				x := sub(chat, c)
				// Relative to the data, of which x is a difference.
				size := (norm(c) + 2*norm(chat)) / lambda
				if want := 2 / lambda * dot(x, x); !(math.Abs(v-want) <= 1e-14*size*(norm(c)+norm(chat))) {
					t.Errorf("d %d, lambda %g: loss %v, want %v", d, lambda, v, want)
				}
				if gap := norm(sub(g, scaled(4/lambda, x))); !(gap <= 1e-15*size*math.Sqrt(float64(d))) {
					t.Errorf("d %d, lambda %g: gradient off by %v", d, lambda, gap)
				}
			}
		}
	}
}

// TestRSPOPlusContinuousInLambda: |ℓ_λ-ℓ_μ| <= R²|λ-μ| + 2|c||c-ĉ||1/λ-1/μ|
// and |∇_λ-∇_μ| <= 2(|c-2ĉ|+|c|)|1/λ-1/μ| (paper, proposition 4,
// equations 4 and 5).
func TestRSPOPlusContinuousInLambda(t *testing.T) {
	eachPoint(t, 13, func(t *testing.T, p point) {
		v, g := p.rspo(t, p.chat)
		for _, factor := range []float64{1 + 1e-6, 1.1, 4, 100} {
			mu := p.lambda * factor
			vm, gm := p.loss(t, surrogate.RSPOPlus{}, p.c, p.chat, mu)
			inverse := math.Abs(1/p.lambda - 1/mu)
			bound := p.r*p.r*math.Abs(p.lambda-mu) + 2*norm(p.c)*norm(sub(p.c, p.chat))*inverse
			if !(math.Abs(v-vm) <= bound+factor*p.roundoff()) {
				t.Errorf("lambda %g and %g: values %v apart, bound %v", p.lambda, mu, math.Abs(v-vm), bound)
			}
			bound = 2 * (norm(sub(p.c, scaled(2, p.chat))) + norm(p.c)) * inverse
			if gap := norm(sub(g, gm)); !(gap <= bound+4*p.decisionRoundoff()) {
				t.Errorf("lambda %g and %g: gradients %v apart, bound %v", p.lambda, mu, gap, bound)
			}
		}
	})
}

// pair is two sets no further apart than delta in Hausdorff distance.
type pair struct {
	name  string
	i, j  set
	delta float64
}

// overshoot is the largest distance of a point of box i from box j. Distance
// and box are products over coordinates, so it is exact.
func overshoot(i, j *box) float64 {
	sum := 0.0
	for k := range i.lo {
		x := max(j.lo[k]-i.lo[k], i.hi[k]-j.hi[k], 0)
		sum += x * x
	}
	return math.Sqrt(sum)
}

// boxPair is a box, and the same box shifted and scaled.
func boxPair(r *rand.Rand, d int, change float64) pair {
	s := boxSet(r, d)
	i, j := s.polytope.(*box), &box{make([]float64, d), make([]float64, d)}
	scale, sum := 1+change*r.Float64(), 0.0
	for k := range i.lo {
		shift := change * r.NormFloat64()
		j.lo[k], j.hi[k] = scale*i.lo[k]+shift, scale*i.hi[k]+shift
		sum += (j.hi[k] - j.lo[k]) * (j.hi[k] - j.lo[k])
	}
	return pair{"box", s, set{name: "box", polytope: j, diameter: math.Sqrt(sum)}, max(overshoot(i, j), overshoot(j, i))}
}

// knapsackPair is two knapsacks of different weights and capacities. For w in
// S_i, a_j.w <= M a_i.w <= M b_i with M = max_k a_jk/a_ik, so t w with
// t = min(1, b_j/(M b_i)) lies in S_j, at a distance of (1-t)|w| <= (1-t)R_i.
func knapsackPair(r *rand.Rand, d int, change float64) pair {
	s := knapsackSet(r, d)
	i := s.polytope.(*knapsack.Set)
	a, up, down := make([]float64, d), 0.0, 0.0
	for k, w := range i.Weights() {
		a[k] = w * (1 + change*r.Float64())
		up, down = max(up, a[k]/w), max(down, w/a[k])
	}
	j, err := knapsack.New(a, i.Capacity()*(1+change*(r.Float64()-0.5)))
	if err != nil {
		panic(err)
	}
	from := func(s, to *knapsack.Set, m float64) float64 {
		return (1 - min(1, to.Capacity()/(m*s.Capacity()))) * s.Radius()
	}
	return pair{"knapsack", s, set{name: "knapsack", polytope: j, diameter: orthant(j)}, max(from(i, j, up), from(j, i, down))}
}

// topKPair is two top-k sets, k < l. For w in the larger, (k/l)w lies in the
// smaller, at a distance of at most (1-k/l)R_l. For w in the smaller,
// 1 - (1-w)(d-l)/(d-k) lies in the larger, at a distance of
// |1-w|(l-k)/(d-k) <= (l-k)/sqrt(d-k), as |1-w|² <= sum (1-w) = d-k.
func topKPair(r *rand.Rand, d int, change float64) pair {
	n := float64(d)
	k := n * (0.1 + 0.7*r.Float64())
	l := min(k*(1+change*r.Float64()), 0.95*n)
	small, err := knapsack.NewTopK(d, k)
	if err != nil {
		panic(err)
	}
	large, err := knapsack.NewTopK(d, l)
	if err != nil {
		panic(err)
	}
	delta := max((1-k/l)*large.Radius(), (l-k)/math.Sqrt(n-k))
	return pair{"topk", set{name: "topk", polytope: small, diameter: orthant(small)}, set{name: "topk", polytope: large, diameter: orthant(large)}, delta}
}

func eachPair(t *testing.T, seed uint64, f func(t *testing.T, r *rand.Rand, p pair)) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, seed))
	for _, kind := range []func(*rand.Rand, int, float64) pair{boxPair, knapsackPair, topKPair} {
		t.Run(kind(r, 2, 1).name, func(t *testing.T) {
			for _, d := range []int{1, 2, 7, 50} {
				for _, change := range []float64{1e-6, 1e-3, 0.1, 1} {
					for range 3 {
						f(t, r, kind(r, d, change))
					}
				}
			}
		})
	}
}

// TestProjectionStability: |Π_i(p)-Π_j(p)| <= sqrt(2δ(|p|+R_max)) (paper,
// appendix B.2, stability of the projection).
func TestProjectionStability(t *testing.T) {
	eachPair(t, 14, func(t *testing.T, r *rand.Rand, s pair) {
		i, j := newEvaluator(s.i.polytope), newEvaluator(s.j.polytope)
		for _, size := range []float64{1e-2, 1, 1e4} {
			p := normals(r, s.i.polytope.Dim(), size)
			bound := math.Sqrt(2 * s.delta * (norm(p) + max(i.r, j.r)))
			gap := norm(sub(i.project(t, scaled(-1, p), 1), j.project(t, scaled(-1, p), 1)))
			if !(gap <= bound+1e-13*(1+norm(p))) {
				t.Errorf("delta %g: projections %v apart, bound %v", s.delta, gap, bound)
			}
		}
	})
}

// TestRSPOPlusAcrossClients: |ℓ_i(ĉ,c_i)-ℓ_j(ĉ,c_j)| <= T + B, with
// T = D_i|c_i-c_j| + δ(|c_j-2ĉ|+|c_j|+2λR_max) and
// B = (2|ĉ|+2λR_max)(|c_i-c_j|/λ + sqrt(2δ(|c_j|/λ+R_max))) (paper, theorem 3).
func TestRSPOPlusAcrossClients(t *testing.T) {
	eachPair(t, 15, func(t *testing.T, r *rand.Rand, s pair) {
		i, j := newEvaluator(s.i.polytope), newEvaluator(s.j.polytope)
		d, most := s.i.polytope.Dim(), max(i.r, j.r)
		for _, lambda := range lambdas {
			for _, spread := range []float64{0, 1e-3, 1} {
				ci, chat := normals(r, d, 1), normals(r, d, 1)
				cj := add(ci, 1, normals(r, d, spread))
				vi, _ := i.loss(t, surrogate.RSPOPlus{}, ci, chat, lambda)
				vj, _ := j.loss(t, surrogate.RSPOPlus{}, cj, chat, lambda)
				cd := norm(sub(ci, cj))
				transfer := s.i.diameter*cd + s.delta*(norm(sub(cj, scaled(2, chat)))+norm(cj)+2*lambda*most)
				baseline := (2*norm(chat) + 2*lambda*most) * (cd/lambda + math.Sqrt(2*s.delta*(norm(cj)/lambda+most)))
				tol := 1e-13 * (norm(ci) + norm(cj) + 2*norm(chat) + lambda*most) * most
				if gap := math.Abs(vi - vj); !(gap <= transfer+baseline+tol) {
					t.Errorf("lambda %g, delta %g: losses %v apart, bound %v + %v", lambda, s.delta, gap, transfer, baseline)
				}
			}
		}
	})
}

// TestRSPOPlusKeepsDigits: for small λ and ĉ near c the factored form keeps
// the digits that the textbook forms of proposition 2 lose. In [-1,1]^3 two
// entries sit at their bounds and the third inside, where the loss is
// (2/λ)(ĉ-c)² exactly.
func TestRSPOPlusKeepsDigits(t *testing.T) {
	const lambda = 0x1p-20
	e := newEvaluator(unitBox(3))
	c := []float64{0.9, -0.7, 0.3 * lambda}
	chat := []float64{0.9, -0.7, 0.3003 * lambda}
	want := 2 / lambda * (chat[2] - c[2]) * (chat[2] - c[2])
	relative := func(v float64) float64 { return math.Abs(v-want) / want }
	// ĉ-c itself is known to 1000 units in the last place of c, and only it
	// matters: the entries at the bounds drop out.
	if v, _ := e.loss(t, surrogate.RSPOPlus{}, c, chat, lambda); !(relative(v) <= 1e-12) {
		t.Errorf("loss %v, want %v", v, want)
	}
	if v := distanceForm(t, e, c, chat, lambda); !(relative(v) > 0.1) {
		t.Errorf("the distance form is off by only %g: the case shows nothing", relative(v))
	}
	if v := bregmanForm(t, e, c, chat, lambda); !(relative(v) > 1e-6) {
		t.Errorf("the Bregman form is off by only %g: the case shows nothing", relative(v))
	}
}

// vertices lists all vertices of a box or knapsack of small dimension, and
// perhaps further points of it.
func vertices(p oracle.Polytope) [][]float64 {
	d := p.Dim()
	var out [][]float64
	corner := func(mask int, lo, hi func(int) float64) []float64 {
		w := make([]float64, d)
		for k := range w {
			if w[k] = lo(k); mask>>k&1 == 1 {
				w[k] = hi(k)
			}
		}
		return w
	}
	for mask := range 1 << d {
		switch p := p.(type) {
		case *box:
			out = append(out, corner(mask, func(k int) float64 { return p.lo[k] }, func(k int) float64 { return p.hi[k] }))
		case *knapsack.Set, *knapsack.TopK:
			w := corner(mask, func(int) float64 { return 0 }, func(int) float64 { return 1 })
			a, rest := make([]float64, d), 0.0
			if s, ok := p.(*knapsack.Set); ok {
				rest = s.Capacity()
				for k, x := range s.Weights() {
					a[k] = x
				}
			} else {
				rest = p.(*knapsack.TopK).K()
				for k := range a {
					a[k] = 1
				}
			}
			if rest -= dot(a, w); rest < 0 {
				continue
			}
			if p.Violation(w) == 0 {
				out = append(out, w)
			}
			for k, x := range a { // one entry fills what is left
				if w[k] == 0 && rest <= x {
					v := scaled(1, w)
					v[k] = rest / x
					out = append(out, v)
				}
			}
		}
	}
	return out
}

func lowest(points [][]float64, theta []float64) (w []float64, z float64) {
	z = math.Inf(1)
	for _, v := range points {
		if x := dot(theta, v); x < z {
			w, z = v, x
		}
	}
	return w, z
}

// TestSPOPlusAgainstVertices: ℓ = ξ(c-2ĉ) + 2ĉ·w*(c) - z*(c), with ξ the
// support function, by going through all vertices (paper, section 3; Elmachtoub
// and Grigas 2022, definition 3).
func TestSPOPlusAgainstVertices(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 21))
	for _, kind := range []func(*rand.Rand, int) set{boxSet, knapsackSet, topKSet} {
		for d := 1; d <= 8; d++ {
			s := kind(r, d)
			e, points := newEvaluator(s.polytope), vertices(s.polytope)
			for range 5 {
				c, chat := normals(r, d, 1), normals(r, d, 1)
				best, z := lowest(points, c)
				a := sub(scaled(2, chat), c)
				worst, support := lowest(points, a)
				v, g := e.loss(t, surrogate.SPOPlus{}, c, chat, 0)
				if want := -support + 2*dot(chat, best) - z; !(math.Abs(v-want) <= 1e-13*(1+norm(a))*(1+e.r)) {
					t.Errorf("%s, d %d: loss %v, want %v", s.name, d, v, want)
				}
				if gap := norm(sub(g, scaled(2, sub(best, worst)))); !(gap <= 1e-13) {
					t.Errorf("%s, d %d: subgradient off by %v", s.name, d, gap)
				}
			}
		}
	}
}

// TestSPOPlus: the loss is non-negative, convex with the returned vector as
// subgradient, and an upper bound of the regret c·w*(ĉ) - z*(c) (Elmachtoub and
// Grigas 2022, proposition 3).
func TestSPOPlus(t *testing.T) {
	eachPoint(t, 22, func(t *testing.T, p point) {
		spo := func(chat []float64) (float64, []float64) { return p.loss(t, surrogate.SPOPlus{}, p.c, chat, 0) }
		a, ga := spo(p.chat)
		b, _ := spo(p.next)
		if !(a >= -p.roundoff()) {
			t.Errorf("loss %v", a)
		}
		if tangent := a + dot(ga, sub(p.next, p.chat)); !(b >= tangent-p.roundoff()) {
			t.Errorf("loss %v, below the tangent %v", b, tangent)
		}
		if m, _ := spo(scaled(0.5, add(p.chat, 1, p.next))); !(m <= (a+b)/2+p.roundoff()) {
			t.Errorf("loss %v halfway between %v and %v", m, a, b)
		}
		w, _ := p.minimize(t, p.chat)
		_, z := p.minimize(t, p.c)
		if regret := dot(p.c, w) - z; !(regret <= a+p.roundoff()) {
			t.Errorf("regret %v above the loss %v", regret, a)
		}
		if v, g := spo(p.c); v != 0 || norm(g) != 0 {
			t.Errorf("loss %v at the truth", v)
		}
	})
}

// TestMSE: ℓ = (1/d)|ĉ-c|² and ∇ = (2/d)(ĉ-c).
func TestMSE(t *testing.T) {
	eachPoint(t, 23, func(t *testing.T, p point) {
		d, x := float64(len(p.c)), sub(p.chat, p.c)
		v, g := p.loss(t, surrogate.MSE{}, p.c, p.chat, 0)
		if want := dot(x, x) / d; !(math.Abs(v-want) <= 1e-14*want) {
			t.Errorf("loss %v, want %v", v, want)
		}
		// Quadratic: central differences are exact but for rounding.
		noise := 1e-15 * (v + 1)
		checkGradient(t, func(x []float64) float64 { v, _ := p.loss(t, surrogate.MSE{}, p.c, x, 0); return v }, p.chat, g, 1e-3, 0, noise)
	})
}

// TestBatchIsMean: the batch loss and its gradient are means over the rows, for
// any batch length, whatever samples the rows name.
func TestBatchIsMean(t *testing.T) {
	r := rand.New(rand.NewPCG(24, 24))
	const n, d, lambda = 9, 6, 0.7
	s := knapsackSet(r, d)
	e := newEvaluator(s.polytope)
	costs := normals(r, n*d, 1)
	for _, l := range []surrogate.Loss{surrogate.MSE{}, surrogate.SPOPlus{}, surrogate.RSPOPlus{}} {
		for _, rows := range [][]int{{4}, {8, 0, 3}, {5, 1, 5, 7, 2}} {
			b := surrogate.Batch{Loss: l, Pool: e.pool, Targets: surrogate.NewTargets(costs, d), Rows: rows, Lambda: lambda}
			k := len(rows)
			// Longer than needed: what lies beyond must stay.
			chat, values, grad := normals(r, n*d, 1), make([]float64, n), make([]float64, n*d)
			values[k], grad[k*d] = -7, -7
			got, err := b.Eval(chat, values, grad)
			if err != nil {
				t.Fatal(err)
			}
			sum := 0.0
			for i, row := range rows {
				v, g := e.loss(t, l, costs[row*d:(row+1)*d], chat[i*d:(i+1)*d], lambda)
				sum += v
				if values[i] != v {
					t.Errorf("%s: row %d has loss %v, want %v", l.Name(), i, values[i], v)
				}
				// One product rounds.
				if gap := norm(sub(scaled(float64(k), grad[i*d:(i+1)*d]), g)); !(gap <= 1e-15*(1+norm(g))) {
					t.Errorf("%s: gradient of row %d off by %v", l.Name(), i, gap)
				}
			}
			if want := sum / float64(k); !(math.Abs(got-want) <= 1e-15*(1+math.Abs(want))) {
				t.Errorf("%s: batch loss %v, want %v", l.Name(), got, want)
			}
			if values[k] != -7 || grad[k*d] != -7 {
				t.Errorf("%s: Eval wrote beyond its %d rows", l.Name(), k)
			}
		}
	}
}
