package experiment

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"fedrspo/oracle"
	"fedrspo/run"
	"fedrspo/surrogate"
	"fedrspo/task"
	"fedrspo/task/knapsack"
	"fedrspo/train"
)

// Pair is the heterogeneity bound of paper, theorem 3, between two clients: at
// a prediction ĉ, the RSPO+ losses of the same features under the clients'
// objectives and feasible sets differ by at most T + B. The numbers are those
// of the sample with the largest share of the bound used.
type Pair struct {
	I, J int
	// ObjectiveShift is c_d = |c_i - c_j|, Hausdorff an upper bound of the
	// distance δ of the sets, Diameter one of D_i.
	ObjectiveShift, Hausdorff, Diameter float64
	// Observed is the loss gap, Bound is T + B.
	Observed, Bound float64
}

// Bounds is -bounds of one setting.
type Bounds struct {
	Setting string
	Seed    int64
	Pairs   []Pair
}

// boundSamples is the number of test samples per client that a pair is
// compared at.
const boundSamples = 5

// BoundsSettings are the settings of -bounds: each axis of heterogeneity alone.
var BoundsSettings = [][3]float64{{0, 0, 0}, {1, 0, 0}, {0, 1, 0}, {0, 0, 1}}

// BoundsSeed is the seed of -bounds.
const BoundsSeed = 42

// KnapsackBounds trains the federated RSPO+ model of a setting and compares
// every pair of clients at its predictions, at the mean of all clients' λ.
func KnapsackBounds(ctx context.Context, e [3]float64, seed int64) (*Bounds, error) {
	return knapsackBounds(ctx, eta(e), seed)
}

// knapsackBounds is KnapsackBounds with further flags of the train command.
func knapsackBounds(ctx context.Context, e eta, seed int64, flags ...string) (*Bounds, error) {
	job := Job{Args: slices.Concat(e.args(), []string{"-loss", "rspo+"}, flags), Seed: seed}
	s, err := job.setting()
	if err != nil {
		return nil, err
	}
	s.Config.Workers = 0
	data := s.Data
	data.Seed = seed
	cfg := knapsackConfig(data)
	ds, err := knapsack.Generate(cfg)
	if err != nil {
		return nil, err
	}
	t, err := ds.Task()
	if err != nil {
		return nil, err
	}
	var trained *train.Run
	if _, err := s.Run(ctx, nil, func(o Outcome) error { trained = o.Run; return nil }); err != nil {
		return nil, fmt.Errorf("%s: %w", job.Command(), err)
	}
	lambda := 0.0
	for _, c := range trained.State().Clients {
		lambda += c.Lambda / float64(len(t.Clients))
	}
	chat := make([][]float64, len(t.Clients)) // [client][boundSamples*d]
	models, ok := trained.Models(train.StageFed)
	if !ok {
		return nil, fmt.Errorf("%s: no federated model", job.Command())
	}
	index := map[int]int{}
	for i, c := range t.Clients {
		index[c.ID] = i
	}
	evalCfg := s.Config
	evalCfg.Loss, evalCfg.Seed = s.Losses[0], seed
	if evalCfg.Model, err = NewModel(s.Model, t); err != nil {
		return nil, err
	}
	if _, err := train.Evaluate(ctx, evalCfg, t, models, func(c *task.Client, d train.Decision) error {
		if d.Sample < boundSamples {
			i := index[c.ID]
			chat[i] = append(chat[i], d.Chat...)
		}
		return nil
	}); err != nil {
		return nil, err
	}
	b := &Bounds{Setting: e.String(), Seed: seed}
	objectives := make([]func(dst, x []float64), len(t.Clients))
	for i, c := range t.Clients {
		if objectives[i], err = knapsack.Objective(cfg, c.ID); err != nil {
			return nil, err
		}
	}
	for i := range t.Clients {
		for j := range t.Clients {
			if i == j {
				continue
			}
			p, err := boundPair(ds, t, objectives, chat[i], lambda, i, j)
			if err != nil {
				return nil, fmt.Errorf("clients %d and %d: %w", t.Clients[i].ID, t.Clients[j].ID, err)
			}
			b.Pairs = append(b.Pairs, p)
		}
	}
	return b, nil
}

// boundPair compares client i's first test samples under both clients.
func boundPair(ds *knapsack.Dataset, t *task.Task, objectives []func(dst, x []float64), chat []float64, lambda float64, i, j int) (Pair, error) {
	ci, cj := t.Clients[i], t.Clients[j]
	d := t.Out
	delta, err := hausdorffBound(ds.Clients[i], ds.Clients[j], ci.Polytope, cj.Polytope)
	if err != nil {
		return Pair{}, err
	}
	radius := max(ci.Polytope.Radius(), cj.Polytope.Radius())
	diameter := min(math.Sqrt(float64(d)), math.Sqrt2*ci.Polytope.Radius())
	pair := Pair{I: ci.ID, J: cj.ID, Hausdorff: delta, Diameter: diameter}
	costI, costJ, raw := make([]float64, d), make([]float64, d), make([]float64, d)
	worst := math.Inf(-1)
	for k := range len(chat) / d {
		x, c := ds.Clients[i].Test.X.Row(k), ci.Test.C.Row(k)
		copy(costI, c)
		// The unit of client i's costs serves both: equal objectives give equal
		// costs.
		objectives[i](raw, x)
		unit := raw[0] / c[0]
		objectives[j](costJ, x)
		for l := range costJ {
			costJ[l] /= unit
		}
		hat := chat[k*d : (k+1)*d]
		li, err := rspoValue(ci.Polytope, costI, hat, lambda)
		if err != nil {
			return pair, err
		}
		lj, err := rspoValue(cj.Polytope, costJ, hat, lambda)
		if err != nil {
			return pair, err
		}
		shift := distance(costI, costJ)
		two := make([]float64, d)
		for l := range two {
			two[l] = 2 * hat[l]
		}
		// Theorem 3: T and B.
		tTerm := diameter*shift + delta*(distance(costJ, two)+length(costJ)+2*lambda*radius)
		bTerm := (length(two) + 2*lambda*radius) * (shift/lambda + math.Sqrt(2*delta*(length(costJ)/lambda+radius)))
		gap, bound := math.Abs(li-lj), tTerm+bTerm
		if math.IsNaN(gap) || math.IsNaN(bound) {
			return pair, fmt.Errorf("sample %d: %w", k, oracle.ErrNonFinite)
		}
		share := 0.0
		if gap > 0 {
			share = gap / bound // infinite for a bound of 0
		}
		if share > worst {
			worst = share
			pair.ObjectiveShift, pair.Observed, pair.Bound = shift, gap, bound
		}
	}
	return pair, nil
}

// rspoValue is the RSPO+ loss of one prediction.
func rspoValue(p oracle.Polytope, c, chat []float64, lambda float64) (float64, error) {
	b := surrogate.Batch{Loss: surrogate.RSPOPlus{}, Pool: oracle.NewPool(p, 1), Targets: surrogate.NewTargets(c, len(c)), Rows: []int{0}, Lambda: lambda}
	return b.Eval(chat, make([]float64, 1), make([]float64, len(c)))
}

// hausdorffBound bounds the Hausdorff distance of two knapsack sets from above:
// a point w of the one with a_j.w = m > b_j comes into the other when it is
// scaled by b_j/m, over a distance |w|(1 - b_j/m), and m is at most the maximum
// of a_j.w over the first set, a linear program.
func hausdorffBound(a, b knapsack.Client, pa, pb oracle.Polytope) (float64, error) {
	one := func(from oracle.Polytope, to knapsack.Client) (float64, error) {
		theta := make([]float64, len(to.Weights))
		for k, w := range to.Weights {
			theta[k] = -w
		}
		z, err := oracle.NewSolver(from).Minimize(make([]float64, len(theta)), theta)
		if err != nil || -z <= to.Capacity {
			return 0, err
		}
		return from.Radius() * (1 - to.Capacity/-z), nil
	}
	x, err := one(pa, b)
	if err != nil {
		return 0, err
	}
	y, err := one(pb, a)
	return max(x, y), err
}

func distance(a, b []float64) float64 {
	sum := 0.0
	for k, x := range a {
		sum += (x - b[k]) * (x - b[k])
	}
	return math.Sqrt(sum)
}

func length(a []float64) float64 {
	sum := 0.0
	for _, x := range a {
		sum += x * x
	}
	return math.Sqrt(sum)
}

// Violations are the pairs whose observed gap exceeds the bound.
func (b *Bounds) Violations() []Pair {
	return slices.DeleteFunc(slices.Clone(b.Pairs), func(p Pair) bool { return p.Observed <= p.Bound*(1+1e-9)+1e-9 })
}

// Differs lists the violations in words.
func (b *Bounds) Differs() []string {
	var out []string
	for _, p := range b.Violations() {
		out = append(out, fmt.Sprintf("bounds %s: clients %d and %d: gap %g above the bound %g", b.Setting, p.I, p.J, p.Observed, p.Bound))
	}
	return out
}

// median is the median of a number over the pairs.
func (b *Bounds) median(of func(Pair) float64) float64 {
	v := make([]float64, len(b.Pairs))
	for i, p := range b.Pairs {
		v[i] = of(p)
	}
	return median(v)
}

func pairObserved(p Pair) float64 { return p.Observed }
func pairBound(p Pair) float64    { return p.Bound }

// Markdown writes a summary: medians over the pairs.
func (b *Bounds) Markdown(w io.Writer) error {
	_, err := fmt.Fprintf(w, "| %s | %d | %.4g | %.4g | %.4g | %.4g | %.4g | %d of %d |\n", b.Setting, b.Seed,
		b.median(func(p Pair) float64 { return p.ObjectiveShift }), b.median(func(p Pair) float64 { return p.Hausdorff }),
		b.median(func(p Pair) float64 { return p.Diameter }), b.median(pairObserved), b.median(pairBound),
		len(b.Pairs)-len(b.Violations()), len(b.Pairs))
	return err
}

// BoundsTitle and BoundsHeader stand above the rows of Bounds.Markdown.
const (
	BoundsTitle  = "Heterogeneity bounds (theorem 3)"
	BoundsHeader = `Medians over all ordered pairs of clients of objective shift c_d, Hausdorff distance and diameter (upper bounds), observed
RSPO+ loss gap and bound T + B, at the federated model's predictions; how many pairs respect the bound.

| setting | seed | c_d | Hausdorff | diameter | observed gap | bound | holds |
|---|---|---|---|---|---|---|---|
`
)

// Write writes a row per pair as CSV.
func (b *Bounds) Write(folder *run.Folder) error {
	name := filepath.Join("bounds", strings.Trim(strings.ReplaceAll(b.Setting, ",", "-"), "()")+".csv")
	return folder.Write(name, func(w io.Writer) error {
		c := csv.NewWriter(w)
		err := c.Write([]string{"client_i", "client_j", "objective_shift", "hausdorff", "diameter", "observed_gap", "bound"})
		for _, p := range b.Pairs {
			err = errors.Join(err, c.Write([]string{strconv.Itoa(p.I), strconv.Itoa(p.J), number(p.ObjectiveShift), number(p.Hausdorff), number(p.Diameter), number(p.Observed), number(p.Bound)}))
		}
		c.Flush()
		return errors.Join(err, c.Error())
	})
}
