package federation

import (
	"errors"
	"fmt"
)

var (
	// ErrNoUpdates: there is nothing to aggregate, because no update was
	// accepted or the accepted ones have no weight.
	ErrNoUpdates = errors.New("no updates to aggregate")
	// ErrTooFewUpdates: fewer updates were accepted than the round or the rule
	// needs.
	ErrTooFewUpdates = errors.New("too few updates")
)

// Contribution is an accepted update as an Aggregator sees it.
type Contribution struct {
	// Client is the client's ID.
	Client int
	// Weight is the client's registered n_j, positive and finite.
	Weight float64
	// Params is the client's model after local training, as long as the global
	// model and finite. Read only.
	Params []float64
}

// Aggregator is the rule by which a server turns the clients' models into the
// next global model: [FedAvg], or one that bears adversarial clients ([Median],
// [TrimmedMean], [Krum], [MultiKrum]). An Aggregator holds its settings and no
// state, so that a round can be replayed.
type Aggregator interface {
	// Name names the rule and the settings that its results depend on. It is
	// part of the server's state: a run cannot be resumed under another rule.
	Name() string
	// Validate returns an error wrapping ErrSettings if the rule's settings
	// have no meaning.
	Validate() error
	// Quorum is the least number of updates that the rule is defined for, at
	// least 1.
	Quorum() int
	// Aggregate writes the next global model to dst, given the current one and
	// the accepted updates in ascending client ID, at least one. dst is as long
	// as global, does not overlap any input, and has unspecified content. The
	// inputs must not be written to. The result must not depend on anything
	// else; it is checked for finiteness by the caller. An error, which wraps
	// ErrTooFewUpdates below the Quorum, leaves the global model as it is.
	Aggregate(dst, global []float64, updates []Contribution) error
}

// FedAvg is federated averaging (McMahan, Moore, Ramage, Hampson and Agüera y
// Arcas 2017, Algorithm 1; paper, Table 1), in the form
//
//	theta + Σ_j (n_j / Σ n) (theta_j - theta).
//
// Every coordinate is summed in ascending client ID. Products are rounded
// before they are added, so that processors with a fused multiply-add give the
// same bits as those without. The work is O(m·P), without allocation. The zero
// value is ready to use.
type FedAvg struct{}

// Name returns "fedavg".
func (FedAvg) Name() string { return "fedavg" }

// Validate implements [Aggregator]: there is nothing to set.
func (FedAvg) Validate() error { return nil }

// Quorum implements [Aggregator]: any update will do.
func (FedAvg) Quorum() int { return 1 }

// fedAvgBlock is how many coordinates are summed over all clients at a time: 4
// KiB of dst and as much of global stay in the first-level cache meanwhile.
const fedAvgBlock = 512

// Aggregate implements [Aggregator]. It returns ErrNoUpdates when the weights
// sum to zero.
func (FedAvg) Aggregate(dst, global []float64, updates []Contribution) error {
	total := 0.0
	for _, u := range updates {
		total += u.Weight
	}
	if !(total > 0) {
		return fmt.Errorf("%d updates of total weight %v: %w", len(updates), total, ErrNoUpdates)
	}
	for lo := 0; lo < len(global); lo += fedAvgBlock {
		hi := min(lo+fedAvgBlock, len(global))
		g, sum := global[lo:hi], dst[lo:hi]
		clear(sum)
		for _, u := range updates {
			w := u.Weight / total
			theta, g := u.Params[lo:hi][:len(sum)], g[:len(sum)]
			for k := range sum {
				sum[k] += float64(w * (theta[k] - g[k]))
			}
		}
		for k := range sum {
			sum[k] += g[k]
		}
	}
	return nil
}
