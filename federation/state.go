package federation

import (
	"errors"
	"fmt"
	"slices"
)

// ErrState: a stored State that is damaged or does not belong to this run.
var ErrState = errors.New("invalid federation state")

// State is everything a Server knows. It is plain data: write it with
// encoding/json or encoding/gob at any time, and go on with [Resume].
type State struct {
	// Settings are the settings of the stage.
	Settings Settings
	// Aggregator is the Name of the aggregation rule.
	Aggregator string
	// Clients are the registered clients in ascending ID.
	Clients []Client
	// Round is the number of the open round, or of the next one if none is
	// open. Rounds count from 0.
	Round int
	// Open says whether a round is open.
	Open bool
	// Model is the global model, P finite numbers.
	Model []float64
	// Participants are the clients of the open round in ascending ID.
	Participants []int
	// Updates has one entry per participant: the accepted parameters, or an
	// empty vector where none has arrived.
	Updates [][]float64
	// Rejected are the refused updates of the open round in the order of
	// arrival, at most maxRejections of them; RejectedCount counts all.
	Rejected      []Rejection
	RejectedCount int
}

// validate returns an error wrapping ErrState unless s is a state that a
// server can be in.
func (s *State) validate() error {
	if err := errors.Join(s.Settings.Validate(), checkClients(s.Clients)); err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	if s.Round < 0 {
		return fmt.Errorf("%w: round %d", ErrState, s.Round)
	}
	if err := checkModel(s.Model); err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	if !s.Open {
		if len(s.Participants)+len(s.Updates)+len(s.Rejected) > 0 || s.RejectedCount != 0 {
			return fmt.Errorf("%w: no round is open, but there are participants, updates or rejections", ErrState)
		}
		return nil
	}
	if !slices.Equal(s.Participants, participants(s.Settings, s.Clients, s.Round)) {
		return fmt.Errorf("%w: the participants are not those of round %d", ErrState, s.Round)
	}
	if len(s.Updates) != len(s.Participants) {
		return fmt.Errorf("%w: %d updates for %d participants", ErrState, len(s.Updates), len(s.Participants))
	}
	if len(s.Rejected) != min(s.RejectedCount, maxRejections) {
		return fmt.Errorf("%w: %d rejections on record, %d counted", ErrState, len(s.Rejected), s.RejectedCount)
	}
	for k, params := range s.Updates {
		if len(params) != 0 && len(params) != len(s.Model) {
			return fmt.Errorf("%w: the update of client %d has %d parameters, want %d", ErrState, s.Participants[k], len(params), len(s.Model))
		}
		if i := nonFinite(params); i >= 0 {
			return fmt.Errorf("%w: the update of client %d has %v at parameter %d", ErrState, s.Participants[k], params[i], i)
		}
	}
	return nil
}

// checkModel returns an error wrapping ErrSettings unless model is a non-empty
// vector of finite numbers.
func checkModel(model []float64) error {
	if len(model) == 0 {
		return fmt.Errorf("the model has no parameters: %w", ErrSettings)
	}
	if i := nonFinite(model); i >= 0 {
		return fmt.Errorf("the model has %v at parameter %d, want a finite number: %w", model[i], i, ErrSettings)
	}
	return nil
}

// nonFinite returns the index of the first NaN or infinity in v, or -1.
func nonFinite(v []float64) int {
	for i, x := range v {
		if x-x != 0 { // 0 for finite x, NaN otherwise
			return i
		}
	}
	return -1
}

// clone returns a deep copy.
func (s *State) clone() State {
	c := *s
	c.Clients = slices.Clone(s.Clients)
	c.Model = slices.Clone(s.Model)
	c.Participants = slices.Clone(s.Participants)
	c.Rejected = slices.Clone(s.Rejected)
	c.Updates = slices.Clone(s.Updates)
	for k := range c.Updates {
		c.Updates[k] = slices.Clone(c.Updates[k])
	}
	return c
}
