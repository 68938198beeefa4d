package surrogate_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"fedrspo/internal/stream"
	"fedrspo/oracle"
	"fedrspo/oracle/knapsack"
	"fedrspo/surrogate"
)

// density and cdf are those of the standard normal.
func density(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }
func cdf(x float64) float64     { return math.Erfc(-x/math.Sqrt2) / 2 }

// moments are expectations over the noise at a prediction ĉ, known without
// sampling: of the optimal value η·y, of the decision y = w*(η), and of |y|².
type moments struct {
	value  float64
	y      []float64
	square float64
}

// noisy is a feasible set and a kind of noise whose moments are known.
type noisy struct {
	name string
	set  oracle.Polytope
	p    surrogate.Perturbation
	at   func(chat []float64) moments
	// predictions to test at.
	predictions [][]float64
}

// boxMoments are closed forms on [0,1]^d, where y_j = 1[η_j < 0]: with additive
// noise a normal probability and the mean of a truncated normal; multiplicative
// noise flips no sign and has mean one.
func boxMoments(p surrogate.Perturbation) func([]float64) moments {
	return func(chat []float64) moments {
		m := moments{y: make([]float64, len(chat))}
		for j, c := range chat {
			if p.Multiplicative {
				m.value += min(c, 0)
				if c < 0 {
					m.y[j] = 1
				}
			} else {
				m.y[j] = cdf(-c / p.Epsilon)
				m.value += c*m.y[j] - p.Epsilon*density(c/p.Epsilon)
			}
			m.square += m.y[j] // y² = y
		}
		return m
	}
}

// fills are the decisions of a knapsack of two items: item 1 first, item 2
// first, item 1 alone and item 2 alone.
func fills(a [2]float64, b float64) (first, second, one, two [2]float64) {
	one, two = [2]float64{min(1, b/a[0]), 0}, [2]float64{0, min(1, b/a[1])}
	first = [2]float64{one[0], max(0, min(1, (b-one[0]*a[0])/a[1]))}
	second = [2]float64{max(0, min(1, (b-two[1]*a[1])/a[0])), two[1]}
	return first, second, one, two
}

// additivePair are the moments over a knapsack of two items. Given η_1 the
// decision is constant on intervals of η_2, whose probabilities and means are
// closed forms; Simpson's rule integrates over η_1, on both sides of the kink
// at η_1 = 0.
func additivePair(a [2]float64, b, epsilon float64) func([]float64) moments {
	first, second, one, two := fills(a, b)
	return func(chat []float64) moments {
		m := moments{y: make([]float64, 2)}
		integrand := func(z, weight float64) {
			eta := chat[0] + epsilon*z
			interval := func(lo, hi float64, w [2]float64) {
				lo, hi = (lo-chat[1])/epsilon, (hi-chat[1])/epsilon
				p := cdf(hi) - cdf(lo)
				part := chat[1]*p - epsilon*(density(hi)-density(lo)) // E[η_2; interval]
				m.value += weight * (eta*w[0]*p + w[1]*part)
				m.y[0] += weight * p * w[0]
				m.y[1] += weight * p * w[1]
				m.square += weight * p * (w[0]*w[0] + w[1]*w[1])
			}
			inf := math.Inf(1)
			if eta >= 0 {
				interval(-inf, 0, two)
				return
			}
			ratio := eta * a[1] / a[0]
			interval(-inf, ratio, second)
			interval(ratio, 0, first)
			interval(0, inf, one)
		}
		const reach, n = 9, 1000 // beyond 9 deviations there is less than 1e-18
		kink := min(max(-chat[0]/epsilon, -reach), reach)
		for _, part := range [][2]float64{{-reach, kink}, {kink, reach}} {
			h := (part[1] - part[0]) / n
			for k := range n + 1 {
				weight := []float64{2, 4}[k%2]
				if k == 0 || k == n {
					weight = 1
				}
				// The ends belong to their own side of the kink.
				z := min(max(part[0]+float64(k)*h, part[0]+1e-12), part[1]-1e-12)
				if h > 0 {
					integrand(z, weight*h/3*density(z))
				}
			}
		}
		return m
	}
}

// multiplicativePair are the closed forms over a knapsack of two items of
// negative costs: item 2 goes first where η_2/a_2 < η_1/a_1, that is where
// Z_2-Z_1 > L/ε with L = log(|ĉ_1|a_2/(|ĉ_2|a_1)). Weighting with the factor of
// Z_i shifts the mean of Z_i by ε.
func multiplicativePair(a [2]float64, b, epsilon float64) func([]float64) moments {
	first, second, _, _ := fills(a, b)
	return func(chat []float64) moments {
		l := math.Log(chat[0]*a[1]/(chat[1]*a[0])) / epsilon
		p := cdf(-l / math.Sqrt2)
		p1, p2 := cdf(-(l+epsilon)/math.Sqrt2), cdf(-(l-epsilon)/math.Sqrt2)
		mix := func(p float64, k int) float64 { return p*second[k] + (1-p)*first[k] }
		norm := func(w [2]float64) float64 { return w[0]*w[0] + w[1]*w[1] }
		return moments{
			value:  chat[0]*mix(p1, 0) + chat[1]*mix(p2, 1),
			y:      []float64{mix(p, 0), mix(p, 1)},
			square: p*norm(second) + (1-p)*norm(first),
		}
	}
}

func noisySets() []noisy {
	a, b := [2]float64{0.8, 1.3}, 1.1
	pair, err := knapsack.New(a[:], b)
	if err != nil {
		panic(err)
	}
	var out []noisy
	for _, epsilon := range []float64{0.4, 1} {
		p := surrogate.Perturbation{Epsilon: epsilon}
		q := surrogate.Perturbation{Epsilon: epsilon, Multiplicative: true}
		out = append(out,
			noisy{"box/additive", cube(4, 0, 1), p, boxMoments(p), [][]float64{{0.3, -0.5, 0, 1.2}, {-1.1, -0.1, 0.6, -0.4}}},
			noisy{"box/multiplicative", cube(3, 0, 1), q, boxMoments(q), [][]float64{{0.3, -0.5, 2}, {-1, -2, -0.1}}},
			noisy{"knapsack/additive", pair, p, additivePair(a, b, epsilon), [][]float64{{-0.5, -0.9}, {0.3, -0.2}, {-1, 0.1}}},
			noisy{"knapsack/multiplicative", pair, q, multiplicativePair(a, b, epsilon), [][]float64{{-0.5, -0.9}, {-1, -0.7}}})
	}
	return out
}

// derivative is the central difference of f along coordinate i. With third
// derivatives up to 1/ε³ < 20 it is off by less than 1e-8, far below the noise
// of any average here.
func derivative(f func([]float64) float64, x []float64, i int) float64 {
	const step = 5e-5
	up, down := scaled(1, x), scaled(1, x)
	up[i] += step
	down[i] -= step
	return (f(up) - f(down)) / (2 * step)
}

// estimate is the mean of draws of a random vector, and its standard error.
type estimate struct{ mean, err []float64 }

// newEstimate averages the n vectors of draws [n, d].
func newEstimate(draws []float64, d int) (e estimate) {
	n := len(draws) / d
	e.mean, e.err = make([]float64, d), make([]float64, d)
	for k, x := range draws {
		e.mean[k%d] += x / float64(n)
	}
	for k, x := range draws {
		e.err[k%d] += (x - e.mean[k%d]) * (x - e.mean[k%d])
	}
	for j := range e.err {
		e.err[j] = math.Sqrt(e.err[j] / float64(n-1) / float64(n))
	}
	return e
}

// check compares with the expectation: 5 standard errors are exceeded with
// probability 6e-7, and seeds are fixed; rounding and differences cost 1e-7.
func (e *estimate) check(t *testing.T, what string, want []float64) {
	t.Helper()
	for j, w := range want {
		if gap := math.Abs(e.mean[j] - w); !(gap <= 5*e.err[j]+1e-7) {
			t.Errorf("%s %d is %v on average, want %v (%.1f standard errors)", what, j, e.mean[j], w, gap/e.err[j])
		}
	}
}

// visits evaluates l at n samples that are all alike but for their noise.
func visits(t *testing.T, l surrogate.Loss, p oracle.Polytope, c, chat []float64, n int) (value, grad estimate) {
	t.Helper()
	d := len(c)
	b := surrogate.Batch{Loss: l, Pool: oracle.NewPool(p, 2), Targets: surrogate.NewTargets(slices.Repeat(c, n), d),
		Rows: make([]int, n), Noise: stream.NewFamily(stream.Key{Seed: 5, Purpose: "visits"})}
	for i := range b.Rows {
		b.Rows[i] = i
	}
	values, g := make([]float64, n), make([]float64, n*d)
	if _, err := b.Eval(slices.Repeat(chat, n), values, g); err != nil {
		t.Fatal(err)
	}
	return newEstimate(values, 1), newEstimate(scaled(float64(n), g), d)
}

// eachNoisy runs f at every prediction of the sets with known moments.
func eachNoisy(t *testing.T, f func(t *testing.T, s noisy, e *evaluator, c, chat []float64)) {
	r := rand.New(rand.NewPCG(51, 51))
	for _, s := range noisySets() {
		t.Run(fmt.Sprintf("%s/epsilon=%v", s.name, s.p.Epsilon), func(t *testing.T) {
			for _, chat := range s.predictions {
				f(t, s, newEvaluator(s.set), normals(r, len(chat), 1), chat)
			}
		})
	}
}

// TestPFYLIsUnbiased: for any M the expected loss is ĉ·w*(c) - E η·w*(η), and
// the expected gradient its derivative (Berthet et al. 2020, proposition 2.2
// and section 3.2; Dalle et al. 2022, section 4.1 for multiplicative noise).
func TestPFYLIsUnbiased(t *testing.T) {
	eachNoisy(t, func(t *testing.T, s noisy, e *evaluator, c, chat []float64) {
		y, _ := e.minimize(t, c)
		loss := func(chat []float64) float64 { return dot(chat, y) - s.at(chat).value }
		want := make([]float64, len(chat))
		for i := range want {
			want[i] = derivative(loss, chat, i)
		}
		for _, m := range []int{1, 2, 10} {
			s.p.Samples = m
			value, grad := visits(t, surrogate.PFYL{Perturbation: s.p}, s.set, c, chat, 24_000/m)
			value.check(t, fmt.Sprintf("M=%d: loss", m), []float64{loss(chat)})
			grad.check(t, fmt.Sprintf("M=%d: derivative", m), want)
		}
	})
}

// TestPFYLOfTheTruth: in expectation the loss is convex and its gradient at ĉ
// is y less the expected decision, so no ĉ makes the expected loss less than the
// negative of the perturbed optimum's regulariser; far from the origin the
// noise does not matter, and the gradient vanishes exactly where ĉ decides as
// c does (Berthet et al. 2020, proposition 2.3: temperature to zero).
func TestPFYLOfTheTruth(t *testing.T) {
	r := rand.New(rand.NewPCG(52, 52))
	for _, p := range []surrogate.Perturbation{{}, {Multiplicative: true, Epsilon: 1e-9}} {
		c := []float64{-900, 500, -700, 800}
		s := knapsackSet(r, len(c))
		_, grad := visits(t, surrogate.PFYL{Perturbation: p}, cube(len(c), 0, 1), c, c, 50)
		if n := norm(grad.mean); n > 1e-6 {
			t.Errorf("gradient %v at the truth", grad.mean)
		}
		_, grad = visits(t, surrogate.PFYL{Perturbation: p}, s.polytope, c, scaled(-1, c), 50)
		if norm(grad.mean) < 0.1 {
			t.Errorf("gradient %v far from the truth", grad.mean)
		}
	}
}

// TestDPOEstimator: the loss is (1/d)|ȳ-y|², with expectation
// (1/d)(|Ey-y|² + (E|y|²-|Ey|²)/M), and the expected gradient of the
// score-function estimator is, with J the derivative of Ey,
//
//	(2/d)(Jᵀ(Ey - y) + (∇E|y|² - k JᵀEy)/M),   k = 2 with the baseline, 1 without:
//
// the derivative of the expected loss of infinitely many draws, plus the part
// that comes from using the same draws in ȳ and in the score (Berthet et al.
// 2020, section 3.1).
func TestDPOEstimator(t *testing.T) {
	eachNoisy(t, func(t *testing.T, s noisy, e *evaluator, c, chat []float64) {
		y, _ := e.minimize(t, c)
		d, at := len(chat), s.at(chat)
		gap := sub(at.y, y)
		main, square, along := make([]float64, d), make([]float64, d), make([]float64, d)
		for i := range d {
			main[i] = derivative(func(x []float64) float64 { return dot(s.at(x).y, gap) }, chat, i)
			along[i] = derivative(func(x []float64) float64 { return dot(s.at(x).y, at.y) }, chat, i)
			square[i] = derivative(func(x []float64) float64 { return s.at(x).square }, chat, i)
		}
		for _, m := range []int{1, 2, 10} {
			s.p.Samples = m
			for _, plain := range []bool{false, true} {
				k := 2.0
				if plain || m == 1 {
					k = 1
				}
				want := scaled(2/float64(d), add(main, 1/float64(m), add(square, -k, along)))
				loss := (dot(gap, gap) + (at.square-dot(at.y, at.y))/float64(m)) / float64(d)
				value, grad := visits(t, surrogate.DPO{Perturbation: s.p, NoBaseline: plain}, s.set, c, chat, 24_000/m)
				value.check(t, fmt.Sprintf("M=%d, no baseline %v: loss", m, plain), []float64{loss})
				grad.check(t, fmt.Sprintf("M=%d, no baseline %v: derivative", m, plain), want)
			}
		}
	})
}

// TestDPOTendsToTheDerivative: with many draws a single visit gives the
// derivative of (1/d)|Ey-y|².
func TestDPOTendsToTheDerivative(t *testing.T) {
	eachNoisy(t, func(t *testing.T, s noisy, e *evaluator, c, chat []float64) {
		y, _ := e.minimize(t, c)
		d := float64(len(chat))
		for _, plain := range []bool{false, true} {
			s.p.Samples = 100_000
			_, grad := e.loss(t, surrogate.DPO{Perturbation: s.p, NoBaseline: plain}, c, chat, 0)
			for i := range chat {
				want := derivative(func(x []float64) float64 {
					gap := sub(s.at(x).y, y)
					return dot(gap, gap) / d
				}, chat, i)
				// A draw's score is of size 1/(ε|ĉ|), the rest at most |w||δ| <= 4 R²/d.
				score := 1 / s.p.Epsilon
				if s.p.Multiplicative {
					score /= math.Abs(chat[i])
				}
				if tol := 5 * score * 4 * e.r * e.r / d / math.Sqrt(float64(s.p.Samples)); !(math.Abs(grad[i]-want) <= tol) {
					t.Errorf("no baseline %v: derivative %d is %v, want %v within %v", plain, i, grad[i], want, tol)
				}
			}
		}
	})
}

// TestBaselineReducesVariance: where most draws decide alike and miss the
// target, the estimator with the mean as baseline has less variance; on the box
// under multiplicative noise, where all decide alike, it has none.
func TestBaselineReducesVariance(t *testing.T) {
	eachNoisy(t, func(t *testing.T, s noisy, _ *evaluator, _, chat []float64) {
		// Items that nearly always pay, where in truth none does.
		c := make([]float64, len(chat))
		chat = scaled(1, chat)
		for j, x := range chat {
			chat[j], c[j] = -0.5-math.Abs(x), 1
		}
		_, with := visits(t, surrogate.DPO{Perturbation: s.p}, s.set, c, chat, 4000)
		_, without := visits(t, surrogate.DPO{Perturbation: s.p, NoBaseline: true}, s.set, c, chat, 4000)
		if a, b := norm(with.err), norm(without.err); !(a < 0.95*b) {
			t.Errorf("standard errors %v with and %v without the baseline", a, b)
		}
		if s.name == "box/multiplicative" && (norm(with.mean) > 1e-14 || norm(without.err) == 0) {
			t.Errorf("decisions that never vary: gradient %v, standard error %v without baseline", with.mean, without.err)
		}
	})
}

// TestPerturbedAgainstMonteCarlo compares with 200000 draws of the test's own
// on sets of three to five dimensions: the mean of PFYL over visits, and one
// DPO visit of as many draws. The decision of a draw and the score are
// uncorrelated between the two, so their variances add up.
func TestPerturbedAgainstMonteCarlo(t *testing.T) {
	const n = 200_000
	r := rand.New(rand.NewPCG(53, 53))
	for _, kind := range []func(*rand.Rand, int) set{knapsackSet, topKSet} {
		for _, d := range []int{3, 5} {
			for _, multiplicative := range []bool{false, true} {
				s := kind(r, d)
				t.Run(fmt.Sprintf("%s/d=%d/multiplicative=%v", s.name, d, multiplicative), func(t *testing.T) {
					const epsilon = 0.7
					e := newEvaluator(s.polytope)
					c, chat := add(normals(r, d, 1), -0.5, slices.Repeat([]float64{1}, d)), make([]float64, d)
					for j := range chat {
						chat[j] = -0.2 - r.Float64()
					}
					y, _ := e.minimize(t, c)
					solver, eta := s.polytope.NewLinear(), make([]float64, d)
					// scores [n, d], decisions [n, d], and PFYL's terms [n, d+1].
					scores, ys, terms := make([]float64, n*d), make([]float64, n*d), make([]float64, n*(d+1))
					mean, weight := make([]float64, d), make([]float64, d)
					for k := range n {
						w, term := ys[k*d:(k+1)*d], terms[k*(d+1):(k+1)*(d+1)]
						for j, x := range chat {
							z := r.NormFloat64()
							weight[j], eta[j], scores[k*d+j] = 1, x+epsilon*z, z/epsilon
							if multiplicative {
								weight[j] = math.Exp(epsilon*z - epsilon*epsilon/2)
								eta[j], scores[k*d+j] = x*weight[j], z/(epsilon*x)
							}
						}
						if _, err := solver.Solve(w, eta); err != nil {
							t.Fatal(err)
						}
						for j, x := range w {
							mean[j] += x / n
							term[j] = y[j] - weight[j]*x
						}
						term[d] = dot(chat, y) - dot(eta, w)
					}
					p := surrogate.Perturbation{Epsilon: epsilon, Multiplicative: multiplicative}
					want := newEstimate(terms, d+1)
					value, grad := visits(t, surrogate.PFYL{Perturbation: p}, s.polytope, c, chat, n/10)
					for j, g := range append(grad.mean, value.mean...) {
						if gap, se := math.Abs(g-want.mean[j]), math.Sqrt2*want.err[j]; !(gap <= 5*se+1e-12) {
							t.Errorf("PFYL entry %d is %v, want %v (%.1f standard errors)", j, g, want.mean[j], gap/se)
						}
					}

					delta := scaled(2/float64(d), sub(mean, y))
					jacobian := make([]float64, d*d) // of Ey, by the score
					for k := range n {
						for i := range d {
							for j := range d {
								jacobian[i*d+j] += scores[k*d+j] * (ys[k*d+i] - mean[i]) / n
							}
						}
					}
					// The estimator's influence function: its covariance part, and
					// what the error of ȳ does to δ.
					influence, off := make([]float64, n*d), make([]float64, d)
					for k := range n {
						along := 0.0
						for i := range off {
							off[i] = ys[k*d+i] - mean[i]
							along += off[i] * delta[i]
						}
						for j := range d {
							influence[k*d+j] = scores[k*d+j] * along
							for i, x := range off {
								influence[k*d+j] += 2 / float64(d) * jacobian[i*d+j] * x
							}
						}
					}
					dpo := newEstimate(influence, d)
					p.Samples = n
					_, g := e.loss(t, surrogate.DPO{Perturbation: p}, c, chat, 0)
					for j := range g {
						if gap, se := math.Abs(g[j]-dpo.mean[j]), math.Sqrt2*dpo.err[j]; !(gap <= 5*se+1e-12) {
							t.Errorf("DPO derivative %d is %v, want %v (%.1f standard errors)", j, g[j], dpo.mean[j], gap/se)
						}
					}
				})
			}
		}
	}
}

// slowPerturbed is PFYL and DPO in plain loops over the same random numbers.
func slowPerturbed(l surrogate.Loss, s oracle.Polytope, noise stream.Family, sample int, c, chat []float64) (value float64, grad []float64) {
	solve := func(theta []float64) []float64 {
		w := make([]float64, len(theta))
		if _, err := s.NewLinear().Solve(w, theta); err != nil {
			panic(err)
		}
		return w
	}
	var p surrogate.Perturbation
	dpo, isDPO := l.(surrogate.DPO)
	if p = dpo.Perturbation; !isDPO {
		p = l.(surrogate.PFYL).Perturbation
	}
	m, epsilon := p.Samples, p.Epsilon
	if m == 0 {
		m = 10
	}
	if epsilon == 0 {
		epsilon = 1
	}
	rng := stream.NewStream()
	noise.Open(rng, sample)
	d, y := len(c), solve(c)
	var etas, scores, factors, ys [][]float64
	mean := make([]float64, d)
	for range m {
		eta, score, factor := make([]float64, d), make([]float64, d), make([]float64, d)
		for j, x := range chat {
			z := rng.NormFloat64()
			eta[j], score[j], factor[j] = x+epsilon*z, z/epsilon, 1
			if p.Multiplicative {
				factor[j] = math.Exp(epsilon*z - epsilon*epsilon/2)
				eta[j], score[j] = x*factor[j], 0
				if x != 0 {
					score[j] = z / (epsilon * x)
				}
			}
		}
		w := solve(eta)
		etas, scores, factors, ys = append(etas, eta), append(scores, score), append(factors, factor), append(ys, w)
		mean = add(mean, 1/float64(m), w)
	}
	grad = make([]float64, d)
	if !isDPO {
		value, grad = dot(chat, y), scaled(1, y)
		for k := range m {
			value -= dot(etas[k], ys[k]) / float64(m)
			for j := range grad {
				grad[j] -= factors[k][j] * ys[k][j] / float64(m)
			}
		}
		return value, grad
	}
	gap := sub(mean, y)
	for k := range m {
		off, divisor := sub(ys[k], mean), float64(m-1)
		if dpo.NoBaseline || m == 1 {
			off, divisor = ys[k], float64(m)
		}
		grad = add(grad, 2/float64(d)*dot(off, gap)/divisor, scores[k])
	}
	return dot(gap, gap) / float64(d), grad
}

// TestPerturbedAgainstTwin compares values and gradients of batches with plain
// loops over the same streams; also at a prediction of 0, which multiplicative
// noise cannot move.
func TestPerturbedAgainstTwin(t *testing.T) {
	const n, d = 7, 6
	r := rand.New(rand.NewPCG(54, 54))
	for _, l := range perturbedLosses {
		for _, kind := range []func(*rand.Rand, int) set{boxSet, knapsackSet, topKSet} {
			s := kind(r, d)
			costs := normals(r, n*d, 1)
			b := surrogate.Batch{Loss: l, Pool: oracle.NewPool(s.polytope, 1), Targets: surrogate.NewTargets(costs, d),
				Rows: []int{5, 0, 3, 6}, Noise: stream.NewFamily(stream.Key{Seed: 9, Round: 2, Client: 4, Epoch: 1})}
			rows := len(b.Rows)
			chat, values, grad := normals(r, rows*d, 1), make([]float64, rows), make([]float64, rows*d)
			chat[3] = 0
			if _, err := b.Eval(chat, values, grad); err != nil {
				t.Fatal(err)
			}
			for i, sample := range b.Rows {
				c, x := costs[sample*d:(sample+1)*d], chat[i*d:(i+1)*d]
				v, g := slowPerturbed(l, s.polytope, b.Noise, sample, c, x)
				// Sums of at most 60 products, of scores up to 5/|ĉ| < 1e4.
				if !(math.Abs(values[i]-v) <= 1e-13*(1+norm(c)+norm(x))) {
					t.Errorf("%+v on %s: loss %v, want %v", l, s.name, values[i], v)
				}
				if gap := norm(sub(scaled(float64(rows), grad[i*d:(i+1)*d]), g)); !(gap <= 1e-13*(1+norm(g))) {
					t.Errorf("%+v on %s: gradient off by %v", l, s.name, gap)
				}
			}
		}
	}
}

// TestNoiseBelongsToTheVisit: the noise of a sample follows from the key and
// the sample alone, not from its place in the batch, and differs between
// samples, epochs, rounds, clients, purposes and seeds.
func TestNoiseBelongsToTheVisit(t *testing.T) {
	const n, d = 4, 5
	c := []float64{-1, -0.4, 0.2, -0.7, 0.1}
	s := cube(d, 0, 1)
	eval := func(l surrogate.Loss, key stream.Key, rows ...int) []float64 {
		b := surrogate.Batch{Loss: l, Pool: oracle.NewPool(s, 1), Targets: surrogate.NewTargets(slices.Repeat(c, n), d),
			Rows: rows, Noise: stream.NewFamily(key)}
		values := make([]float64, len(rows))
		if _, err := b.Eval(slices.Repeat(c, len(rows)), values, make([]float64, len(rows)*d)); err != nil {
			t.Fatal(err)
		}
		return values
	}
	base := stream.Key{Seed: 1, Purpose: "noise", Round: 1, Client: 1, Epoch: 1}
	l := surrogate.PFYL{}
	want := eval(l, base, 0, 1, 2, 3)
	if got := eval(l, base, 3, 1); got[0] != want[3] || got[1] != want[1] {
		t.Errorf("losses %v of samples 3 and 1, in another batch %v", got, want)
	}
	all := slices.Clone(want)
	for _, change := range []func(k *stream.Key){
		func(k *stream.Key) { k.Seed++ }, func(k *stream.Key) { k.Purpose += "s" }, func(k *stream.Key) { k.Round++ },
		func(k *stream.Key) { k.Client++ }, func(k *stream.Key) { k.Epoch++ },
	} {
		key := base
		change(&key)
		all = append(all, eval(l, key, 0, 1, 2, 3)...)
	}
	slices.Sort(all)
	if n := len(slices.Compact(all)); n != 24 {
		t.Errorf("24 visits of a sample gave %d different losses", n)
	}
}

// TestSolverMemoryDoesNotMatter: a pool that has served other losses, numbers
// of draws and batches gives the same bits as a new one.
func TestSolverMemoryDoesNotMatter(t *testing.T) {
	const n, d = 12, 5
	r := rand.New(rand.NewPCG(55, 55))
	s := knapsackSet(r, d)
	costs, used := normals(r, n*d, 1), oracle.NewPool(s.polytope, 2)
	kept := surrogate.NewTargets(costs, d)
	for range 200 {
		b := surrogate.Batch{Loss: everyLoss[r.IntN(len(everyLoss))], Pool: used, Targets: kept, Rows: r.Perm(n)[:1+r.IntN(n)],
			Lambda: 0.5, Noise: stream.NewFamily(stream.Key{Round: r.IntN(5)})}
		chat := normals(r, len(b.Rows)*d, 1)
		values, grad := make([]float64, n), make([]float64, n*d)
		v, err := b.Eval(chat, values, grad)
		if err != nil {
			t.Fatal(err)
		}
		b.Pool, b.Targets = oracle.NewPool(s.polytope, 1), surrogate.NewTargets(costs, d)
		freshValues, freshGrad := make([]float64, n), make([]float64, n*d)
		fresh, err := b.Eval(chat, freshValues, freshGrad)
		if err != nil {
			t.Fatal(err)
		}
		if v != fresh || !slices.Equal(values, freshValues) || !slices.Equal(grad, freshGrad) {
			t.Fatalf("%+v: other bits from a pool with a past", b.Loss)
		}
	}
}

// TestPerturbationValidate: settings without meaning are refused; zero values
// mean 10 draws and ε = 1.
func TestPerturbationValidate(t *testing.T) {
	for _, p := range []surrogate.Perturbation{{Samples: -1}, {Samples: 1_000_001}, {Epsilon: -1}, {Epsilon: math.NaN()}, {Epsilon: math.Inf(1)}} {
		if p.Validate() == nil {
			t.Errorf("%+v: no error", p)
		}
	}
	if err := (surrogate.Perturbation{}).Validate(); err != nil {
		t.Error(err)
	}
	r := rand.New(rand.NewPCG(56, 56))
	s := knapsackSet(r, 4)
	e := newEvaluator(s.polytope)
	c, chat := normals(r, 4, 1), normals(r, 4, 1)
	written := surrogate.Perturbation{Samples: 10, Epsilon: 1}
	for _, l := range [][2]surrogate.Loss{{surrogate.PFYL{}, surrogate.PFYL{Perturbation: written}}, {surrogate.DPO{}, surrogate.DPO{Perturbation: written}}} {
		v, g := e.loss(t, l[0], c, chat, 0)
		if w, h := e.loss(t, l[1], c, chat, 0); v != w || !slices.Equal(g, h) {
			t.Errorf("%s: zero values are not 10 draws and ε = 1", l[0].Name())
		}
	}
}
