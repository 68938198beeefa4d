package federation

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"fedrspo/internal/stream"
)

// ErrSettings: a setting, a client list or an initial model that cannot be
// used.
var ErrSettings = errors.New("invalid federation settings")

// Settings are the choices of a federated stage.
type Settings struct {
	// Seed seeds the choice of participants. Any value; the zero value is the
	// seed 0.
	Seed int64
	// Fraction is the share of the clients with training data that takes part
	// in a round, in (0, 1], or, above 1, their absolute number, a whole
	// number. 0 means 1: all of them. The paper uses 0.4 for the knapsack and
	// PJM tasks and 0.5 for Warcraft (appendix C).
	Fraction float64

	// MinUpdates is the number of accepted updates below which a round fails;
	// 0 means 1. A rule's [Aggregator.Quorum] may ask for more.
	MinUpdates int
	// OverSelect is the share of further clients that are drawn beside the
	// RoundSize, so that some may fail (Bonawitz et al. 2019, section 2.2, draw
	// 30 % more). The first RoundSize updates that arrive are taken, and those
	// behind them refused as Surplus. 0 draws no more than needed.
	OverSelect float64
	// Deadline is how long a round takes updates, on the driver's clock; see
	// [Server.Advance]. A later update is refused as Late, and until then a
	// round closes only if nobody is left to wait for. 0 means that the driver
	// decides.
	Deadline int64
	// NormBound, unless 0, is the largest ‖θ_j - θ‖ of an update that is
	// accepted; others are refused as NormTooLarge.
	NormBound float64
	// Clip, unless 0, is the norm to which the change of an accepted update is
	// scaled down: θ_j becomes θ + (θ_j - θ) min(1, Clip/‖θ_j - θ‖) on arrival
	// (McMahan et al. 2018; Sun et al. 2019, norm thresholding).
	Clip float64
	// OnFailure is what becomes of a round that cannot be aggregated.
	OnFailure Policy
	// Attempts is the number of attempts at a round under [Retry] after which
	// the stage stops; 0 means no bound.
	Attempts int
	// Privacy makes the aggregate differentially private; the zero value does
	// not.
	Privacy Privacy
}

// Policy is what becomes of a round that [Server.Close] cannot aggregate: too
// few updates, or an aggregate that is not finite. The model stays as it was.
type Policy string

const (
	// Wait, the zero value, leaves the round open: the driver may submit more
	// updates and close it again, or abandon it.
	Wait Policy = ""
	// Retry ends the attempt. The same round is begun again, with other
	// participants.
	Retry Policy = "retry"
	// Skip ends the round. The next one is begun.
	Skip Policy = "skip"
	// Stop ends the stage: no round can be begun any more.
	Stop Policy = "stop"
)

// smallestNorm keeps the squares of norms within the range of numbers.
const smallestNorm = 1e-100

// Validate returns an error wrapping ErrSettings unless every setting has a
// meaning and, beside the others, an effect.
func (s Settings) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), ErrSettings)
	}
	f := s.Fraction
	// Comparisons are written so that NaN fails them.
	if !(f >= 0) || math.IsInf(f, 1) || f > 1 && f != math.Trunc(f) {
		return bad("client fraction %v, want a share in (0, 1], a whole number of clients above 1, or 0 for all", f)
	}
	if s.MinUpdates < 0 {
		return bad("at least %d updates a round, want 0 or more", s.MinUpdates)
	}
	if !(s.OverSelect >= 0) || s.OverSelect > 1e6 {
		return bad("over-selection %v, want a share of further clients from 0 on", s.OverSelect)
	}
	if s.Deadline < 0 {
		return bad("deadline %d, want 0 or more", s.Deadline)
	}
	for _, n := range []struct {
		name string
		v    float64
	}{{"norm bound", s.NormBound}, {"clipping norm", s.Clip}} {
		if n.v != 0 && (!(n.v >= smallestNorm) || math.IsInf(n.v, 1)) {
			return bad("%s %v, want 0 for none or a number from %v on", n.name, n.v, smallestNorm)
		}
	}
	if s.NormBound > 0 && s.Clip >= s.NormBound {
		return bad("clipping to norm %v has no effect on updates bound to %v", s.Clip, s.NormBound)
	}
	switch s.OnFailure {
	case Wait, Retry, Skip, Stop:
	default:
		return bad("policy %q for failed rounds, want %q, %q, %q or none to wait", s.OnFailure, Retry, Skip, Stop)
	}
	if s.Deadline > 0 && s.OnFailure == Wait {
		return bad("a round that failed at its deadline cannot wait: choose %q, %q or %q", Retry, Skip, Stop)
	}
	if s.Attempts < 0 || s.Attempts > 0 && s.OnFailure != Retry {
		return bad("%d attempts at a round, want 0 or more, and a bound only for the policy %q", s.Attempts, Retry)
	}
	return s.validatePrivacy()
}

// RoundSize returns the number of participants of a round when n clients have
// training data: min(max(⌈Fraction·n⌉, 1), n), or 0 when n is 0.
func (s Settings) RoundSize(n int) int {
	f := s.Fraction
	switch {
	case f == 0 || f >= float64(n) && f > 1:
		return n
	case f > 1:
		return int(f)
	}
	// Without the guard a product such as 0.07·100 = 7.000000000000001 would
	// count one client too many.
	return min(max(int(math.Ceil(f*float64(n)-1e-9)), 1), n)
}

// drawn returns the number of clients that are drawn for a round when n have
// training data: RoundSize, and the share OverSelect more, rounded up.
func (s Settings) drawn(n int) int {
	m := s.RoundSize(n)
	return int(min(math.Ceil(float64(m)*(1+s.OverSelect)-1e-9), float64(n)))
}

// quorum returns the number of updates below which a round fails. A private
// round never does: that a client's update counted must not show.
func (s Settings) quorum(agg Aggregator) int {
	if s.Privacy.enabled() {
		return 0
	}
	return max(s.MinUpdates, agg.Quorum(), 1)
}

// checkRule returns an error wrapping ErrSettings if no round could succeed.
func (s Settings) checkRule(agg Aggregator, clients []Client) error {
	if err := agg.Validate(); err != nil {
		return err
	}
	if s.Privacy.enabled() {
		if _, ok := agg.(FedAvg); !ok {
			return fmt.Errorf("the rule %s has no bounded sensitivity: privacy needs %s: %w", agg.Name(), FedAvg{}.Name(), ErrSettings)
		}
	}
	if m, k := s.RoundSize(withData(clients)), s.quorum(agg); m < k {
		return fmt.Errorf("a round takes %d updates, and needs at least %d (rule %s): %w", m, k, agg.Name(), ErrSettings)
	}
	return nil
}

// withData counts the clients that can take part.
func withData(clients []Client) int {
	n := 0
	for _, c := range clients {
		if c.Weight > 0 {
			n++
		}
	}
	return n
}

// Client is what the server knows of a client.
type Client struct {
	// ID identifies the client; not negative.
	ID int
	// Weight is n_j, the client's number of training samples; finite and not
	// negative. A client of weight 0 has no training data: it is known, but
	// never takes part. The weight is registered here and not taken from the
	// updates, so that no client can give itself a larger say.
	Weight float64
}

// checkClients returns an error unless the IDs ascend, the weights are usable
// and at least one client can train.
func checkClients(clients []Client) error {
	total := 0.0
	for k, c := range clients {
		switch {
		case c.ID < 0:
			return fmt.Errorf("client %d: IDs must not be negative: %w", c.ID, ErrSettings)
		case k > 0 && c.ID <= clients[k-1].ID:
			return fmt.Errorf("client IDs must be unique and ascend, got %d after %d: %w", c.ID, clients[k-1].ID, ErrSettings)
		case !(c.Weight >= 0):
			return fmt.Errorf("client %d: weight %v, want a number of samples: %w", c.ID, c.Weight, ErrSettings)
		}
		total += c.Weight
	}
	if !(total > 0) || math.IsInf(total, 1) {
		return fmt.Errorf("the weights of the %d clients sum to %v, want a positive finite number: %w", len(clients), total, ErrSettings)
	}
	return nil
}

// participants draws the participants of an attempt at a round, in ascending ID:
// uniform without replacement among the clients of positive weight. It is O(N).
func participants(s Settings, clients []Client, round, attempt int) []int {
	eligible := make([]int, 0, len(clients))
	for _, c := range clients {
		if c.Weight > 0 {
			eligible = append(eligible, c.ID)
		}
	}
	r := stream.New(stream.Key{Seed: s.Seed, Purpose: "clients", Round: round, Epoch: attempt})
	chosen := stream.Choose(r, eligible, s.drawn(len(eligible)))
	slices.Sort(chosen)
	return chosen
}
