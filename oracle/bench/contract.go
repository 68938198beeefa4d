package bench

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"

	"fedrspo/internal/stream"
	"fedrspo/oracle"
	"fedrspo/oracle/dijkstra"
	"fedrspo/oracle/qp"
	"fedrspo/oracle/synthetic"
)

// The accuracy contract of projections onto the path polytope, in units of
// p = -theta/lambda; rounding adds up to roundingGap (1 + max|p|) to the
// gap, which is less than package qp allows.
const (
	contractGap       = 1e-9
	roundingGap       = 3e-13
	contractEntry     = 1e-5
	contractViolation = 1e-9
)

// wolfePairs mirrors package qp: problems with at most so many pairs of inner
// neighbours with p_u + p_v > 0 go to Wolfe's method first.
const wolfePairs = 20

// Costs of the contract's instances, beside those of predictions.
const (
	contractLoss     = "2ĉ-c"
	contractDirect   = "ĉ"
	contractNegated  = "-ĉ"
	contractCentred  = "normal"
	contractNegative = "one in 4 negative"
	// contractFew has about as many pairs with a positive sum as Wolfe's method
	// takes.
	contractFew = "one in 50 negative"
)

var contractCosts = []string{contractLoss, contractDirect, contractFew, contractNegated, contractCentred, contractNegative}

// contractDraws are indices of contractCosts in the frequencies of the
// instances: most are like those of training.
var contractDraws = []int{0, 0, 0, 1, 1, 2, 2, 3, 4, 5}

// ContractGroup counts instances of one kind.
type ContractGroup struct {
	// Costs says what is projected, Predictions how ĉ was made.
	Costs       string  `json:"costs"`
	Predictions Quality `json:"predictions"`
	Instances   int     `json:"instances"`
	// Interior counts answers of the interior point method; Fallbacks those
	// among them that Wolfe's method was tried on first.
	Interior  int `json:"interior"`
	Fallbacks int `json:"fallbacks"`
	// References counts reference solves that fell short of their accuracy.
	References int `json:"references_short"`
	// Broken counts answers outside the contract.
	Broken int `json:"broken"`
	// Gap is the worst certificate, Entry the largest difference of an entry
	// from a reference of accuracy 1e-12 (with what a reference that fell short
	// may be off by), Violation the worst.
	Gap       float64 `json:"gap"`
	Entry     float64 `json:"entry"`
	Violation float64 `json:"violation"`
}

func (g *ContractGroup) merge(o ContractGroup) {
	g.Instances += o.Instances
	g.Interior += o.Interior
	g.Fallbacks += o.Fallbacks
	g.References += o.References
	g.Broken += o.Broken
	g.Gap, g.Entry, g.Violation = math.Max(g.Gap, o.Gap), math.Max(g.Entry, o.Entry), math.Max(g.Violation, o.Violation)
}

// Contract is what CheckContract found.
type Contract struct {
	Height int `json:"height"`
	Width  int `json:"width"`
	// Endpoints is the number of pairs of endpoints, Warm that of instances
	// with a warm start.
	Endpoints int             `json:"endpoints"`
	Warm      int             `json:"warm"`
	Total     ContractGroup   `json:"total"`
	Groups    []ContractGroup `json:"groups"`
	// First describes the first broken instance, if any.
	First string `json:"first_broken,omitempty"`
}

// CheckContract projects n random instances onto path polytopes of a grid and
// holds every answer against the accuracy contract: the status is Optimal, the
// certificate at most 1e-9 but for rounding, every entry within 1e-5 of an
// answer of accuracy 1e-12, and the violation at most 1e-9. Instances go
// through all pairs of endpoints, all qualities of predictions, lambda from 0.05
// to 100 and several kinds of negative costs; a third have warm starts. The
// result does not depend on the number of workers. When ctx ends it returns the
// instances checked by then and the error of ctx.
func CheckContract(ctx context.Context, height, width, n int, seed int64, workers int) (Contract, error) {
	p := Problem{Oracle: Path, Height: height, Width: width, Lambda: Fixed(1), Batch: 1, Instances: max(n, 1), Seed: seed}
	switch err := p.Check(); {
	case err != nil:
		return Contract{}, err
	case n < 1:
		return Contract{}, fmt.Errorf("%d instances, want 1 or more: %w", n, ErrProblem)
	case workers < 1:
		return Contract{}, fmt.Errorf("%d workers, want 1 or more: %w", workers, ErrProblem)
	}
	f, err := newFamily(p, maxClients)
	if err != nil {
		return Contract{}, err
	}
	c := Contract{Height: height, Width: width, Endpoints: len(f.sets)}
	for _, costs := range contractCosts {
		for _, q := range Qualities() {
			c.Groups = append(c.Groups, ContractGroup{Costs: costs, Predictions: q})
		}
	}
	outcomes := make([]contractOutcome, n)
	errs := make([]error, workers)
	var wg sync.WaitGroup
	for worker := range workers {
		wg.Go(func() {
			for k := worker; k < len(f.sets); k += workers {
				checker, err := newContractChecker(p, f, k)
				if err != nil {
					errs[worker] = err
					return
				}
				for i := k; i < n; i += len(f.sets) {
					if errs[worker] = ctx.Err(); errs[worker] != nil {
						return
					}
					if outcomes[i], err = checker.check(i); err != nil {
						errs[worker] = fmt.Errorf("instance %d: %w", i, err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	for _, o := range outcomes { // those not reached count nothing
		c.Groups[o.group].merge(o.ContractGroup)
		c.Total.merge(o.ContractGroup)
		if o.warm {
			c.Warm++
		}
		if c.First == "" {
			c.First = o.broken
		}
	}
	for _, err := range errs {
		if err != nil {
			return c, err
		}
	}
	return c, nil
}

// contractOutcome is a group of one instance.
type contractOutcome struct {
	ContractGroup
	group  int
	warm   bool
	broken string
}

// contractChecker checks the instances of one client.
type contractChecker struct {
	problem   Problem
	family    *family
	set       *qp.Path
	projector oracle.Projector
	// exact is the projection of higher accuracy.
	exact       oracle.Projector
	linear      oracle.Linear
	certificate *certificate
	w, ref      []float64
}

func newContractChecker(p Problem, f *family, client int) (*contractChecker, error) {
	set := f.sets[client].(*qp.Path)
	exact, err := qp.NewExactPath(set.Grid())
	if err != nil {
		return nil, err
	}
	return &contractChecker{
		problem: p, family: f, set: set, projector: set.NewProjector(), exact: exact.NewProjector(), linear: set.NewLinear(),
		certificate: newCertificate(set.Dim()), w: make([]float64, set.Dim()), ref: make([]float64, set.Dim()),
	}, nil
}

func (c *contractChecker) check(i int) (contractOutcome, error) {
	r := stream.New(stream.Key{Seed: c.problem.Seed, Purpose: "bench contract", Client: i})
	draw, q := contractDraws[r.IntN(len(contractDraws))], Quality(r.IntN(len(Qualities())))
	o := contractOutcome{group: draw*len(Qualities()) + int(q), warm: r.IntN(3) == 0}
	kind := contractCosts[draw]
	lambda := 0.05 * math.Pow(2000, r.Float64())
	cost := c.family.costs(r)
	predicted := c.family.predict(r, cost, q)
	var warm oracle.Warm
	if o.warm {
		before := contractTheta(stream.New(stream.Key{Seed: c.problem.Seed, Purpose: "bench contract costs", Client: i}), kind, cost, predicted)
		if _, err := c.projector.Project(c.w, before, lambda, &warm); err != nil {
			return o, err
		}
		synthetic.Move(r, predicted, 0.2*r.Float64())
	}
	// The same draws as before, so that the problem is a nearby one.
	theta := contractTheta(stream.New(stream.Key{Seed: c.problem.Seed, Purpose: "bench contract costs", Client: i}), kind, cost, predicted)
	info, err := c.projector.Project(c.w, theta, lambda, &warm)
	if err != nil {
		return o, err
	}
	o.Instances = 1
	if len(warm.Words) == 0 { // only Wolfe's method leaves a start
		o.Interior = 1
		if positivePairs(c.set.Grid().Config(), theta) <= wolfePairs {
			o.Fallbacks = 1
		}
	}
	if o.Gap, err = c.certificate.gap(c.linear, c.w, theta, lambda); err != nil {
		return o, err
	}
	o.Violation = c.set.Violation(c.w)
	reference, err := c.exact.Project(c.ref, theta, lambda, nil)
	if err != nil {
		return o, err
	}
	if reference.Status != oracle.Optimal {
		// A reference that fell short is off by at most sqrt(2 gap).
		gap, err := c.certificate.gap(c.linear, c.ref, theta, lambda)
		if err != nil {
			return o, err
		}
		o.References, o.Entry = 1, math.Sqrt(2*math.Max(gap, 0))
	}
	scale, entry := 0.0, 0.0
	for v := range c.w {
		entry = math.Max(entry, math.Abs(c.w[v]-c.ref[v]))
		scale = math.Max(scale, math.Abs(theta[v])/lambda)
	}
	o.Entry += entry
	within := info.Status == oracle.Optimal && o.Gap <= contractGap+roundingGap*(1+scale) &&
		o.Entry <= contractEntry && o.Violation <= contractViolation
	if !within {
		o.Broken = 1
		o.broken = fmt.Sprintf("instance %d (%s, %v predictions, lambda %.4g, source %v): %v, reference %v, gap %.3g, entry %.3g, violation %.3g",
			i, kind, q, lambda, c.set.Grid().Config().Source, info.Status, reference.Status, o.Gap, o.Entry, o.Violation)
	}
	return o, nil
}

// contractTheta returns what is projected.
func contractTheta(r *rand.Rand, kind string, cost, predicted []float64) []float64 {
	theta := synthetic.LossPoint(cost, predicted)
	for v, x := range predicted {
		switch kind {
		case contractDirect:
			theta[v] = x
		case contractNegated:
			theta[v] = -x
		case contractCentred:
			theta[v] = x * r.NormFloat64()
		case contractNegative, contractFew:
			share := 4
			if kind == contractFew {
				theta[v], share = x, 50
			}
			if r.IntN(share) == 0 {
				theta[v] = -math.Abs(theta[v])
			}
		}
	}
	return theta
}

// positivePairs counts the pairs of neighbours other than the endpoints whose
// projected entries sum to more than 0.
func positivePairs(cfg dijkstra.Config, theta []float64) int {
	source, sink := cfg.Source.Row*cfg.Width+cfg.Source.Col, cfg.Sink.Row*cfg.Width+cfg.Sink.Col
	n := 0
	for v := range theta {
		synthetic.Around(cfg.Height, cfg.Width, v, func(u int) {
			if u < v && theta[u]+theta[v] < 0 && v != source && v != sink && u != source && u != sink {
				n++
			}
		})
	}
	return n
}
