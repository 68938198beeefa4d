package federation

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func newServer(t testing.TB, settings Settings, clients []Client, model []float64) *Server {
	t.Helper()
	s, err := New(settings, FedAvg{}, clients, model)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func begin(t testing.TB, s *Server) Plan {
	t.Helper()
	plan, err := s.Begin(s.Round())
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

func submit(t testing.TB, s *Server, client int, params []float64) {
	t.Helper()
	if err := s.Submit(Update{Round: s.Round(), Client: client, Params: params}); err != nil {
		t.Fatal(err)
	}
}

func abandon(t testing.TB, s *Server) Report {
	t.Helper()
	report, err := s.Abandon()
	if err != nil {
		t.Fatal(err)
	}
	return report
}

// uniformClients returns clients 0 to n-1 of weight 1.
func uniformClients(n int) []Client {
	clients := make([]Client, n)
	for id := range clients {
		clients[id] = Client{ID: id, Weight: 1}
	}
	return clients
}

func randomVector(r *rand.Rand, n int) []float64 {
	v := make([]float64, n)
	for k := range v {
		v[k] = r.NormFloat64() * math.Exp(3*r.NormFloat64())
	}
	return v
}

func TestSettingsAreChecked(t *testing.T) {
	ok, model := uniformClients(3), []float64{1}
	nan, inf := math.NaN(), math.Inf(1)
	for name, c := range map[string]struct {
		fraction float64
		clients  []Client
		model    []float64
		want     string
	}{
		"negative fraction":   {-0.1, ok, model, "client fraction -0.1"},
		"NaN fraction":        {nan, ok, model, "client fraction NaN"},
		"infinite fraction":   {inf, ok, model, "client fraction +Inf"},
		"fraction and a half": {1.5, ok, model, "whole number of clients"},
		"no clients":          {0, nil, model, "0 clients"},
		"nobody has data":     {0, []Client{{1, 0}, {2, 0}}, model, "sum to 0"},
		"negative ID":         {0, []Client{{-1, 1}}, model, "negative"},
		"repeated ID":         {0, []Client{{1, 1}, {1, 1}}, model, "got 1 after 1"},
		"descending ID":       {0, []Client{{2, 1}, {1, 1}}, model, "got 1 after 2"},
		"negative weight":     {0, []Client{{1, 1}, {2, -1}}, model, "weight -1"},
		"NaN weight":          {0, []Client{{1, 1}, {2, nan}}, model, "weight NaN"},
		"infinite weight":     {0, []Client{{1, inf}}, model, "sum to +Inf"},
		"overflowing weights": {0, []Client{{1, 1e308}, {2, 1e308}}, model, "sum to +Inf"},
		"no parameters":       {0, ok, nil, "no parameters"},
		"NaN parameter":       {0, ok, []float64{0, nan}, "NaN at parameter 1"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(Settings{Fraction: c.fraction}, FedAvg{}, c.clients, c.model)
			if !errors.Is(err, ErrSettings) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one about %q", err, c.want)
			}
		})
	}
	if _, err := New(Settings{}, nil, ok, model); !errors.Is(err, ErrSettings) {
		t.Errorf("no aggregator: error %v", err)
	}
}

func TestTransitions(t *testing.T) {
	s := newServer(t, Settings{}, uniformClients(2), []float64{1})
	expect := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: error %v, want %v", what, err, want)
		}
	}
	closed := func() {
		t.Helper()
		before := s.State()
		_, err := s.Close()
		expect("Close without a round", err, ErrNoRound)
		_, err = s.Abandon()
		expect("Abandon without a round", err, ErrNoRound)
		_, _, err = s.Plan()
		expect("Plan without a round", err, ErrNoRound)
		_, err = s.Begin(s.Round() + 1)
		expect("Begin of a later round", err, ErrRoundNumber)
		_, err = s.Begin(s.Round() - 1)
		expect("Begin of an earlier round", err, ErrRoundNumber)
		if !reflect.DeepEqual(s.State(), before) {
			t.Errorf("a refused transition changed the state to %+v", s.State())
		}
		// A message of no round is on record, and changes nothing else.
		expect("Submit without a round", s.Submit(Update{Params: []float64{2}}), ErrNoRound)
		expect("Drop without a round", s.Drop(0, 1), NoRound)
		before.Rejected, before.RejectedCount = s.State().Rejected, 2
		if !reflect.DeepEqual(s.State(), before) || len(before.Rejected) != 2 || before.Rejected[0].Reason != NoRound {
			t.Errorf("a message of no round changed the state to %+v", s.State())
		}
	}
	closed()
	begin(t, s)
	submit(t, s, 1, []float64{3})
	before := s.State()
	_, err := s.Begin(0)
	expect("Begin twice", err, ErrRoundOpen)
	_, err = s.Begin(1)
	expect("Begin of the next round", err, ErrRoundOpen)
	if !reflect.DeepEqual(s.State(), before) {
		t.Errorf("a refused transition changed the state to %+v", s.State())
	}
	if plan, missing, err := s.Plan(); err != nil || plan.Round != 0 || !slices.Equal(plan.Participants, []int{0, 1}) || !slices.Equal(missing, []int{0}) {
		t.Errorf("plan %+v, missing %v, error %v", plan, missing, err)
	}
	if report := abandon(t, s); !slices.Equal(report.Accepted, []int{1}) || !slices.Equal(report.Missing, []int{0}) {
		t.Errorf("report %+v", report)
	}
	if s.Round() != 1 || s.Model()[0] != 1 {
		t.Errorf("after Abandon: round %d, model %v", s.Round(), s.Model())
	}
	closed()
}

func TestRejections(t *testing.T) {
	// Clients 10 (no data), 11, 12, 13, 14; two of them take part.
	clients := []Client{{10, 0}, {11, 1}, {12, 2}, {13, 3}, {14, 4}}
	s := newServer(t, Settings{Seed: 3, Fraction: 2}, clients, []float64{1, 2})
	plan := begin(t, s)
	in := plan.Participants
	var out int
	for _, c := range clients[1:] {
		if !slices.Contains(in, c.ID) {
			out = c.ID
		}
	}
	good := []float64{3, 4}
	submit(t, s, in[1], good)
	var want []Rejection
	for _, c := range []struct {
		update Update
		reason Reason
	}{
		{Update{-1, in[0], good}, WrongRound},
		{Update{1, in[0], good}, WrongRound},
		{Update{1, 99, nil}, WrongRound},
		{Update{0, 99, good}, UnknownClient},
		{Update{0, math.MinInt, good}, UnknownClient},
		{Update{0, math.MaxInt, good}, UnknownClient},
		{Update{0, 10, good}, NotParticipant},
		{Update{0, out, good}, NotParticipant},
		{Update{0, in[1], []float64{5, 6}}, Duplicate},
		{Update{0, in[1], nil}, Duplicate},
		{Update{0, in[0], nil}, WrongShape},
		{Update{0, in[0], []float64{1}}, WrongShape},
		{Update{0, in[0], []float64{1, 2, 3}}, WrongShape},
		{Update{0, in[0], []float64{1, math.NaN()}}, NotFinite},
		{Update{0, in[0], []float64{math.Inf(1), 1}}, NotFinite},
		{Update{0, in[0], []float64{1, math.Inf(-1)}}, NotFinite},
	} {
		before := s.State()
		err := s.Submit(c.update)
		var rejection *Rejection
		if !errors.As(err, &rejection) || !errors.Is(err, c.reason) {
			t.Fatalf("%+v: error %v, want %q", c.update, err, c.reason)
		}
		if rejection.Client != c.update.Client || rejection.Round != c.update.Round || rejection.Detail == "" {
			t.Errorf("%+v: rejection %+v", c.update, rejection)
		}
		want = append(want, *rejection)
		after := s.State()
		if !reflect.DeepEqual(after.Model, before.Model) || !reflect.DeepEqual(after.Updates, before.Updates) {
			t.Errorf("%+v: a rejected update changed the model or the accepted updates", c.update)
		}
	}
	submit(t, s, in[0], good) // a refused participant may try again
	report, err := s.Close()
	if err != nil {
		t.Fatal(err)
	}
	slices.SortStableFunc(want, func(a, b Rejection) int {
		if a.Client < b.Client {
			return -1
		} else if a.Client > b.Client {
			return 1
		}
		return 0
	})
	if !reflect.DeepEqual(report.Rejected, want) || report.RejectedCount != len(want) {
		t.Errorf("rejections on record:\n%+v\nwant\n%+v", report.Rejected, want)
	}
	begin(t, s)
	if report := abandon(t, s); report.RejectedCount != 0 || len(report.Rejected) != 0 {
		t.Errorf("the next round inherited %d rejections", report.RejectedCount)
	}
}

func TestRejectionsAreBounded(t *testing.T) {
	s := newServer(t, Settings{}, uniformClients(1), []float64{1})
	begin(t, s)
	for range 3 * maxRejections {
		if err := s.Submit(Update{Client: 7}); !errors.Is(err, UnknownClient) {
			t.Fatal(err)
		}
	}
	if report := abandon(t, s); report.RejectedCount != 3*maxRejections || len(report.Rejected) != maxRejections {
		t.Errorf("%d rejections kept, %d counted", len(report.Rejected), report.RejectedCount)
	}
}

func TestOverflowLeavesTheModel(t *testing.T) {
	s := newServer(t, Settings{}, uniformClients(2), []float64{1, -math.MaxFloat64})
	begin(t, s)
	submit(t, s, 0, []float64{1, math.MaxFloat64})
	before := s.State()
	report, err := s.Close()
	if !errors.Is(err, ErrOverflow) || !slices.Equal(report.Accepted, []int{0}) {
		t.Fatalf("report %+v, error %v", report, err)
	}
	if !reflect.DeepEqual(s.State(), before) {
		t.Errorf("a failed Close changed the state to %+v", s.State())
	}
}

// failing is an Aggregator that writes half an answer and fails.
type failing struct{ FedAvg }

var errFailing = errors.New("no answer")

func (failing) Aggregate(dst, global []float64, updates []Contribution) error {
	dst[0] = 42
	return errFailing
}

func TestFailingAggregatorLeavesTheModel(t *testing.T) {
	s, err := New(Settings{}, failing{}, uniformClients(2), []float64{1, 2})
	if err != nil {
		t.Fatal(err)
	}
	begin(t, s)
	submit(t, s, 0, []float64{3, 4})
	before := s.State()
	if _, err := s.Close(); !errors.Is(err, errFailing) {
		t.Fatalf("error %v, want %v", err, errFailing)
	}
	if !reflect.DeepEqual(s.State(), before) {
		t.Errorf("a failed Close changed the state to %+v", s.State())
	}
}

func TestFedAvgWithoutWeight(t *testing.T) {
	for _, updates := range [][]Contribution{nil, {{Client: 1, Weight: 0, Params: []float64{1}}}} {
		if err := (FedAvg{}).Aggregate(make([]float64, 1), []float64{1}, updates); !errors.Is(err, ErrNoUpdates) {
			t.Errorf("%d updates: error %v, want %v", len(updates), err, ErrNoUpdates)
		}
	}
}

// TestModelsNeverChange: a model that was handed out stays what it was, and so
// do the vectors that were submitted.
func TestModelsNeverChange(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	s := newServer(t, Settings{}, uniformClients(3), randomVector(r, 10))
	var handed, copies [][]float64
	keep := func(v []float64) {
		handed, copies = append(handed, v), append(copies, slices.Clone(v))
	}
	for range 5 {
		keep(begin(t, s).Model)
		for id := range 3 {
			v := randomVector(r, 10)
			keep(v)
			submit(t, s, id, v)
		}
		if _, err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(handed, copies) {
		t.Error("a vector changed after it was handed over")
	}
}

// TestArrivalOrderDoesNotMatter: the model is the same, bit for bit, in
// whatever order updates come.
func TestArrivalOrderDoesNotMatter(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	clients := uniformClients(12)
	for k := range clients {
		clients[k].Weight = float64(1 + r.IntN(100))
	}
	model := randomVector(r, 700)
	params := make([][]float64, len(clients))
	for k := range params {
		params[k] = randomVector(r, 700)
	}
	var want []float64
	for range 20 {
		s := newServer(t, Settings{}, clients, model)
		begin(t, s)
		for _, id := range r.Perm(len(clients)) {
			submit(t, s, id, params[id])
		}
		if _, err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = s.Model()
		}
		if !slices.Equal(s.Model(), want) {
			t.Fatal("the model depends on the order of arrival")
		}
	}
}

// twin is the slow, obvious server: maps, and the formulas as they are written.
type twin struct {
	weights  map[int]float64
	model    []float64
	accepted map[int][]float64
	reasons  map[Reason]int
}

func (w *twin) submit(round int, chosen []int, u Update) Reason {
	reason := Reason("")
	bad := false
	for _, x := range u.Params {
		bad = bad || math.IsNaN(x) || math.IsInf(x, 0)
	}
	_, known := w.weights[u.Client]
	_, again := w.accepted[u.Client]
	switch {
	case u.Round != round:
		reason = WrongRound
	case !known:
		reason = UnknownClient
	case !slices.Contains(chosen, u.Client):
		reason = NotParticipant
	case again:
		reason = Duplicate
	case len(u.Params) != len(w.model):
		reason = WrongShape
	case bad:
		reason = NotFinite
	default:
		w.accepted[u.Client] = slices.Clone(u.Params)
		return ""
	}
	w.reasons[reason]++
	return reason
}

func (w *twin) close() bool {
	var ids []int
	total := 0.0
	for id := range w.accepted {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	for _, id := range ids {
		total += w.weights[id]
	}
	if total == 0 {
		return false
	}
	next := slices.Clone(w.model)
	for k := range next {
		sum := 0.0
		for _, id := range ids {
			sum += float64(w.weights[id] / total * (w.accepted[id][k] - w.model[k]))
		}
		next[k] = sum + w.model[k]
	}
	w.model = next
	return true
}

// TestRandomSchedulesAgainstTwin drives server and twin through random
// schedules with late, repeated, foreign and broken updates; now and then the
// server is replaced by one resumed from its stored state.
func TestRandomSchedulesAgainstTwin(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	seen := map[Reason]int{}
	for schedule := range 40 {
		n, p := 1+r.IntN(12), 1+r.IntN(600)
		settings := Settings{Seed: int64(schedule), Fraction: []float64{0, 0.3, 0.7, 3}[r.IntN(4)]}
		w := &twin{weights: map[int]float64{}, model: randomVector(r, p)}
		var clients []Client
		for k := range n {
			c := Client{ID: 2*k + r.IntN(2), Weight: float64(r.IntN(4))}
			if k == 0 {
				c.Weight = 5
			}
			clients = append(clients, c)
			w.weights[c.ID] = c.Weight
		}
		s := newServer(t, settings, clients, slices.Clone(w.model))
		for round := range 8 {
			plan := begin(t, s)
			w.accepted, w.reasons = map[int][]float64{}, map[Reason]int{}
			for range r.IntN(4 * (len(plan.Participants) + 1)) {
				u := randomUpdate(r, round, plan.Participants, n, p)
				want := w.submit(round, plan.Participants, Update{u.Round, u.Client, slices.Clone(u.Params)})
				err := s.Submit(u)
				if got := reasonOf(err); got != want {
					t.Fatalf("schedule %d round %d: got %v, want %q", schedule, round, err, want)
				}
				seen[want]++
				if r.IntN(10) == 0 {
					s = restart(t, s, r.IntN(2) == 0)
				}
			}
			report, err := s.Close()
			if ok := w.close(); ok != (err == nil) {
				t.Fatalf("schedule %d round %d: error %v, twin closed %v", schedule, round, err, ok)
			}
			if err != nil {
				abandon(t, s)
			}
			checkReport(t, report, plan, w)
			if !slices.Equal(s.Model(), w.model) {
				t.Fatalf("schedule %d round %d: the models differ", schedule, round)
			}
		}
	}
	for _, reason := range []Reason{"", WrongRound, UnknownClient, NotParticipant, Duplicate, WrongShape, NotFinite} {
		if seen[reason] < 20 {
			t.Errorf("only %d updates ended as %q: the schedules test too little", seen[reason], reason)
		}
	}
}

func reasonOf(err error) Reason {
	var rejection *Rejection
	if errors.As(err, &rejection) {
		return rejection.Reason
	}
	if err != nil {
		return Reason("unexpected: " + err.Error())
	}
	return ""
}

// randomUpdate is right three times out of four.
func randomUpdate(r *rand.Rand, round int, chosen []int, n, p int) Update {
	u := Update{Round: round, Client: chosen[r.IntN(len(chosen))], Params: randomVector(r, p)}
	switch r.IntN(20) {
	case 0:
		u.Round += 1 - 2*r.IntN(2)
	case 1, 2:
		u.Client = r.IntN(2*n+4) - 2
	case 3:
		u.Params = randomVector(r, r.IntN(2*p))
	case 4:
		u.Params[r.IntN(p)] = []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[r.IntN(3)]
	}
	return u
}

func checkReport(t *testing.T, report Report, plan Plan, w *twin) {
	t.Helper()
	total, rejected := 0.0, 0
	for _, id := range report.Accepted {
		if _, ok := w.accepted[id]; !ok {
			t.Errorf("client %d was not accepted", id)
		}
		total += w.weights[id]
	}
	both := slices.Concat(report.Accepted, report.Missing)
	slices.Sort(both)
	if report.Round != plan.Round || !slices.Equal(report.Participants, plan.Participants) || !slices.Equal(both, plan.Participants) || len(report.Accepted) != len(w.accepted) || report.Weight != total {
		t.Errorf("report %+v", report)
	}
	for reason, count := range w.reasons {
		rejected += count
		for _, r := range report.Rejected {
			if r.Reason == reason {
				count--
			}
		}
		if count != 0 {
			t.Errorf("%q: %d more rejections than the report says", reason, count)
		}
	}
	if rejected != report.RejectedCount || rejected != len(report.Rejected) {
		t.Errorf("%d rejections, the report has %d of %d", rejected, len(report.Rejected), report.RejectedCount)
	}
}

// restart stores the server's state and resumes from it.
func restart(t *testing.T, s *Server, asJSON bool) *Server {
	t.Helper()
	var state State
	var buf bytes.Buffer
	var err error
	if asJSON {
		err = errors.Join(json.NewEncoder(&buf).Encode(s.State()), json.NewDecoder(&buf).Decode(&state))
	} else {
		err = errors.Join(gob.NewEncoder(&buf).Encode(s.State()), gob.NewDecoder(&buf).Decode(&state))
	}
	if err != nil {
		t.Fatal(err)
	}
	resumed, err := Resume(state, FedAvg{})
	if err != nil {
		t.Fatal(err)
	}
	return resumed
}

func TestResumeChecksTheState(t *testing.T) {
	s := newServer(t, Settings{Seed: 1, Fraction: 2}, uniformClients(5), []float64{1, 2})
	closed := s.State()
	plan := begin(t, s)
	submit(t, s, plan.Participants[0], []float64{3, 4})
	if err := s.Submit(Update{Client: 77}); err == nil {
		t.Fatal("an unknown client was accepted")
	}
	open := s.State()
	for name, c := range map[string]struct {
		state  State
		damage func(*State)
	}{
		"fraction":                {closed, func(s *State) { s.Settings.Fraction = -1 }},
		"aggregator":              {closed, func(s *State) { s.Aggregator = "krum" }},
		"clients":                 {closed, func(s *State) { s.Clients = nil }},
		"round":                   {closed, func(s *State) { s.Round = -1 }},
		"model":                   {closed, func(s *State) { s.Model = nil }},
		"model not finite":        {closed, func(s *State) { s.Model[0] = math.NaN() }},
		"participants, no round":  {closed, func(s *State) { s.Participants = []int{1} }},
		"rejections, no round":    {closed, func(s *State) { s.RejectedCount = 1 }},
		"other participants":      {open, func(s *State) { s.Participants = []int{0, 1, 2} }},
		"other round":             {open, func(s *State) { s.Round = 3 }},
		"other seed":              {open, func(s *State) { s.Settings.Seed = 3 }},
		"number of updates":       {open, func(s *State) { s.Updates = s.Updates[:1] }},
		"length of an update":     {open, func(s *State) { s.Updates[0] = []float64{1} }},
		"update not finite":       {open, func(s *State) { s.Updates[0] = []float64{1, math.Inf(1)} }},
		"rejections not recorded": {open, func(s *State) { s.Rejected = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			state := c.state.clone()
			if _, err := Resume(state, FedAvg{}); err != nil {
				t.Fatal(err)
			}
			c.damage(&state)
			if _, err := Resume(state, FedAvg{}); !errors.Is(err, ErrState) {
				t.Errorf("error %v, want %v", err, ErrState)
			}
		})
	}
	if _, err := Resume(open, nil); !errors.Is(err, ErrSettings) {
		t.Errorf("no aggregator: error %v", err)
	}
}

func TestHotPathsDoNotAllocate(t *testing.T) {
	r := rand.New(rand.NewPCG(11, 12))
	global, dst := randomVector(r, 2000), make([]float64, 2000)
	updates := []Contribution{{1, 3, randomVector(r, 2000)}, {2, 4, randomVector(r, 2000)}}
	if n := testing.AllocsPerRun(10, func() {
		if err := (FedAvg{}).Aggregate(dst, global, updates); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("FedAvg allocates %v times", n)
	}
	// Submit keeps the vector it is given instead of copying it.
	s := newServer(t, Settings{}, uniformClients(200), global)
	begin(t, s)
	next := 0
	if n := testing.AllocsPerRun(100, func() {
		submit(t, s, next, dst)
		next++
	}); n != 0 {
		t.Errorf("Submit allocates %v times", n)
	}
}

// BenchmarkRound is a round of a large federation: 10,000 clients, of whom
// 4,000 take part, with 4,000 parameters each.
func BenchmarkRound(b *testing.B) {
	const clients, params = 10_000, 4_000
	r := rand.New(rand.NewPCG(13, 14))
	s := newServer(b, Settings{Fraction: 0.4}, uniformClients(clients), randomVector(r, params))
	theta := make([][]float64, 0.4*clients)
	for k := range theta {
		theta[k] = randomVector(r, params)
	}
	b.SetBytes(int64(len(theta)) * params * 8)
	for b.Loop() {
		for k, id := range begin(b, s).Participants {
			submit(b, s, id, theta[k])
		}
		if _, err := s.Close(); err != nil {
			b.Fatal(err)
		}
	}
}
