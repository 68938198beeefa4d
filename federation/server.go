package federation

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"fedrspo/federation/privacy"
)

// Errors of the state machine. They are wrapped with context; test with
// errors.Is.
var (
	// ErrRoundOpen: Begin was called while a round is open.
	ErrRoundOpen = errors.New("a round is open")
	// ErrNoRound: Submit, Drop, Close or Abandon was called while no round is
	// open.
	ErrNoRound = errors.New("no round is open")
	// ErrRoundNumber: Begin was called with another number than the next
	// round's.
	ErrRoundNumber = errors.New("not the next round")
	// ErrOverflow: the aggregate of finite updates is not finite.
	ErrOverflow = errors.New("the aggregated model is not finite")
	// ErrWaiting: Close was called before the round's deadline, and there are
	// participants left to wait for.
	ErrWaiting = errors.New("the round waits for updates")
	// ErrStopped: Begin was called after a round failed under the policy Stop.
	ErrStopped = errors.New("the stage has stopped")
	// ErrClock: Advance was called with a time before an earlier one.
	ErrClock = errors.New("time went back")
)

// Server runs the rounds of a federated stage. Make one with New or Resume.
type Server struct {
	agg   Aggregator
	state State
	curve privacy.Curve // of a private round; empty before it is asked for
}

// New returns a server at the start of round 0. clients lists every client in
// ascending ID; model is the initial global model, P finite numbers, which the
// server keeps. The error wraps ErrSettings.
func New(settings Settings, agg Aggregator, clients []Client, model []float64) (*Server, error) {
	if agg == nil {
		return nil, fmt.Errorf("no aggregator: %w", ErrSettings)
	}
	if err := errors.Join(settings.Validate(), checkClients(clients), checkModel(model)); err != nil {
		return nil, err
	}
	if err := settings.checkRule(agg, clients); err != nil {
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
	if err := state.Settings.checkRule(agg, state.Clients); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrState, err)
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

// Advance tells the time on the driver's clock, in any unit and from any origin
// that make it start at 0 or later; the machine owns no clock. Time never goes
// back: ErrClock, and then nothing changes. Only rounds with a Deadline ask for
// it.
func (s *Server) Advance(now int64) error {
	if now < s.state.Now {
		return fmt.Errorf("%w from %d to %d", ErrClock, s.state.Now, now)
	}
	s.state.Now = now
	return nil
}

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
// returns ErrRoundOpen, ErrRoundNumber or ErrStopped, and then changes nothing.
func (s *Server) Begin(round int) (Plan, error) {
	st := &s.state
	if st.Open {
		return Plan{}, fmt.Errorf("begin round %d: round %d: %w", round, st.Round, ErrRoundOpen)
	}
	if st.Stopped {
		return Plan{}, fmt.Errorf("begin round %d: %w in round %d", round, ErrStopped, st.Round)
	}
	if round != st.Round {
		return Plan{}, fmt.Errorf("begin round %d: %w, which is %d", round, ErrRoundNumber, st.Round)
	}
	st.Participants = participants(st.Settings, st.Clients, round, st.Attempt)
	st.Updates = make([][]float64, len(st.Participants))
	st.Open, st.Opened = true, st.Now
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

// Submit takes in one update. It returns nil if the update was accepted, and a
// *[Rejection] if it was refused, which changes neither the model nor the
// updates accepted so far, and is on record in the round's report.
func (s *Server) Submit(u Update) error {
	st := &s.state
	slot, rejection := s.find(u.Round, u.Client)
	var c change
	if rejection == nil {
		c, rejection = s.check(u, slot)
	}
	if rejection != nil {
		return s.refuse(rejection)
	}
	params := u.Params
	if clip := st.Settings.Clip; clip > 0 && c.exceeds(clip) {
		params = c.clipped(params, st.Model, clip)
		st.Clipped = insert(st.Clipped, u.Client)
	}
	st.Updates[slot] = params
	if k, lost := slices.BinarySearch(st.Lost, u.Client); lost { // it came back
		st.Lost = slices.Delete(st.Lost, k, k+1)
	}
	return nil
}

// Drop tells that a participant of a round will not answer: its connection
// broke, or it said so. A round does not wait for it any longer. An update that
// comes in time nevertheless is taken, and one that came before stands. It
// returns a *[Rejection], which is on record like that of an update, if no such
// round is open or the client is not one of its participants.
func (s *Server) Drop(round, client int) error {
	st := &s.state
	slot, rejection := s.find(round, client)
	if rejection != nil {
		return s.refuse(rejection)
	}
	if len(st.Updates[slot]) == 0 {
		st.Lost = insert(st.Lost, client)
	}
	return nil
}

// insert adds id to ascending ids, unless it is there.
func insert(ids []int, id int) []int {
	k, there := slices.BinarySearch(ids, id)
	if there {
		return ids
	}
	return slices.Insert(ids, k, id)
}

// refuse puts a rejection on record.
func (s *Server) refuse(r *Rejection) *Rejection {
	st := &s.state
	if len(st.Rejected) < maxRejections {
		st.Rejected = append(st.Rejected, *r)
	}
	st.RejectedCount++
	return r
}

func rejected(reason Reason, round, client int, format string, args ...any) *Rejection {
	return &Rejection{Client: client, Round: round, Reason: reason, Detail: fmt.Sprintf(format, args...)}
}

// find returns the participant's place among the updates, or why a message of
// the client for the round is refused.
func (s *Server) find(round, client int) (slot int, _ *Rejection) {
	st := &s.state
	if !st.Open {
		return 0, rejected(NoRound, round, client, "round %d comes next", st.Round)
	}
	if round != st.Round {
		return 0, rejected(WrongRound, round, client, "round %d is open", st.Round)
	}
	slot, chosen := slices.BinarySearch(st.Participants, client)
	if !chosen {
		if _, known := s.client(client); !known {
			return 0, rejected(UnknownClient, round, client, "%d clients are registered", len(st.Clients))
		}
		return 0, rejected(NotParticipant, round, client, "%d clients were chosen", len(st.Participants))
	}
	return slot, nil
}

// check returns the size of a participant's change where a setting asks for it,
// or why the update is refused.
func (s *Server) check(u Update, slot int) (c change, _ *Rejection) {
	st := &s.state
	no := func(reason Reason, format string, args ...any) (change, *Rejection) {
		return c, rejected(reason, u.Round, u.Client, format, args...)
	}
	if len(st.Updates[slot]) > 0 {
		return no(Duplicate, "the first one stands")
	}
	if s.due() {
		return no(Late, "the round began at %d, took updates for %d, and it is %d", st.Opened, st.Settings.Deadline, st.Now)
	}
	if st.Settings.OverSelect > 0 && st.accepted() >= st.target() {
		return no(Surplus, "%d were accepted", st.target())
	}
	if len(u.Params) != len(st.Model) {
		return no(WrongShape, "got %d, want %d", len(u.Params), len(st.Model))
	}
	if i := nonFinite(u.Params); i >= 0 {
		return no(NotFinite, "parameter %d is %v", i, u.Params[i])
	}
	bound := st.Settings.NormBound
	if bound > 0 || st.Settings.Clip > 0 {
		c = changeOf(u.Params, st.Model)
	}
	if bound > 0 && c.exceeds(bound) {
		return no(NormTooLarge, "got %v, want at most %v", c.norm(), bound)
	}
	return c, nil
}

// due says whether the open round's deadline has passed.
func (s *Server) due() bool {
	st := &s.state
	return st.Settings.Deadline > 0 && st.Now-st.Opened >= st.Settings.Deadline
}

// Ready says whether Close would end the open round, one way or another, but
// for the policy Wait: all participants answered or were dropped, or as many
// updates came as the round takes, or the deadline passed. Without a Deadline a
// driver may Close earlier.
func (s *Server) Ready() bool {
	st := &s.state
	if !st.Open {
		return false
	}
	accepted := st.accepted()
	return s.due() || accepted >= st.target() || accepted+len(st.Lost) == len(st.Participants)
}

// client returns the registered client with the given ID.
func (s *Server) client(id int) (Client, bool) {
	k, ok := slices.BinarySearchFunc(s.state.Clients, id, func(c Client, id int) int { return cmp.Compare(c.ID, id) })
	if !ok {
		return Client{}, false
	}
	return s.state.Clients[k], true
}

// Outcome is how a round, or an attempt at one, ended.
type Outcome string

const (
	// Aggregated: the model moved.
	Aggregated Outcome = "aggregated"
	// Unfinished: the round is still open.
	Unfinished Outcome = "unfinished"
	// Retried: the attempt failed, and the round is begun again.
	Retried Outcome = "retried"
	// Skipped: the round failed or was abandoned, and the next one is begun.
	Skipped Outcome = "skipped"
	// Stopped: the round failed, and the stage is over.
	Stopped Outcome = "stopped"
)

// Report says what happened in a round.
type Report struct {
	// Round is the number of the round, from 0, and Attempt that of the attempt
	// at it, from 0.
	Round, Attempt int
	// Outcome is how it ended. Whatever but Aggregated leaves the model as it
	// was.
	Outcome Outcome
	// Participants were chosen; each is in Accepted or in Missing. Lost are
	// those of Missing that the driver dropped, Clipped those of Accepted whose
	// change was scaled down. All in ascending ID.
	Participants, Accepted, Missing, Lost, Clipped []int
	// Weight is the sum of the accepted clients' weights n_j.
	Weight float64
	// Rejected are the messages refused since the last round ended, in ascending
	// client ID, those of one client in the order of arrival. At most 1024 are
	// kept; RejectedCount counts all. Every update that was submitted is either
	// among these or in Accepted.
	Rejected      []Rejection
	RejectedCount int
	// Spent is the privacy budget used up when the round ended; the zero value
	// without privacy.
	Spent Spent
}

// report describes the open round.
func (s *Server) report() Report {
	st := &s.state
	r := Report{
		Round:         st.Round,
		Attempt:       st.Attempt,
		Outcome:       Unfinished,
		Participants:  slices.Clone(st.Participants),
		Lost:          slices.Clone(st.Lost),
		Clipped:       slices.Clone(st.Clipped),
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
// It returns ErrNoRound if no round is open, and ErrWaiting, without any effect,
// if the round has a Deadline and is not [Server.Ready]. If too few updates were
// accepted (ErrTooFewUpdates, and ErrNoUpdates if there are none), if the
// aggregate is not finite (ErrOverflow), or if the aggregator fails, the round
// has failed: the model is untouched, and Settings.OnFailure says what becomes
// of the round. The report is complete in these cases too.
func (s *Server) Close() (Report, error) {
	st := &s.state
	if !st.Open {
		return Report{}, fmt.Errorf("close: %w", ErrNoRound)
	}
	report := s.report()
	report.Spent = s.Spent()
	if st.Settings.Deadline > 0 && !s.Ready() {
		return report, fmt.Errorf("close round %d: %w until %d: %d of %d participants have answered", st.Round, ErrWaiting, st.Opened+st.Settings.Deadline, len(report.Accepted), len(report.Participants))
	}
	// A fresh vector a round: the old model may still be on its way to clients.
	next := make([]float64, len(st.Model))
	if err := s.aggregate(next, report); err != nil {
		return s.fail(report, fmt.Errorf("close round %d: %w", st.Round, err))
	}
	st.Model = next
	if st.Settings.Privacy.enabled() {
		st.Releases++
		report.Spent = s.Spent()
	}
	s.end()
	report.Outcome = Aggregated
	return report, nil
}

// aggregate writes the next model to next.
func (s *Server) aggregate(next []float64, report Report) error {
	st := &s.state
	if n, k := len(report.Accepted), s.state.Settings.quorum(s.agg); n < k {
		err := fmt.Errorf("%d of %d participants' updates were accepted, at least %d are needed, %d were refused: %w", n, len(report.Participants), k, report.RejectedCount, ErrTooFewUpdates)
		if n == 0 {
			err = fmt.Errorf("%w: %w", err, ErrNoUpdates)
		}
		return err
	}
	updates := make([]Contribution, 0, len(report.Accepted))
	for k, id := range st.Participants {
		if len(st.Updates[k]) > 0 {
			c, _ := s.client(id)
			updates = append(updates, Contribution{Client: id, Weight: c.Weight, Params: st.Updates[k]})
		}
	}
	if st.Settings.Privacy.enabled() {
		st.aggregatePrivately(next, updates)
	} else if err := s.agg.Aggregate(next, st.Model, updates); err != nil {
		return fmt.Errorf("%s: %w", s.agg.Name(), err)
	}
	if i := nonFinite(next); i >= 0 {
		return fmt.Errorf("%s: parameter %d is %v: %w", s.agg.Name(), i, next[i], ErrOverflow)
	}
	return nil
}

// fail applies the policy to the open round, which failed with err.
func (s *Server) fail(report Report, err error) (Report, error) {
	st := &s.state
	policy := st.Settings.OnFailure
	if policy == Retry && st.Settings.Attempts > 0 && st.Attempt+1 >= st.Settings.Attempts {
		policy = Stop
	}
	switch policy {
	case Wait:
		return report, err
	case Retry:
		report.Outcome = Retried
		round, attempt := st.Round, st.Attempt
		s.end()
		st.Round, st.Attempt = round, attempt+1
	case Skip:
		report.Outcome = Skipped
		s.end()
	case Stop:
		report.Outcome = Stopped
		round, attempt := st.Round, st.Attempt
		s.end()
		st.Round, st.Attempt, st.Stopped = round, attempt, true
	}
	return report, fmt.Errorf("%w; the model is unchanged, the round is %s", err, report.Outcome)
}

// Abandon ends the open round without touching the model. Its number is used
// up: the next round draws other participants. It returns ErrNoRound if no
// round is open.
func (s *Server) Abandon() (Report, error) {
	if !s.state.Open {
		return Report{}, fmt.Errorf("abandon: %w", ErrNoRound)
	}
	report := s.report()
	report.Outcome, report.Spent = Skipped, s.Spent()
	s.end()
	return report, nil
}

// end leaves the open round for the next one.
func (s *Server) end() {
	st := &s.state
	st.Open = false
	st.Round++
	st.Attempt = 0
	st.Participants, st.Updates, st.Lost, st.Clipped = nil, nil, nil, nil
	st.Rejected, st.RejectedCount = nil, 0
}
