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
	// Attempt counts the failed attempts at the round; see [Retry].
	Attempt int
	// Open says whether a round is open, Stopped that none can be begun any
	// more; see [Stop].
	Open, Stopped bool
	// Now is the last time the driver told, Opened that at which the open round
	// began.
	Now, Opened int64
	// Model is the global model, P finite numbers.
	Model []float64
	// Participants are the clients of the open round in ascending ID.
	Participants []int
	// Updates has one entry per participant: the accepted parameters, or an
	// empty vector where none has arrived.
	Updates [][]float64
	// Lost are the participants that will not answer, Clipped those whose
	// accepted update was scaled down, in ascending ID.
	Lost, Clipped []int
	// Rejected are the updates refused since the last round ended, in the order
	// of arrival, at most maxRejections of them; RejectedCount counts all.
	Rejected      []Rejection
	RejectedCount int
	// Releases counts the models with noise that were made: what
	// [Server.Spent] follows from.
	Releases int
}

// validate returns an error wrapping ErrState unless s is a state that a
// server can be in.
func (s *State) validate() error {
	if err := errors.Join(s.Settings.Validate(), checkClients(s.Clients)); err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrState, fmt.Sprintf(format, args...))
	}
	if s.Round < 0 || s.Attempt < 0 || s.Attempt > 0 && s.Settings.OnFailure != Retry {
		return bad("round %d, attempt %d", s.Round, s.Attempt)
	}
	if s.Opened < 0 || s.Now < s.Opened {
		return bad("the round began at %d and it is %d", s.Opened, s.Now)
	}
	if s.Releases < 0 || s.Releases > s.Round || s.Releases > 0 && !s.Settings.Privacy.enabled() {
		return bad("%d private models after %d rounds", s.Releases, s.Round)
	}
	if err := checkModel(s.Model); err != nil {
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	if len(s.Rejected) != min(s.RejectedCount, maxRejections) {
		return bad("%d rejections on record, %d counted", len(s.Rejected), s.RejectedCount)
	}
	if !s.Open {
		if len(s.Participants)+len(s.Updates)+len(s.Lost)+len(s.Clipped) > 0 {
			return bad("no round is open, but there are participants or updates")
		}
		if slices.ContainsFunc(s.Rejected, func(r Rejection) bool { return r.Reason != NoRound }) {
			return bad("no round is open, but updates were refused for another reason")
		}
		return nil
	}
	if s.Stopped {
		return bad("a round is open after the stage stopped")
	}
	if !slices.Equal(s.Participants, participants(s.Settings, s.Clients, s.Round, s.Attempt)) {
		return bad("the participants are not those of round %d, attempt %d", s.Round, s.Attempt)
	}
	if len(s.Updates) != len(s.Participants) {
		return bad("%d updates for %d participants", len(s.Updates), len(s.Participants))
	}
	if n := s.accepted(); n > s.target() {
		return bad("%d updates accepted, the round takes %d", n, s.target())
	}
	for _, list := range []struct {
		name     string
		ids      []int
		answered bool
	}{{"lost", s.Lost, false}, {"clipped", s.Clipped, true}} {
		for i, id := range list.ids {
			k, chosen := slices.BinarySearch(s.Participants, id)
			if !chosen || len(s.Updates[k]) > 0 != list.answered || i > 0 && id <= list.ids[i-1] {
				return bad("client %d cannot be %s", id, list.name)
			}
		}
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

// accepted counts the accepted updates.
func (s *State) accepted() int {
	n := 0
	for _, u := range s.Updates {
		if len(u) > 0 {
			n++
		}
	}
	return n
}

// target is the number of updates that a round takes.
func (s *State) target() int { return s.Settings.RoundSize(withData(s.Clients)) }

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
	c.Lost, c.Clipped = slices.Clone(s.Lost), slices.Clone(s.Clipped)
	c.Rejected = slices.Clone(s.Rejected)
	c.Updates = slices.Clone(s.Updates)
	for k := range c.Updates {
		c.Updates[k] = slices.Clone(c.Updates[k])
	}
	return c
}
