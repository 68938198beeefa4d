package federation

import (
	"container/heap"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestFaultSettingsAreChecked(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for name, c := range map[string]struct {
		settings Settings
		rule     Aggregator
		want     string
	}{
		"negative minimum":         {Settings{MinUpdates: -1}, FedAvg{}, "at least -1 updates"},
		"minimum above the round":  {Settings{MinUpdates: 5, Fraction: 4}, FedAvg{}, "takes 4 updates, and needs at least 5"},
		"round below 2f+3":         {Settings{Fraction: 4}, Krum{Byzantine: 1}, "takes 4 updates, and needs at least 5"},
		"round below 2f+1":         {Settings{Fraction: 4}, TrimmedMean{Byzantine: 2}, "takes 4 updates, and needs at least 5"},
		"negative over-selection":  {Settings{OverSelect: -0.1}, FedAvg{}, "over-selection -0.1"},
		"NaN over-selection":       {Settings{OverSelect: nan}, FedAvg{}, "over-selection NaN"},
		"infinite over-selection":  {Settings{OverSelect: inf}, FedAvg{}, "over-selection +Inf"},
		"negative deadline":        {Settings{Deadline: -1}, FedAvg{}, "deadline -1"},
		"waiting at the deadline":  {Settings{Deadline: 1}, FedAvg{}, "cannot wait"},
		"negative norm bound":      {Settings{NormBound: -1}, FedAvg{}, "norm bound -1"},
		"NaN norm bound":           {Settings{NormBound: nan}, FedAvg{}, "norm bound NaN"},
		"infinite clipping":        {Settings{Clip: inf}, FedAvg{}, "clipping norm +Inf"},
		"vanishing clipping":       {Settings{Clip: 1e-200}, FedAvg{}, "clipping norm 1e-200"},
		"clipping beyond bound":    {Settings{Clip: 2, NormBound: 2}, FedAvg{}, "no effect"},
		"unknown policy":           {Settings{OnFailure: "pray"}, FedAvg{}, `policy "pray"`},
		"attempts without retry":   {Settings{OnFailure: Skip, Attempts: 2}, FedAvg{}, "2 attempts"},
		"negative attempts":        {Settings{OnFailure: Retry, Attempts: -1}, FedAvg{}, "-1 attempts"},
		"delta without noise":      {Settings{Privacy: Privacy{Delta: 0.1}}, FedAvg{}, "no effect"},
		"noise without clipping":   {Settings{Privacy: Privacy{1, 0.1}}, FedAvg{}, "needs a clipping norm"},
		"noise without delta":      {Settings{Clip: 1, Privacy: Privacy{1, 0}}, FedAvg{}, "delta 0"},
		"delta 1":                  {Settings{Clip: 1, Privacy: Privacy{1, 1}}, FedAvg{}, "delta 1"},
		"NaN noise":                {Settings{Clip: 1, Privacy: Privacy{nan, 0.1}}, FedAvg{}, "noise multiplier NaN"},
		"negative noise":           {Settings{Clip: 1, Privacy: Privacy{-1, 0.1}}, FedAvg{}, "noise multiplier -1"},
		"too much noise":           {Settings{Clip: 1, Privacy: Privacy{1e7, 0.1}}, FedAvg{}, "noise multiplier 1e+07"},
		"privacy and a minimum":    {Settings{Clip: 1, MinUpdates: 1, Privacy: Privacy{1, 0.1}}, FedAvg{}, "tell who took part"},
		"privacy of a median":      {Settings{Clip: 1, Privacy: Privacy{1, 0.1}}, Median{}, "sensitivity"},
		"privacy of a trimmed one": {Settings{Clip: 1, Privacy: Privacy{1, 0.1}}, TrimmedMean{Byzantine: 1}, "sensitivity"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(c.settings, c.rule, uniformClients(9), []float64{1})
			if !errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one about %q", err, c.want)
			}
		})
	}
}

// TestOverSelection: with 30 % more clients (Bonawitz et al. 2019, section 2.2)
// a round that takes 10 draws 13, and the first 10 updates make it.
func TestOverSelection(t *testing.T) {
	s := newServer(t, Settings{Fraction: 10, OverSelect: 0.3, MinUpdates: 10}, uniformClients(40), []float64{0})
	plan := begin(t, s)
	if len(plan.Participants) != 13 {
		t.Fatalf("%d participants, want 13", len(plan.Participants))
	}
	order := rand.New(rand.NewPCG(41, 42)).Perm(13)
	for i, k := range order {
		err := s.Submit(Update{Client: plan.Participants[k], Params: []float64{1}})
		if i < 10 && err != nil || i >= 10 && !errors.Is(err, Surplus) {
			t.Fatalf("update %d: error %v", i, err)
		}
		if s.Ready() != (i >= 9) {
			t.Fatalf("after %d updates: ready %v", i+1, s.Ready())
		}
	}
	report, err := s.Close()
	if err != nil || len(report.Accepted) != 10 || len(report.Missing) != 3 || math.Abs(s.Model()[0]-1) > 10*0x1p-53 {
		t.Errorf("report %+v, error %v, model %v", report, err, s.Model())
	}
	for fraction, want := range map[float64]int{0: 40, 0.4: 21, 1: 40, 40: 40} {
		if got := (Settings{Fraction: fraction, OverSelect: 0.3}).drawn(40); got != want {
			t.Errorf("fraction %v: %d drawn, want %d", fraction, got, want)
		}
	}
}

// TestPolicies: what becomes of a round of which too few updates came.
func TestPolicies(t *testing.T) {
	for _, c := range []struct {
		policy   Policy
		attempts int
		outcomes []Outcome
	}{
		{Wait, 0, []Outcome{Unfinished, Unfinished, Unfinished}},
		{Skip, 0, []Outcome{Skipped, Skipped, Skipped}},
		{Retry, 0, []Outcome{Retried, Retried, Retried}},
		{Retry, 2, []Outcome{Retried, Stopped}},
		{Stop, 0, []Outcome{Stopped}},
	} {
		s := newServer(t, Settings{Seed: 5, Fraction: 5, MinUpdates: 3, OnFailure: c.policy, Attempts: c.attempts}, uniformClients(30), []float64{1, 2})
		drawn := map[string]bool{}
		for i, outcome := range c.outcomes {
			if i == 0 || outcome != Unfinished {
				drawn[fmt.Sprint(begin(t, s).Participants)] = true
			}
			plan, _, err := s.Plan()
			if err != nil {
				t.Fatal(err)
			}
			if i == 0 || outcome != Unfinished {
				submit(t, s, plan.Participants[0], []float64{7, 7})
			}
			report, err := s.Close()
			if !errors.Is(err, ErrTooFewUpdates) || errors.Is(err, ErrNoUpdates) || report.Outcome != outcome || !slices.Equal(s.Model(), []float64{1, 2}) {
				t.Fatalf("%q %d: report %+v, error %v, model %v", c.policy, i, report, err, s.Model())
			}
			if outcome != Unfinished && !strings.Contains(err.Error(), "the model is unchanged, the round is "+string(outcome)) {
				t.Errorf("the error does not say what became of the round: %v", err)
			}
		}
		last := c.outcomes[len(c.outcomes)-1]
		wantRound := map[Outcome]int{Skipped: len(c.outcomes)}[last]
		if s.Round() != wantRound {
			t.Errorf("%q: round %d, want %d", c.policy, s.Round(), wantRound)
		}
		if n := len(c.outcomes); last == Retried && len(drawn) != n {
			t.Errorf("%d attempts drew %d different sets of participants", n, len(drawn))
		}
		_, err := s.Begin(s.Round())
		if (last == Stopped) != errors.Is(err, ErrStopped) {
			t.Errorf("%q: begin after that: error %v", c.policy, err)
		}
	}
}

// TestAllClientsGone: a round that everybody left ends at once, whatever its
// deadline, and the model stays.
func TestAllClientsGone(t *testing.T) {
	s := newServer(t, Settings{Deadline: 1000, OnFailure: Skip}, uniformClients(4), []float64{1})
	for _, id := range begin(t, s).Participants {
		if s.Ready() {
			t.Fatal("ready before everybody is gone")
		}
		if err := s.Drop(0, id); err != nil {
			t.Fatal(err)
		}
	}
	report, err := s.Close()
	if !errors.Is(err, ErrNoUpdates) || !errors.Is(err, ErrTooFewUpdates) || report.Outcome != Skipped || !slices.Equal(report.Lost, []int{0, 1, 2, 3}) || s.Model()[0] != 1 {
		t.Errorf("report %+v, error %v, model %v", report, err, s.Model())
	}
	// A client that was given up and answers in time counts.
	begin(t, s)
	if err := s.Drop(1, 2); err != nil {
		t.Fatal(err)
	}
	submit(t, s, 2, []float64{9})
	if err := s.Drop(1, 2); err != nil { // gone after its answer: that stands
		t.Fatal(err)
	}
	if err := s.Advance(1000); err != nil {
		t.Fatal(err)
	}
	if report, err = s.Close(); err != nil || !slices.Equal(report.Accepted, []int{2}) || len(report.Lost) != 0 || s.Model()[0] != 9 {
		t.Errorf("report %+v, error %v, model %v", report, err, s.Model())
	}
}

// TestNormBoundAndClipping on numbers whose squares overflow.
func TestNormBoundAndClipping(t *testing.T) {
	s := newServer(t, Settings{NormBound: 1e200, Clip: 10}, uniformClients(3), []float64{3, -4})
	begin(t, s)
	if err := s.Submit(Update{Client: 0, Params: []float64{1e300, -4}}); !errors.Is(err, NormTooLarge) || !strings.Contains(err.Error(), "got 1e+300, want at most 1e+200") {
		t.Errorf("error %v", err)
	}
	submit(t, s, 0, []float64{6, -4})             // norm 3
	submit(t, s, 1, []float64{33, 36})            // change (30, 40)
	submit(t, s, 2, []float64{-6e199, 8e199 - 4}) // change about (-6, 8)e199
	want := [][]float64{{6, -4}, {9, 4}, {-3, 4}}
	for j, u := range s.State().Updates {
		for k := range u {
			// Three roundings of numbers up to 10.
			if math.Abs(u[k]-want[j][k]) > 4*0x1p-50 {
				t.Errorf("update %d is kept as %v, want %v", j, u, want[j])
			}
		}
	}
	report, err := s.Close()
	if err != nil || !slices.Equal(report.Clipped, []int{1, 2}) {
		t.Errorf("report %+v, error %v", report, err)
	}
	if got := changeOf([]float64{1.7e308}, []float64{-1.7e308}); !math.IsInf(got.norm(), 1) || !got.exceeds(math.MaxFloat64) {
		t.Errorf("a change beyond the range has norm %v", got.norm())
	}
}

// TestResumeChecksFaultState damages the parts of the state that faults and
// privacy need.
func TestResumeChecksFaultState(t *testing.T) {
	s := newServer(t, Settings{Seed: 1, Fraction: 4, OverSelect: 0.5, Clip: 1, Deadline: 9, OnFailure: Retry, Privacy: Privacy{1, 1e-3}}, uniformClients(9), []float64{1, 2})
	if err := s.Advance(5); err != nil {
		t.Fatal(err)
	}
	p := begin(t, s).Participants
	submit(t, s, p[1], []float64{30, 40})
	if err := s.Drop(0, p[3]); err != nil {
		t.Fatal(err)
	}
	open := s.State()
	for name, damage := range map[string]func(*State){
		"attempt":                func(s *State) { s.Attempt = 1 },
		"negative attempt":       func(s *State) { s.Attempt = -1 },
		"time before the round":  func(s *State) { s.Now = 4 },
		"negative time":          func(s *State) { s.Opened = -1 },
		"stopped":                func(s *State) { s.Stopped = true },
		"releases":               func(s *State) { s.Releases = 1 },
		"negative releases":      func(s *State) { s.Releases = -1 },
		"lost and answered":      func(s *State) { s.Lost = []int{p[1]} },
		"lost twice":             func(s *State) { s.Lost = []int{p[3], p[3]} },
		"lost stranger":          func(s *State) { s.Lost = []int{99} },
		"clipped without update": func(s *State) { s.Clipped = []int{p[0]} },
		"too many updates": func(s *State) {
			for k := range s.Updates {
				s.Updates[k] = []float64{1, 2}
			}
		},
		"minimum": func(s *State) { s.Settings.MinUpdates = 2 },
		"noise":   func(s *State) { s.Settings.Privacy.Noise = -1 },
		"refused between rounds": func(s *State) {
			*s = State{Settings: s.Settings, Aggregator: s.Aggregator, Clients: s.Clients, Model: s.Model, Rejected: []Rejection{{Reason: Late}}, RejectedCount: 1}
		},
	} {
		t.Run(name, func(t *testing.T) {
			state := open.clone()
			if _, err := Resume(state, FedAvg{}); err != nil {
				t.Fatal(err)
			}
			damage(&state)
			if _, err := Resume(state, FedAvg{}); !errors.Is(err, ErrState) {
				t.Errorf("error %v, want %v", err, ErrState)
			}
		})
	}
	open.Settings.Privacy = Privacy{}
	open.Aggregator = (Krum{Byzantine: 3}).Name()
	if _, err := Resume(open, Krum{Byzantine: 3}); !errors.Is(err, ErrState) {
		t.Errorf("a rule that no round has the updates for: error %v", err)
	}
}

// packet is a message on its way.
type packet struct {
	at     int64
	update Update
	drop   bool
}

type wire []packet

func (w wire) Len() int           { return len(w) }
func (w wire) Less(i, j int) bool { return w[i].at < w[j].at }
func (w wire) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w *wire) Push(x any)        { *w = append(*w, x.(packet)) }
func (w *wire) Pop() any {
	old := *w
	p := old[len(old)-1]
	*w = old[:len(old)-1]
	return p
}

// TestFaultyNetwork runs whole stages over a simulated network that delays,
// loses, repeats and reorders, with clients that crash, hang, send garbage or
// attack. Whatever happens, the stage ends within its deadlines; with a robust
// rule every coordinate of the model ends in the range of the honest clients'
// optima, and with the mean and one attacker it does not.
func TestFaultyNetwork(t *testing.T) {
	const clients, rounds, deadline, attackers = 25, 30, 100, 3
	run := func(seed uint64, rule Aggregator) (s *Server, lo, hi float64, outcomes map[Outcome]int) {
		r := rand.New(rand.NewPCG(seed, 43))
		s, err := New(Settings{Seed: int64(seed), Fraction: 15, OverSelect: 0.3, MinUpdates: 9, Deadline: deadline, OnFailure: Skip}, rule, uniformClients(clients), []float64{0, 0})
		if err != nil {
			t.Fatal(err)
		}
		optimum := make([]float64, clients)
		lo, hi = math.Inf(1), math.Inf(-1)
		for id := range optimum {
			optimum[id] = 5 + r.NormFloat64()
			if id >= attackers {
				lo, hi = min(lo, optimum[id]), max(hi, optimum[id])
			}
		}
		outcomes = map[Outcome]int{}
		var w wire
		now, stray := int64(0), 0
		for s.Round() < rounds {
			plan := begin(t, s)
			end := now + deadline
			for _, id := range plan.Participants {
				u := Update{Round: plan.Round, Client: id, Params: make([]float64, 2)}
				for k, x := range plan.Model { // half way to its optimum
					u.Params[k] = x + 0.5*(optimum[id]-x)
				}
				delay := 1 + r.Int64N(60)
				switch fault := r.IntN(20); {
				case id < attackers:
					u.Params = []float64{1e300, -1e300}
				case fault == 0: // hangs
					continue
				case fault == 1: // crashes, and the transport notices
					heap.Push(&w, packet{now + delay, u, true})
					continue
				case fault == 2: // comes back long after
					delay += 2 * deadline
				case fault == 3: // garbage
					u.Params = []float64{math.NaN(), 1}
				case fault == 4: // another model's
					u.Params = []float64{1, 2, 3}
				case fault < 8: // the network repeats it
					heap.Push(&w, packet{now + delay + r.Int64N(80), u, false})
				}
				heap.Push(&w, packet{now + delay, u, false})
			}
			for !s.Ready() {
				// The next message, or the deadline.
				now = end
				if len(w) > 0 && w[0].at < end {
					now = w[0].at
				}
				if err := s.Advance(now); err != nil {
					t.Fatal(err)
				}
				if now == end {
					break
				}
				p := heap.Pop(&w).(packet)
				err := error(nil)
				if p.drop {
					err = s.Drop(p.update.Round, p.update.Client)
				} else {
					err = s.Submit(p.update)
				}
				var rejection *Rejection
				if err != nil && !errors.As(err, &rejection) {
					t.Fatal(err)
				}
				if errors.Is(err, WrongRound) || errors.Is(err, NotParticipant) {
					stray++
				}
			}
			before := s.Model()
			report, err := s.Close()
			outcomes[report.Outcome]++
			if err != nil && (!errors.Is(err, ErrTooFewUpdates) || !reflect.DeepEqual(before, s.Model())) {
				t.Fatalf("%v, model %v, before %v", err, s.Model(), before)
			}
		}
		if now > rounds*deadline || stray == 0 {
			t.Errorf("seed %d: %d rounds took until %d; %d messages came in another round", seed, rounds, now, stray)
		}
		return s, lo, hi, outcomes
	}
	for seed := range uint64(6) {
		for _, rule := range []Aggregator{Median{}, TrimmedMean{Byzantine: attackers}, Krum{Byzantine: attackers}, MultiKrum{Byzantine: attackers}} {
			s, lo, hi, outcomes := run(seed, rule)
			if outcomes[Aggregated] < rounds/2 {
				t.Errorf("%s, seed %d: %v", rule.Name(), seed, outcomes)
			}
			for k, x := range s.Model() {
				// The start, 0, is halved away in every round: 5·2^-15 is left.
				if !(x >= lo-1e-3 && x <= hi+1e-3) {
					t.Errorf("%s, seed %d: coordinate %d is %v, the honest optima %v to %v", rule.Name(), seed, k, x, lo, hi)
				}
			}
		}
	}
	if s, _, _, _ := run(1, FedAvg{}); math.Abs(s.Model()[0]) < 1e290 {
		t.Errorf("the mean bears the attack: %v", s.Model())
	}
}

// TestStateIsACopy: what State returned does not follow the server.
func TestStateIsACopy(t *testing.T) {
	s := newServer(t, Settings{Clip: 1}, uniformClients(6), []float64{1, 2})
	begin(t, s)
	submit(t, s, 5, []float64{30, 40})
	for _, id := range []int{1, 3, 4} { // room behind the end, to insert into
		if err := s.Drop(0, id); err != nil {
			t.Fatal(err)
		}
	}
	state := s.State()
	before := state.clone()
	submit(t, s, 1, []float64{30, 40})
	if err := s.Drop(0, 0); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(state, before) {
		t.Errorf("the state became %+v, from %+v", state, before)
	}
}
