package knapsack

import (
	"errors"
	"fmt"
)

// ErrConfig: a Config that cannot be generated.
var ErrConfig = errors.New("invalid knapsack configuration")

// CostScale says by which mean absolute cost a generated split is divided.
type CostScale string

const (
	// PerSplit divides each split of a client by the mean of its own absolute
	// costs, as the authors' program does.
	PerSplit CostScale = "per_split"
	// ByTrain divides all splits of a client by the mean of the training split,
	// so that costs in the three splits have the same unit. Relative regret is
	// the same under both.
	ByTrain CostScale = "train"
)

// None, as a total of validation or test samples, asks for none.
const None = -1

// maxEta bounds the heterogeneity dials, which the paper moves in [0, 1].
// Beyond it the draws of Beta(1/eta, 1/eta) underflow.
const maxEta = 10

// minEta is the smallest positive dial: below it, 1/eta is too large for the
// sampler, and the factors are 1 but for noise anyway.
const minEta = 1e-9

// Config are the choices of the generator. The zero value of every field but
// Seed and the dials stands for the paper's choice (appendix C.2), so that
// Config{Seed: s} draws the paper's setting without heterogeneity. The paper's
// own draws, made by another random number generator, cannot be repeated.
type Config struct {
	// Seed seeds every draw; the paper uses 42, 69, 1993, 67 and 2026.
	Seed int64 `json:"seed"`
	// EtaObj, EtaConstr and EtaData are the heterogeneity in the objective, the
	// constraint and the features: 0 for none, at most 10; the paper uses 0,
	// 0.5 and 1.
	EtaObj    float64 `json:"eta_obj"`
	EtaConstr float64 `json:"eta_constr"`
	EtaData   float64 `json:"eta_data"`
	// Clients is N; 0 means 20. They get the IDs 1 to N.
	Clients int `json:"clients"`
	// Items is d; 0 means 50.
	Items int `json:"items"`
	// Features is p; 0 means 8.
	Features int `json:"features"`
	// Train, Val and Test are total numbers of samples over all clients, split
	// as evenly as possible: the first clients get one more where it does not
	// come out even. 0 means 2000, 200 and 2000. Train is at least one per
	// client; Val and Test may be None.
	Train int `json:"train"`
	Val   int `json:"validation"`
	Test  int `json:"test"`
	// SharedWeights keeps the item weights equal across clients, so that
	// EtaConstr moves the capacities only. The paper's numbers come from
	// heterogeneous weights, the default.
	SharedWeights bool `json:"shared_weights"`
	// CostScale is PerSplit or ByTrain; empty means PerSplit.
	CostScale CostScale `json:"cost_scale"`
}

// Resolve returns c with its zero values replaced by what they stand for. It
// returns an error wrapping ErrConfig if a field is out of its range.
func (c Config) Resolve() (Config, error) {
	for _, f := range []struct {
		name         string
		value        *int
		standard, lo int
	}{
		{"clients", &c.Clients, 20, 1},
		{"items", &c.Items, 50, 1},
		{"features", &c.Features, 8, 1},
		{"train", &c.Train, 2000, 1},
		{"validation", &c.Val, 200, None},
		{"test", &c.Test, 2000, None},
	} {
		if *f.value == 0 {
			*f.value = f.standard
		}
		if *f.value < f.lo {
			return c, fmt.Errorf("%s is %d, want at least %d: %w", f.name, *f.value, f.lo, ErrConfig)
		}
	}
	if c.Items > maxColumns || c.Features > maxColumns {
		return c, fmt.Errorf("%d items and %d features, want at most %d: %w", c.Items, c.Features, maxColumns, ErrConfig)
	}
	if c.Train < c.Clients {
		return c, fmt.Errorf("%d training samples for %d clients, want at least one each: %w", c.Train, c.Clients, ErrConfig)
	}
	for _, f := range []struct {
		name string
		eta  float64
	}{{"eta_obj", c.EtaObj}, {"eta_constr", c.EtaConstr}, {"eta_data", c.EtaData}} {
		// Written so that NaN fails.
		if !(f.eta == 0 || f.eta >= minEta && f.eta <= maxEta) {
			return c, fmt.Errorf("%s is %v, want 0 or a number in [%g, %d]: %w", f.name, f.eta, minEta, maxEta, ErrConfig)
		}
	}
	switch c.CostScale {
	case "":
		c.CostScale = PerSplit
	case PerSplit, ByTrain:
	default:
		return c, fmt.Errorf("cost_scale is %q, want %q or %q: %w", c.CostScale, PerSplit, ByTrain, ErrConfig)
	}
	return c, nil
}

// share returns how many of total samples client k of n gets, counting from 0.
func share(total, n, k int) int {
	if total == None {
		return 0
	}
	if k < total%n {
		return total/n + 1
	}
	return total / n
}
