package knapsack

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat/distuv"

	"fedrspo/internal/stream"
	"fedrspo/task"
)

// The constants of the paper's generator (appendix C.2).
const (
	// capacityPerItem times d is the base capacity: 0.6·50 = 30.
	capacityPerItem = 0.6
	// minFactor keeps a heterogeneity factor positive.
	minFactor = 1e-9
)

// Generate draws the synthetic dataset of the paper (appendix C.2):
//
//	W_0      [d,p] entries Bernoulli(1/2), every row times a U(0.5, 1.5)
//	W_j    = W_0 exp(eta_obj A/|A|_F), A = G - Gᵀ, G standard normal [p,p]
//	a_ji   = a_0i beta, a_0i ~ U(0.5, 1.5)
//	b_j    = 0.6 d beta
//	x      ~ N(mu_j, diag(sigma_j²)), mu_j = eta_data N(0, I), sigma_jk = beta
//	s_i    = -(1 + (1 + r_i)^4), r = W_j x / √p
//	c      = s / mean |s|
//
// where each beta is an independent draw of max(2 Beta(1/eta, 1/eta), 1e-9)
// with the eta of its line (mean 1; exactly 1 for eta = 0), and the mean of |s|
// runs over all samples and items of the client's split, or of its training
// split (Config.CostScale). All costs are negative: the item values of the
// paper, negated.
//
// Every component and every client has random streams of its own, so that one
// dial changes nothing that it does not govern: under another EtaObj the same
// features lead to other costs, and so on. Equal configurations give equal
// bits on one platform; between processor types the last digits may differ,
// because the matrix exponential uses different instructions.
//
// The error wraps ErrConfig.
func Generate(cfg Config) (*Dataset, error) {
	cfg, err := cfg.Resolve()
	if err != nil {
		return nil, err
	}
	base := drawBase(cfg)
	d := &Dataset{Name: "knapsack", Items: cfg.Items, Features: cfg.Features, Generator: &cfg}
	for k := range cfg.Clients {
		id := k + 1
		t := drawTruth(cfg, base, id)
		c := Client{ID: id, Name: fmt.Sprintf("client %d", id), Capacity: t.b, Weights: t.a}
		for s, total := range [...]int{cfg.Train, cfg.Val, cfg.Test} {
			*c.splits()[s] = t.samples(cfg, id, splitNames[s], share(total, cfg.Clients, k))
		}
		unit := meanAbs(c.Train.C.Data)
		for _, s := range c.splits() {
			if cfg.CostScale == PerSplit {
				unit = meanAbs(s.C.Data)
			}
			for i := range s.C.Data {
				s.C.Data[i] /= unit
			}
		}
		d.Clients = append(d.Clients, c)
	}
	return d, nil
}

// stream returns the random stream of one component of the data; id is the
// client, or 0 for what all clients share.
func (c Config) stream(component string, id int) *rand.Rand {
	return stream.New(stream.Key{Seed: c.Seed, Purpose: "knapsack/" + component, Client: id})
}

// base is what all clients are derived from.
type base struct {
	w []float64 // W_0, [d,p] row-major
	a []float64 // a_0, [d]
}

func drawBase(cfg Config) base {
	b := base{w: make([]float64, cfg.Items*cfg.Features), a: make([]float64, cfg.Items)}
	r := cfg.stream("objective", 0)
	for i := range cfg.Items {
		row := b.w[i*cfg.Features : (i+1)*cfg.Features]
		for k := range row {
			row[k] = float64(r.IntN(2))
		}
		scale := 0.5 + r.Float64()
		for k := range row {
			row[k] *= scale
		}
	}
	r = cfg.stream("weights", 0)
	for i := range b.a {
		b.a[i] = 0.5 + r.Float64()
	}
	return b
}

// truth is what generates the data of one client.
type truth struct {
	w         []float64 // W_j, [d,p] row-major
	a         []float64 // item weights, [d]
	b         float64   // capacity
	mu, sigma []float64 // mean and standard deviation of the features, [p]
}

func drawTruth(cfg Config, base base, id int) truth {
	d, p := cfg.Items, cfg.Features
	t := truth{
		w:     base.w,
		a:     make([]float64, d),
		b:     capacityPerItem * float64(d) * factor(cfg.stream("capacity", id), cfg.EtaConstr),
		mu:    make([]float64, p),
		sigma: make([]float64, p),
	}
	if q := rotation(cfg.stream("rotation", id), p, cfg.EtaObj); q != nil {
		t.w = make([]float64, d*p)
		for i := range d {
			for k := range p {
				for l := range p {
					t.w[i*p+k] += float64(base.w[i*p+l] * q.At(l, k))
				}
			}
		}
	}
	eta := cfg.EtaConstr
	if cfg.SharedWeights {
		eta = 0
	}
	r := cfg.stream("item weights", id)
	for i := range t.a {
		t.a[i] = base.a[i] * factor(r, eta)
	}
	shift, spread := cfg.stream("shift", id), cfg.stream("spread", id)
	for k := range p {
		t.mu[k] = cfg.EtaData * shift.NormFloat64()
		t.sigma[k] = factor(spread, cfg.EtaData)
	}
	return t
}

// factor draws a heterogeneity factor: max(2 Beta(1/eta, 1/eta), 1e-9), mean 1
// and variance eta/(2+eta), or 1 without a draw if eta is 0.
func factor(r *rand.Rand, eta float64) float64 {
	if eta == 0 {
		return 1
	}
	return max(2*distuv.Beta{Alpha: 1 / eta, Beta: 1 / eta, Src: r}.Rand(), minFactor)
}

// rotation draws exp(eta A/|A|_F), A = G - Gᵀ, an orthogonal matrix, or nil for
// the identity: if eta is 0, and in one dimension, where A vanishes.
func rotation(r *rand.Rand, p int, eta float64) *mat.Dense {
	if eta == 0 || p == 1 {
		return nil
	}
	g := mat.NewDense(p, p, nil)
	for i := range p {
		for k := range p {
			g.Set(i, k, r.NormFloat64())
		}
	}
	var a, q mat.Dense
	a.Sub(g, g.T())
	a.Scale(eta/mat.Norm(&a, 2), &a) // gonum's norm 2 of a matrix is Frobenius's
	q.Exp(&a)
	return &q
}

// samples draws n samples of a client's split, with unscaled costs s.
func (t truth) samples(cfg Config, id int, split string, n int) Samples {
	d, p := cfg.Items, cfg.Features
	s := newSamples(d, p)
	if n == 0 {
		return s
	}
	s.X.Data, s.C.Data = make([]float64, n*p), make([]float64, n*d)
	r := cfg.stream("samples/"+split, id)
	for row := range n {
		x := s.X.Row(row)
		for k := range x {
			x[k] = t.mu[k] + float64(t.sigma[k]*r.NormFloat64())
		}
		t.costs(s.C.Row(row), x)
	}
	return s
}

// costs writes the unscaled costs s at features x to dst.
func (t truth) costs(dst, x []float64) {
	p := len(x)
	root := math.Sqrt(float64(p))
	for i := range dst {
		sum := 0.0
		for k, v := range x {
			sum += float64(t.w[i*p+k] * v)
		}
		square := (1 + sum/root) * (1 + sum/root)
		dst[i] = -(1 + float64(square*square))
	}
}

// Objective returns the unscaled true costs of client id as a function of the
// features as generated: what the same x costs another client. The samples of a
// dataset are these costs over the mean of their absolute values. The error
// wraps ErrConfig.
func Objective(cfg Config, id int) (func(dst, x []float64), error) {
	cfg, err := cfg.Resolve()
	if err != nil {
		return nil, err
	}
	if id < 1 || id > cfg.Clients {
		return nil, fmt.Errorf("%w: client %d of %d", ErrConfig, id, cfg.Clients)
	}
	return drawTruth(cfg, drawBase(cfg), id).costs, nil
}

// meanAbs returns the mean absolute value, 0 for an empty slice.
func meanAbs(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	sum := 0.0
	for _, x := range v {
		sum += math.Abs(x)
	}
	return sum / float64(len(v))
}

// newSamples returns no samples of p features and d costs.
func newSamples(d, p int) Samples {
	return Samples{X: task.Matrix{Cols: p}, C: task.Matrix{Cols: d}}
}
