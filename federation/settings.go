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
}

// Validate returns an error wrapping ErrSettings unless Fraction has a meaning.
func (s Settings) Validate() error {
	f := s.Fraction
	// The comparison is written so that NaN fails it.
	if !(f >= 0) || math.IsInf(f, 1) || f > 1 && f != math.Trunc(f) {
		return fmt.Errorf("client fraction %v, want a share in (0, 1], a whole number of clients above 1, or 0 for all: %w", f, ErrSettings)
	}
	return nil
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

// participants draws the participants of a round, in ascending ID: uniform
// without replacement among the clients of positive weight. It is O(N).
func participants(s Settings, clients []Client, round int) []int {
	eligible := make([]int, 0, len(clients))
	for _, c := range clients {
		if c.Weight > 0 {
			eligible = append(eligible, c.ID)
		}
	}
	r := stream.New(stream.Key{Seed: s.Seed, Purpose: "clients", Round: round})
	chosen := stream.Choose(r, eligible, s.RoundSize(len(eligible)))
	slices.Sort(chosen)
	return chosen
}
