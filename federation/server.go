package federation

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// Errors of the state machine. They are wrapped with context; test with
// errors.Is.
var (
	// ErrRoundOpen: Begin was called while a round is open.
	ErrRoundOpen = errors.New("a round is open")
	// ErrNoRound: Submit, Close or Abandon was called while no round is open.
	ErrNoRound = errors.New("no round is open")
	// ErrRoundNumber: Begin was called with another number than the next
	// round's.
	ErrRoundNumber = errors.New("not the next round")
	// ErrOverflow: the aggregate of finite updates is not finite.
	ErrOverflow = errors.New("the aggregated model is not finite")
)

// Server runs the rounds of a federated stage. Make one with New or Resume.
type Server struct {
	agg   Aggregator
	state State
}

// New returns a server at the start of round 0. clients lists every client in
// ascending ID; model is the initial global model, P finite numbers, which the
// server keeps. The error wraps ErrSettings.
func New(settings Settings, agg Aggregator, clients []Client, model []float64) (*Server, error) {
	if agg == nil {
		return nil, fmt.Errorf("no aggregator: %w", ErrSettings)
	}
	if err := errors.Join(settings.Validate(), agg.Validate(), checkClients(clients), checkModel(model)); err != nil {
		return nil, err
	}
	return &Server{agg: agg, state: State{
		Settings:   settings,
		Aggregator: agg.Name(),
		Clients:    slices.Clone(clients),
		Model:      model,
	}}, nil
}

// Resume returns a server that goes on from a stored state, which it keeps.
// agg must be the rule the state was made under. The error wraps ErrState.
func Resume(state State, agg Aggregator) (*Server, error) {
	if agg == nil {
		return nil, fmt.Errorf("no aggregator: %w", ErrSettings)
	}
	if agg.Name() != state.Aggregator {
		return nil, fmt.Errorf("%w: made under the aggregator %q, not %q", ErrState, state.Aggregator, agg.Name())
	}
	if err := state.validate(); err != nil {
		return nil, err
	}
	return &Server{agg: agg, state: state}, nil
}

// State returns a deep copy of everything the server knows.
func (s *Server) State() State { return s.state.clone() }

// Model returns the global model. It is the server's own vector and never
// changes: a later round has a new one. Read only.
func (s *Server) Model() []float64 { return s.state.Model }

// Round returns the number of the open round, or of the next one if none is
// open.
func (s *Server) Round() int { return s.state.Round }

// Plan is what the participants of a round are told.
type Plan struct {
	// Round is the number of the round, from 0.
	Round int
	// Participants are the chosen clients in ascending ID.
	Participants []int
	// Model is the global model they start from. Read only.
	Model []float64
}

// Begin opens a round. round must be the next one, [Server.Round]: a driver
// that lost count is told so instead of training on a wrong schedule. It
// returns ErrRoundOpen or ErrRoundNumber, and then changes nothing.
func (s *Server) Begin(round int) (Plan, error) {
	st := &s.state
	if st.Open {
		return Plan{}, fmt.Errorf("begin round %d: round %d: %w", round, st.Round, ErrRoundOpen)
	}
	if round != st.Round {
		return Plan{}, fmt.Errorf("begin round %d: %w, which is %d", round, ErrRoundNumber, st.Round)
	}
	st.Participants = participants(st.Settings, st.Clients, round)
	st.Updates = make([][]float64, len(st.Participants))
	st.Open = true
	return s.plan(), nil
}

// Plan returns the plan of the open round again, for a driver that resumed in
// the middle of one, with the participants that have not answered yet in
// missing. It returns ErrNoRound if no round is open.
func (s *Server) Plan() (plan Plan, missing []int, err error) {
	if !s.state.Open {
		return Plan{}, nil, fmt.Errorf("plan: %w", ErrNoRound)
	}
	return s.plan(), s.report().Missing, nil
}

func (s *Server) plan() Plan {
	return Plan{Round: s.state.Round, Participants: slices.Clone(s.state.Participants), Model: s.state.Model}
}

// Update is a client's answer to a Plan.
type Update struct {
	// Round and Client say which round and which client it belongs to.
	Round, Client int
	// Params is the client's model after local training, as long as the global
	// model. The server keeps the vector if it accepts it: the caller must not
	// change it afterwards.
	Params []float64
}

// Submit takes in one update. It returns nil if the update was accepted, a
// *[Rejection] if it was refused, and ErrNoRound if no round is open. Neither
// error changes the model or the updates accepted so far.
func (s *Server) Submit(u Update) error {
	st := &s.state
	if !st.Open {
		return fmt.Errorf("update of client %d for round %d: %w", u.Client, u.Round, ErrNoRound)
	}
	slot, rejection := s.check(u)
	if rejection != nil {
		if len(st.Rejected) < maxRejections {
			st.Rejected = append(st.Rejected, *rejection)
		}
		st.RejectedCount++
		return rejection
	}
	st.Updates[slot] = u.Params
	return nil
}

// check returns the participant's place among the updates, or why u is
// refused.
func (s *Server) check(u Update) (slot int, _ *Rejection) {
	st := &s.state
	refuse := func(reason Reason, format string, args ...any) (int, *Rejection) {
		return 0, &Rejection{Client: u.Client, Round: u.Round, Reason: reason, Detail: fmt.Sprintf(format, args...)}
	}
	if u.Round != st.Round {
		return refuse(WrongRound, "round %d is open", st.Round)
	}
	slot, chosen := slices.BinarySearch(st.Participants, u.Client)
	if !chosen {
		if _, known := s.client(u.Client); !known {
			return refuse(UnknownClient, "%d clients are registered", len(st.Clients))
		}
		return refuse(NotParticipant, "%d clients were chosen", len(st.Participants))
	}
	if len(st.Updates[slot]) > 0 {
		return refuse(Duplicate, "the first one stands")
	}
	if len(u.Params) != len(st.Model) {
		return refuse(WrongShape, "got %d, want %d", len(u.Params), len(st.Model))
	}
	if i := nonFinite(u.Params); i >= 0 {
		return refuse(NotFinite, "parameter %d is %v", i, u.Params[i])
	}
	return slot, nil
}

// client returns the registered client with the given ID.
func (s *Server) client(id int) (Client, bool) {
	k, ok := slices.BinarySearchFunc(s.state.Clients, id, func(c Client, id int) int { return cmp.Compare(c.ID, id) })
	if !ok {
		return Client{}, false
	}
	return s.state.Clients[k], true
}

// Report says what happened in a round.
type Report struct {
	// Round is the number of the round, from 0.
	Round int
	// Participants were chosen; each is in Accepted or in Missing. All three
	// in ascending ID.
	Participants, Accepted, Missing []int
	// Weight is the sum of the accepted clients' weights n_j.
	Weight float64
	// Rejected are the refused updates in ascending client ID, those of one
	// client in the order of arrival. At most 1024 are kept; RejectedCount
	// counts all.
	Rejected      []Rejection
	RejectedCount int
}

// report describes the open round.
func (s *Server) report() Report {
	st := &s.state
	r := Report{
		Round:         st.Round,
		Participants:  slices.Clone(st.Participants),
		Rejected:      slices.Clone(st.Rejected),
		RejectedCount: st.RejectedCount,
	}
	slices.SortStableFunc(r.Rejected, func(a, b Rejection) int { return cmp.Compare(a.Client, b.Client) })
	for k, id := range st.Participants {
		if len(st.Updates[k]) == 0 {
			r.Missing = append(r.Missing, id)
			continue
		}
		c, _ := s.client(id)
		r.Accepted = append(r.Accepted, id)
		r.Weight += c.Weight
	}
	return r
}

// Close aggregates the accepted updates into the next global model and ends
// the round. Participants that have not answered are left out.
//
// It returns ErrNoRound if no round is open. If no update was accepted
// (ErrNoUpdates), if the aggregate is not finite (ErrOverflow), or if the
// aggregator fails, the model is untouched and the round stays open, so that
// more updates can be submitted and Close called again; or Abandon gives the
// round up. The report is complete in these cases too.
func (s *Server) Close() (Report, error) {
	st := &s.state
	if !st.Open {
		return Report{}, fmt.Errorf("close: %w", ErrNoRound)
	}
	report := s.report()
	if len(report.Accepted) == 0 {
		return report, fmt.Errorf("close round %d: %d participants, %d updates refused: %w", st.Round, len(report.Participants), report.RejectedCount, ErrNoUpdates)
	}
	updates := make([]Contribution, 0, len(report.Accepted))
	for k, id := range st.Participants {
		if len(st.Updates[k]) > 0 {
			c, _ := s.client(id)
			updates = append(updates, Contribution{Client: id, Weight: c.Weight, Params: st.Updates[k]})
		}
	}
	// A fresh vector a round: the old model may still be on its way to clients.
	next := make([]float64, len(st.Model))
	if err := s.agg.Aggregate(next, st.Model, updates); err != nil {
		return report, fmt.Errorf("close round %d: %s: %w", st.Round, s.agg.Name(), err)
	}
	if i := nonFinite(next); i >= 0 {
		return report, fmt.Errorf("close round %d: %s: parameter %d is %v: %w", st.Round, s.agg.Name(), i, next[i], ErrOverflow)
	}
	st.Model = next
	s.end()
	return report, nil
}

// Abandon ends the open round without touching the model. Its number is used
// up: the next round draws other participants. It returns ErrNoRound if no
// round is open.
func (s *Server) Abandon() (Report, error) {
	if !s.state.Open {
		return Report{}, fmt.Errorf("abandon: %w", ErrNoRound)
	}
	report := s.report()
	s.end()
	return report, nil
}

// end leaves the open round.
func (s *Server) end() {
	st := &s.state
	st.Open = false
	st.Round++
	st.Participants, st.Updates, st.Rejected, st.RejectedCount = nil, nil, nil, 0
}
