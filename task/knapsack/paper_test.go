package knapsack

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"fedrspo/internal/stream"
)

// Every test in this file restates a claim of the paper (appendix C.2) about
// the synthetic knapsack data.

var seeds = []int64{42, 69, 1993, 67, 2026}

func generate(t testing.TB, cfg Config) *Dataset {
	t.Helper()
	d, err := Generate(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Validate(); err != nil {
		t.Fatal(err)
	}
	return d
}

// truths returns what generates the data of every client.
func truths(t testing.TB, cfg Config) (base, []truth) {
	t.Helper()
	cfg, err := cfg.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	b := drawBase(cfg)
	all := make([]truth, cfg.Clients)
	for k := range all {
		all[k] = drawTruth(cfg, b, k+1)
	}
	return b, all
}

// near reports whether a and b differ by at most tol times max(1, |b|).
func near(a, b, tol float64) bool { return math.Abs(a-b) <= tol*max(1, math.Abs(b)) }

// TestSizes: "Each of the 20 clients receives 100 training, 10 validation, and
// 100 test samples", with 50 items and 8 features.
func TestSizes(t *testing.T) {
	d := generate(t, Config{Seed: 42})
	if len(d.Clients) != 20 || d.Items != 50 || d.Features != 8 {
		t.Fatalf("%d clients, %d items, %d features", len(d.Clients), d.Items, d.Features)
	}
	for _, c := range d.Clients {
		if c.Train.Len() != 100 || c.Val.Len() != 10 || c.Test.Len() != 100 {
			t.Errorf("client %d: %d, %d and %d samples", c.ID, c.Train.Len(), c.Val.Len(), c.Test.Len())
		}
	}
}

// TestCostsAreNegatedValues: the paper maximises values; all of them are
// positive, so that all costs are negative. Their mean absolute value is 1 in
// every split of every client.
func TestCostsAreNegatedValues(t *testing.T) {
	for _, seed := range seeds {
		d := generate(t, Config{Seed: seed, EtaObj: 1, EtaConstr: 0.5, EtaData: 1})
		for k := range d.Clients {
			for s, split := range d.Clients[k].splits() {
				if worst := slices.Max(split.C.Data); worst >= 0 {
					t.Fatalf("seed %d client %d %s: a cost of %v", seed, d.Clients[k].ID, splitNames[s], worst)
				}
				// n numbers, each rounded once, and a sum of n.
				n := float64(len(split.C.Data))
				if m := meanAbs(split.C.Data); math.Abs(m-1) > (n+1)*0x1p-52 {
					t.Errorf("seed %d client %d %s: mean |c| is %v", seed, d.Clients[k].ID, splitNames[s], m)
				}
			}
		}
	}
}

// TestGroundTruth recomputes all costs from the features and the truth, as the
// formula is written: s = -(1 + (1 + W_j x/√p)^4), c = s / mean |s|.
func TestGroundTruth(t *testing.T) {
	for _, scale := range []CostScale{PerSplit, ByTrain} {
		cfg := Config{Seed: 69, EtaObj: 0.5, EtaData: 1, Clients: 3, Items: 7, Features: 5, Train: 40, Val: 10, Test: 20, CostScale: scale}
		d := generate(t, cfg)
		_, all := truths(t, cfg)
		for k := range d.Clients {
			unit := 0.0
			for s, split := range d.Clients[k].splits() {
				raw := make([][]float64, split.Len())
				sum := 0.0
				for row := range raw {
					x := mat.NewVecDense(5, split.X.Row(row))
					var r mat.VecDense
					r.MulVec(mat.NewDense(7, 5, all[k].w), x)
					for i := range 7 {
						v := -(1 + math.Pow(1+r.AtVec(i)/math.Sqrt(5), 4))
						raw[row] = append(raw[row], v)
						sum += -v
					}
				}
				if scale == PerSplit || s == 0 {
					unit = sum / float64(7*len(raw))
				}
				for row := range raw {
					for i, c := range split.C.Row(row) {
						if !near(c, raw[row][i]/unit, 1e-12) {
							t.Fatalf("%s client %d %s row %d: cost %d is %v, want %v", scale, k+1, splitNames[s], row, i, c, raw[row][i]/unit)
						}
					}
				}
			}
		}
	}
}

// TestBaseMatrix: entries Bernoulli(1/2), every row scaled by its own U(0.5,
// 1.5); base weights U(0.5, 1.5).
func TestBaseMatrix(t *testing.T) {
	ones, count := 0.0, 0.0
	var scales, weights []float64
	for seed := range int64(20) {
		b, _ := truths(t, Config{Seed: seed})
		weights = append(weights, b.a...)
		for i := range 50 {
			row := b.w[i*8 : (i+1)*8]
			scale := slices.Max(row)
			for _, v := range row {
				if v != 0 && v != scale {
					t.Fatalf("seed %d: row %d has the entries %v", seed, i, row)
				}
				if v != 0 {
					ones++
				}
				count++
			}
			if scale > 0 {
				scales = append(scales, scale)
			}
		}
	}
	if z := (ones - count/2) / math.Sqrt(count/4); math.Abs(z) > 4 {
		t.Errorf("%v of %v entries are not 0, %.1f standard deviations off", ones, count, z)
	}
	checkUniform(t, "row scales", scales, 0.5, 1.5)
	checkUniform(t, "weights", weights, 0.5, 1.5)
}

// checkUniform is the Kolmogorov-Smirnov test at the level 0.001.
func checkUniform(t *testing.T, what string, v []float64, lo, hi float64) {
	t.Helper()
	slices.Sort(v)
	n, worst := float64(len(v)), 0.0
	for i, x := range v {
		f := (x - lo) / (hi - lo)
		worst = max(worst, f-float64(i)/n, float64(i+1)/n-f)
	}
	if v[0] < lo || v[len(v)-1] > hi || worst*math.Sqrt(n) > 1.95 {
		t.Errorf("%s: %d numbers in [%v, %v], Kolmogorov-Smirnov statistic %.2f", what, len(v), v[0], v[len(v)-1], worst*math.Sqrt(n))
	}
}

// TestFactors: f = 2 Beta(1/eta, 1/eta) lies in (0, 2), has mean 1 and variance
// eta/(2+eta), "degenerates to 1" for eta = 0, and is uniform for eta = 1.
func TestFactors(t *testing.T) {
	const n = 20_000
	for _, eta := range []float64{minEta, 0.01, 0.5, 1, 2, maxEta} {
		r := stream.New(stream.Key{Purpose: "factors"})
		v := make([]float64, n)
		sum, square := 0.0, 0.0
		for i := range v {
			v[i] = factor(r, eta)
			sum += v[i] - 1
			square += (v[i] - 1) * (v[i] - 1)
			if !(v[i] >= minFactor && v[i] <= 2) {
				t.Fatalf("eta %v: a factor of %v", eta, v[i])
			}
		}
		variance := eta / (2 + eta)
		if z := sum / math.Sqrt(n*variance); math.Abs(z) > 4 {
			t.Errorf("eta %v: the mean is %.1f standard deviations off 1", eta, z)
		}
		// The fourth central moment is at most the variance, because |f-1| <= 1,
		// and at most 3 variance², because the law is flatter than the normal.
		fourth := min(variance, 3*variance*variance)
		if z := (square - n*variance) / math.Sqrt(n*fourth); math.Abs(z) > 4 {
			t.Errorf("eta %v: variance %v, want %v, %.1f standard deviations off", eta, square/n, variance, z)
		}
		if eta == 1 {
			checkUniform(t, "factors at eta 1", v, 0, 2)
		}
	}
	for range 10 {
		if f := factor(nil, 0); f != 1 {
			t.Fatalf("eta 0: a factor of %v", f)
		}
	}
}

// TestObjectiveHeterogeneity: R_j = exp(eta A/|A|) with A antisymmetric is
// orthogonal, so that W_j W_jᵀ = W_0 W_0ᵀ: only the direction in which features
// count changes. The exponential is compared with its series.
func TestObjectiveHeterogeneity(t *testing.T) {
	for _, eta := range []float64{0.5, 1, 10} {
		cfg := Config{Seed: 1993, EtaObj: eta}
		b, all := truths(t, cfg)
		w0 := mat.NewDense(50, 8, b.w)
		var gram mat.Dense
		gram.Mul(w0, w0.T())
		for k, c := range all {
			q := rotation(Config{Seed: 1993}.stream("rotation", k+1), 8, eta)
			var qtq, want, g mat.Dense
			qtq.Mul(q.T(), q)
			identity := mat.NewDiagDense(8, slices.Repeat([]float64{1}, 8))
			if !mat.EqualApprox(&qtq, identity, 1e-12) {
				t.Fatalf("eta %v client %d: QᵀQ is not the identity", eta, k+1)
			}
			wj := mat.NewDense(50, 8, c.w)
			want.Mul(w0, q)
			g.Mul(wj, wj.T())
			if !mat.EqualApprox(wj, &want, 1e-12) || !mat.EqualApprox(&g, &gram, 1e-11) {
				t.Errorf("eta %v client %d: W_j is not a rotation of W_0", eta, k+1)
			}
			if mat.EqualApprox(wj, w0, 1e-3) {
				t.Errorf("eta %v client %d: W_j is W_0", eta, k+1)
			}
		}
	}
}

// TestRotationSeries compares the rotation with the power series of
// exp(eta A/|A|_F), |A|_F taken as written.
func TestRotationSeries(t *testing.T) {
	const p, eta = 8, 1.0
	key := stream.Key{Purpose: "series"}
	q := rotation(stream.New(key), p, eta)
	r := stream.New(key)
	var g [p][p]float64
	for i := range p {
		for k := range p {
			g[i][k] = r.NormFloat64()
		}
	}
	norm := 0.0
	a := mat.NewDense(p, p, nil)
	for i := range p {
		for k := range p {
			a.Set(i, k, g[i][k]-g[k][i])
			norm += math.Pow(g[i][k]-g[k][i], 2)
		}
	}
	a.Scale(eta/math.Sqrt(norm), a)
	sum, term := mat.NewDense(p, p, nil), mat.NewDense(p, p, nil)
	for i := range p {
		sum.Set(i, i, 1)
		term.Set(i, i, 1)
	}
	for n := 1; n < 30; n++ { // |A| = 1: the rest is below 1/30!
		term.Mul(mat.DenseCopyOf(term), a)
		term.Scale(1/float64(n), term)
		sum.Add(sum, term)
	}
	if !mat.EqualApprox(q, sum, 1e-14) {
		t.Error("the rotation is not the exponential of its series")
	}
}

// TestHomogeneousClients: with eta = 0 the clients share the objective, the
// weights and the capacity 0.6·50 = 30, and features are standard normal.
func TestHomogeneousClients(t *testing.T) {
	cfg := Config{Seed: 67}
	d := generate(t, cfg)
	b, all := truths(t, cfg)
	var x []float64
	for k, c := range d.Clients {
		if c.Capacity != 30 || !slices.Equal(c.Weights, b.a) || !slices.Equal(all[k].w, b.w) {
			t.Errorf("client %d differs: capacity %v", c.ID, c.Capacity)
		}
		x = append(x, c.Train.X.Data...)
		x = append(x, c.Test.X.Data...)
	}
	for i, v := range x {
		x[i] = 0.5 * math.Erfc(-v/math.Sqrt2) // uniform if v is standard normal
	}
	checkUniform(t, "features", x, 0, 1)
}

// TestConstraintHeterogeneity: capacities are 30 f_j, and weights a_0 times a
// factor per item, of the same family; the weights stay shared on request.
func TestConstraintHeterogeneity(t *testing.T) {
	var capacities, weights []float64
	for seed := range int64(20) {
		cfg := Config{Seed: seed, EtaConstr: 1}
		b, all := truths(t, cfg)
		shared := cfg
		shared.SharedWeights = true
		_, same := truths(t, shared)
		for k := range all {
			capacities = append(capacities, all[k].b)
			for i := range b.a {
				weights = append(weights, all[k].a[i]/b.a[i])
			}
			if !slices.Equal(same[k].a, b.a) || same[k].b != all[k].b {
				t.Fatalf("seed %d client %d: shared weights changed more than the weights", seed, k+1)
			}
		}
	}
	checkUniform(t, "capacities", capacities, 0, 60)
	checkUniform(t, "weight factors", weights, 0, 2)
}

// TestCovariateShift: x | j is N(mu_j, diag(sigma_j²)), mu_j = eta N(0, I) and
// sigma a factor: under the same seed, x = mu + sigma z with the z of eta = 0.
func TestCovariateShift(t *testing.T) {
	plain := generate(t, Config{Seed: 42})
	cfg := Config{Seed: 42, EtaData: 0.5}
	moved := generate(t, cfg)
	_, all := truths(t, cfg)
	var mu []float64
	for k := range all {
		mu = append(mu, all[k].mu...)
		for s, split := range moved.Clients[k].splits() {
			z := plain.Clients[k].splits()[s].X
			for i, x := range split.X.Data {
				if want := all[k].mu[i%8] + all[k].sigma[i%8]*z.Data[i]; !near(x, want, 1e-15) {
					t.Fatalf("client %d %s: feature %v, want %v", k+1, splitNames[s], x, want)
				}
			}
		}
	}
	for i, v := range mu {
		mu[i] = 0.5 * math.Erfc(-v/(0.5*math.Sqrt2))
	}
	checkUniform(t, "shifts", mu, 0, 1)
}

// TestDialsAreIndependent: "Each heterogeneity axis is varied independently
// while the others are held": a dial changes nothing that it does not govern.
func TestDialsAreIndependent(t *testing.T) {
	full := Config{Seed: 2026, EtaObj: 0.5, EtaConstr: 0.5, EtaData: 0.5}
	fullBase, all := truths(t, full)
	data := generate(t, full)
	features := func(d *Dataset) (x []float64) {
		for k := range d.Clients {
			for _, s := range d.Clients[k].splits() {
				x = append(x, s.X.Data...)
			}
		}
		return x
	}
	for name, change := range map[string]func(*Config){
		"objective":  func(c *Config) { c.EtaObj = 1 },
		"constraint": func(c *Config) { c.EtaConstr = 1 },
		"data":       func(c *Config) { c.EtaData = 1 },
		"cost scale": func(c *Config) { c.CostScale = ByTrain },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := full
			change(&cfg)
			b, other := truths(t, cfg)
			d := generate(t, cfg)
			if !reflect.DeepEqual(b, fullBase) {
				t.Error("the base changed")
			}
			check := func(what string, same, want bool) {
				t.Helper()
				if same != want {
					t.Errorf("%s: the same %v, want %v", what, same, want)
				}
			}
			for k := range all {
				check("objective", slices.Equal(all[k].w, other[k].w), name != "objective")
				check("capacity", all[k].b == other[k].b, name != "constraint")
				check("weights", slices.Equal(all[k].a, other[k].a), name != "constraint")
				check("shift", slices.Equal(all[k].mu, other[k].mu), name != "data")
				check("spread", slices.Equal(all[k].sigma, other[k].sigma), name != "data")
				check("training costs", slices.Equal(data.Clients[k].Train.C.Data, d.Clients[k].Train.C.Data), name == "constraint" || name == "cost scale")
				check("test costs", slices.Equal(data.Clients[k].Test.C.Data, d.Clients[k].Test.C.Data), name == "constraint")
			}
			check("features", slices.Equal(features(data), features(d)), name != "data")
		})
	}
}
