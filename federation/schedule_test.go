package federation

import (
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"fedrspo/federation/privacy"
	"fedrspo/internal/stream"

	"pgregory.net/rapid"
)

// TestSchedules drives a server through random schedules of events next to an
// obvious twin, and compares the two after every event. A schedule that fails
// is shrunk to a short one and printed with the seed that repeats it.
//
// FEDRSPO_SCHEDULES is the number of schedules, 200 without it; make faults
// runs 10,000.
func TestSchedules(t *testing.T) {
	schedules := "200"
	if v := os.Getenv("FEDRSPO_SCHEDULES"); v != "" {
		if n, err := strconv.Atoi(v); err != nil || n < 1 {
			t.Fatalf("FEDRSPO_SCHEDULES is %q, want a number of schedules from 1 on", v)
		}
		schedules = v
	}
	for name, value := range map[string]string{"rapid.checks": schedules, "rapid.steps": "40", "rapid.seed": "1"} {
		given := false
		flag.Visit(func(f *flag.Flag) { given = given || f.Name == name })
		if !given {
			if err := flag.Set(name, value); err != nil {
				t.Fatal(err)
			}
		}
	}
	seen := map[string]int{}
	events := 0
	rapid.Check(t, func(rt *rapid.T) {
		w := newWorld(rt, seen)
		rt.Repeat(map[string]func(*rapid.T){
			"begin":   w.begin,
			"submit":  w.submit,
			"submit2": w.submit, // updates are the most frequent event
			"submit3": w.submit,
			"submit4": w.submit,
			"submit5": w.submit,
			"drop":    w.drop,
			"advance": w.advance,
			"close":   w.close,
			"abandon": w.abandon,
			"restart": w.restart,
			"":        func(rt *rapid.T) { events++; w.check(rt) },
		})
	})
	t.Logf("%d events: %v", events, seen)
	if testing.Short() { // rapid runs a fifth of the schedules, and shorter ones
		return
	}
	for _, what := range []string{
		"accepted", "clipped", "dropped", "restarted",
		string(NoRound), string(WrongRound), string(UnknownClient), string(NotParticipant), string(Duplicate), string(Late),
		string(Surplus), string(WrongShape), string(NotFinite), string(NormTooLarge),
		string(Aggregated), string(Unfinished), string(Retried), string(Skipped), string(Stopped), "waiting", "private",
	} {
		if seen[what] < 3 {
			t.Errorf("%q happened %d times: the schedules test too little", what, seen[what])
		}
	}
}

// world is a server, and its twin: what the server must be, by the rules as
// they are documented, without any cleverness.
type world struct {
	server   *Server
	agg      Aggregator
	settings Settings
	weights  map[int]float64
	eligible int
	target   int

	model          []float64
	round, attempt int
	open, stopped  bool
	now, opened    int64
	chosen         []int
	accepted       map[int][]float64
	lost, clipped  map[int]bool
	refused        []Reason // since the last round ended, in the order of arrival
	sent           int      // messages since then: accepted, or refused
	releases       int

	seen map[string]int
}

func newWorld(rt *rapid.T, seen map[string]int) *world {
	w := &world{weights: map[int]float64{}, seen: seen}
	n := rapid.IntRange(1, 9).Draw(rt, "clients")
	var clients []Client
	for k := range n {
		c := Client{ID: 2*k + rapid.IntRange(0, 1).Draw(rt, "id"), Weight: float64(rapid.IntRange(0, 4).Draw(rt, "n_j"))}
		if k == 0 {
			c.Weight = 5
		}
		if c.Weight > 0 {
			w.eligible++
		}
		clients = append(clients, c)
		w.weights[c.ID] = c.Weight
	}
	w.settings = Settings{
		Seed:       rapid.Int64Range(0, 1000).Draw(rt, "seed"),
		Fraction:   rapid.SampledFrom([]float64{0, 0.3, 0.7, 3}).Draw(rt, "fraction"),
		OverSelect: rapid.SampledFrom([]float64{0, 0, 0.3, 2}).Draw(rt, "over-selection"),
		Deadline:   rapid.SampledFrom([]int64{0, 5, 10}).Draw(rt, "deadline"),
		NormBound:  rapid.SampledFrom([]float64{0, 0, 100}).Draw(rt, "norm bound"),
		Clip:       rapid.SampledFrom([]float64{0, 0, 2, 50}).Draw(rt, "clip"),
	}
	w.settings.OnFailure = rapid.SampledFrom([]Policy{Wait, Wait, Retry, Retry, Skip, Skip, Stop}).Draw(rt, "policy")
	if w.settings.Deadline > 0 && w.settings.OnFailure == Wait {
		w.settings.OnFailure = Skip
	}
	if w.settings.OnFailure == Retry {
		w.settings.Attempts = rapid.IntRange(0, 3).Draw(rt, "attempts")
	}
	w.target = w.settings.RoundSize(w.eligible)
	w.settings.MinUpdates = rapid.IntRange(0, w.target).Draw(rt, "least updates")
	rules := []Aggregator{FedAvg{}, FedAvg{}, Median{}}
	for _, a := range []Aggregator{TrimmedMean{Byzantine: 1}, Krum{Byzantine: 1}, MultiKrum{Byzantine: 1}} {
		if w.target >= a.Quorum() {
			rules = append(rules, a)
		}
	}
	w.agg = rapid.SampledFrom(rules).Draw(rt, "rule")
	if _, mean := w.agg.(FedAvg); mean && w.settings.Clip > 0 && rapid.Bool().Draw(rt, "private") {
		w.settings.Privacy = Privacy{Noise: 1.5, Delta: 1e-3}
		w.settings.MinUpdates = 0
	}
	w.model = w.vector(rt, rapid.IntRange(1, 4).Draw(rt, "parameters"))
	var err error
	if w.server, err = New(w.settings, w.agg, clients, slices.Clone(w.model)); err != nil {
		rt.Fatal(err)
	}
	w.leave()
	return w
}

// vector draws p numbers: ordinary ones, now and then zeros of either sign or
// ends of the range.
func (w *world) vector(rt *rapid.T, p int) []float64 {
	number := rapid.Float64Range(-3, 3)
	if rapid.IntRange(0, 4).Draw(rt, "kind of numbers") == 0 {
		number = rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 60, -60, 1e300, -1e300, math.MaxFloat64, -math.MaxFloat64, math.SmallestNonzeroFloat64})
	}
	return rapid.SliceOfN(number, p, p).Draw(rt, "params")
}

// leave forgets the round.
func (w *world) leave() {
	w.open, w.chosen = false, nil
	w.accepted, w.lost, w.clipped = map[int][]float64{}, map[int]bool{}, map[int]bool{}
	w.refused, w.sent = nil, 0
}

func (w *world) begin(rt *rapid.T) {
	round := w.round
	if rapid.IntRange(0, 7).Draw(rt, "right round") == 0 {
		round += rapid.SampledFrom([]int{-1, 1}).Draw(rt, "off by")
	}
	plan, err := w.server.Begin(round)
	var want error
	switch {
	case w.open:
		want = ErrRoundOpen
	case w.stopped:
		want = ErrStopped
	case round != w.round:
		want = ErrRoundNumber
	}
	if want != nil || err != nil {
		if !errors.Is(err, want) {
			rt.Fatalf("begin %d: error %v, want %v", round, err, want)
		}
		return
	}
	w.open, w.opened, w.chosen = true, w.now, plan.Participants
	drawn := int(math.Ceil(float64(w.target)*(1+w.settings.OverSelect) - 1e-9))
	if len(plan.Participants) != min(drawn, w.eligible) || plan.Round != w.round || !same(plan.Model, w.model) {
		rt.Fatalf("plan %+v of %d clients, want %d", plan, w.eligible, drawn)
	}
	for k, id := range plan.Participants {
		if w.weights[id] == 0 || k > 0 && id <= plan.Participants[k-1] {
			rt.Fatalf("participants %v, weights %v", plan.Participants, w.weights)
		}
	}
}

// due, ready: see the documentation of Settings.Deadline and Server.Ready.
func (w *world) due() bool { return w.settings.Deadline > 0 && w.now >= w.opened+w.settings.Deadline }

func (w *world) ready() bool {
	return w.open && (w.due() || len(w.accepted) >= w.target || len(w.accepted)+len(w.lost) == len(w.chosen))
}

// address says what is wrong with the round and the client of a message.
func (w *world) address(round, client int) Reason {
	_, known := w.weights[client]
	switch {
	case !w.open:
		return NoRound
	case round != w.round:
		return WrongRound
	case !known:
		return UnknownClient
	case !slices.Contains(w.chosen, client):
		return NotParticipant
	}
	return ""
}

// client draws whom a message says it is from: mostly a participant.
func (w *world) client(rt *rapid.T) int {
	if len(w.chosen) > 0 && rapid.IntRange(0, 5).Draw(rt, "participant") > 0 {
		return rapid.SampledFrom(w.chosen).Draw(rt, "client")
	}
	return rapid.IntRange(-2, 20).Draw(rt, "client")
}

func (w *world) roundOf(rt *rapid.T) int {
	return w.round + rapid.SampledFrom([]int{0, 0, 0, 0, 0, 0, 0, -1, 1}).Draw(rt, "round off by")
}

func (w *world) submit(rt *rapid.T) {
	if !w.open && !w.stopped && rapid.IntRange(0, 3).Draw(rt, "between rounds") > 0 {
		w.begin(rt)
	}
	u := Update{Round: w.roundOf(rt), Client: w.client(rt)}
	p := len(w.model)
	switch rapid.IntRange(0, 9).Draw(rt, "kind of update") {
	case 0:
		u.Params = w.vector(rt, rapid.IntRange(0, p+1).Draw(rt, "length"))
	case 1:
		u.Params = w.vector(rt, p)
		u.Params[rapid.IntRange(0, p-1).Draw(rt, "where")] = rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1)}).Draw(rt, "what")
	default:
		u.Params = w.vector(rt, p)
	}
	sent := slices.Clone(u.Params)
	norm := 0.0
	for k := range min(p, len(sent)) {
		norm = math.Hypot(norm, sent[k]-w.model[k])
	}
	want := w.address(u.Round, u.Client)
	if want == "" {
		switch {
		case w.accepted[u.Client] != nil:
			want = Duplicate
		case w.due():
			want = Late
		case w.settings.OverSelect > 0 && len(w.accepted) >= w.target:
			want = Surplus
		case len(sent) != p:
			want = WrongShape
		case slices.ContainsFunc(sent, func(x float64) bool { return math.IsNaN(x) || math.IsInf(x, 0) }):
			want = NotFinite
		case w.settings.NormBound > 0 && norm > w.settings.NormBound:
			want = NormTooLarge
		}
	}
	err := w.server.Submit(u)
	if !same(u.Params, sent) {
		rt.Fatal("an update was written to")
	}
	w.message(rt, err, want)
	if want != "" {
		return
	}
	delete(w.lost, u.Client)
	w.accepted[u.Client] = sent
	w.seen["accepted"]++
	if w.settings.Clip > 0 && norm > w.settings.Clip {
		w.clipped[u.Client] = true
		w.seen["clipped"]++
		w.accepted[u.Client] = w.checkClipped(rt, u.Client, sent)
	}
}

// checkClipped compares what the server kept of an update with its definition,
// in halves so that nothing overflows, and returns it.
func (w *world) checkClipped(rt *rapid.T, client int, sent []float64) []float64 {
	st := w.server.State()
	kept := st.Updates[slices.Index(w.chosen, client)]
	norm := 0.0
	for k := range sent {
		norm = math.Hypot(norm, sent[k]/4-w.model[k]/4)
	}
	length := 0.0
	for k := range kept {
		want := w.model[k] + (sent[k]/4-w.model[k]/4)/norm*w.settings.Clip
		// A handful of roundings of numbers of this size.
		if !(math.Abs(kept[k]-want) <= 0x1p-49*(math.Abs(w.model[k])+w.settings.Clip)) {
			rt.Fatalf("clipped to %v, want %v", kept, want)
		}
		length = math.Hypot(length, kept[k]-w.model[k])
	}
	size := 0.0
	for _, x := range w.model {
		size = max(size, math.Abs(x))
	}
	if length > w.settings.Clip+0x1p-50*(w.settings.Clip+size)*float64(len(kept)) {
		rt.Fatalf("clipped to norm %v, want %v", length, w.settings.Clip)
	}
	return kept
}

// message records what became of a message, and compares.
func (w *world) message(rt *rapid.T, err error, want Reason) {
	if got := reasonOf(err); got != want {
		rt.Fatalf("got %v, want %q", err, want)
	}
	w.sent++
	if want != "" {
		w.refused = append(w.refused, want)
		w.seen[string(want)]++
	}
}

func (w *world) drop(rt *rapid.T) {
	round, client := w.roundOf(rt), w.client(rt)
	want := w.address(round, client)
	err := w.server.Drop(round, client)
	w.message(rt, err, want)
	if want == "" {
		w.sent-- // a notice, not an update
		if w.accepted[client] == nil {
			w.lost[client] = true
			w.seen["dropped"]++
		}
	}
}

func (w *world) advance(rt *rapid.T) {
	by := rapid.Int64Range(-1, 6).Draw(rt, "time passes")
	err := w.server.Advance(w.now + by)
	if by < 0 {
		if !errors.Is(err, ErrClock) {
			rt.Fatalf("time went back: error %v", err)
		}
		return
	}
	if err != nil {
		rt.Fatal(err)
	}
	w.now += by
}

func (w *world) close(rt *rapid.T) {
	report, err := w.server.Close()
	if !w.open {
		if !errors.Is(err, ErrNoRound) {
			rt.Fatalf("close without a round: error %v", err)
		}
		return
	}
	if w.settings.Deadline > 0 && !w.ready() {
		if !errors.Is(err, ErrWaiting) {
			rt.Fatalf("close before the deadline: error %v", err)
		}
		w.seen["waiting"]++
		w.checkReport(rt, report, Unfinished)
		return
	}
	next, want := w.aggregate(rt)
	if !errors.Is(err, want) || want == nil && err != nil {
		rt.Fatalf("close: error %v, want %v", err, want)
	}
	outcome := Aggregated
	if want != nil {
		outcome = map[Policy]Outcome{Wait: Unfinished, Retry: Retried, Skip: Skipped, Stop: Stopped}[w.settings.OnFailure]
		if outcome == Retried && w.settings.Attempts > 0 && w.attempt+1 >= w.settings.Attempts {
			outcome = Stopped
		}
		if errors.Is(want, ErrOverflow) {
			w.seen["overflow"]++
		}
	}
	w.seen[string(outcome)]++
	w.checkReport(rt, report, outcome)
	switch outcome {
	case Aggregated:
		if w.settings.Privacy.Noise > 0 {
			w.releases++
			w.seen["private"]++
		}
		w.model = next
		w.round, w.attempt = w.round+1, 0
	case Skipped:
		w.round, w.attempt = w.round+1, 0
	case Retried:
		w.attempt++
	case Stopped:
		w.stopped = true
	case Unfinished:
		return
	}
	w.leave()
}

// aggregate returns the next model, or the error of the round.
func (w *world) aggregate(rt *rapid.T) ([]float64, error) {
	var ids []int
	for _, id := range w.chosen { // ascending
		if w.accepted[id] != nil {
			ids = append(ids, id)
		}
	}
	next := slices.Clone(w.model)
	private := w.settings.Privacy.Noise > 0
	if !private && len(ids) < max(1, w.settings.MinUpdates, w.agg.Quorum()) {
		return nil, ErrTooFewUpdates
	}
	total := 0.0
	for _, id := range ids {
		total += w.weights[id]
	}
	var updates []Contribution
	for _, id := range ids {
		updates = append(updates, Contribution{id, w.weights[id], w.accepted[id]})
	}
	switch w.agg.(type) {
	case FedAvg:
		noise := stream.NewStream()
		stream.NewFamily(stream.Key{Seed: w.settings.Seed, Purpose: "privacy noise", Round: w.round, Epoch: w.attempt}).Open(noise, 0)
		for k := range next {
			sum := 0.0
			for _, id := range ids {
				d := w.accepted[id][k] - w.model[k]
				if !private {
					d *= w.weights[id] / total
				}
				sum += d
			}
			if private {
				sum = (sum + float64(w.settings.Privacy.Noise*w.settings.Clip*noise.NormFloat64())) / float64(w.target)
				next[k] = w.model[k] + sum
				continue
			}
			next[k] = sum + w.model[k]
		}
	default:
		// These rules have twins of their own; see robust_test.go.
		if err := w.agg.Aggregate(next, w.model, updates); err != nil {
			return nil, err
		}
	}
	for _, x := range next {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, ErrOverflow
		}
	}
	return next, nil
}

func (w *world) abandon(rt *rapid.T) {
	report, err := w.server.Abandon()
	if !w.open {
		if !errors.Is(err, ErrNoRound) {
			rt.Fatalf("abandon without a round: error %v", err)
		}
		return
	}
	if err != nil {
		rt.Fatal(err)
	}
	w.checkReport(rt, report, Skipped)
	w.round, w.attempt = w.round+1, 0
	w.leave()
}

// curves are those of the noise in newWorld, by the share that takes part.
var curves = map[float64]privacy.Curve{}

// checkReport accounts for every client and every message of the round.
func (w *world) checkReport(rt *rapid.T, r Report, outcome Outcome) {
	if r.Round != w.round || r.Attempt != w.attempt || r.Outcome != outcome || !slices.Equal(r.Participants, w.chosen) {
		rt.Fatalf("report %+v, want round %d, attempt %d, %s", r, w.round, w.attempt, outcome)
	}
	weight := 0.0
	var accepted, missing, lost, clipped []int
	for _, id := range w.chosen {
		if w.accepted[id] != nil {
			accepted = append(accepted, id)
			weight += w.weights[id]
		} else {
			missing = append(missing, id)
		}
		if w.lost[id] {
			lost = append(lost, id)
		}
		if w.clipped[id] {
			clipped = append(clipped, id)
		}
	}
	if !slices.Equal(r.Accepted, accepted) || !slices.Equal(r.Missing, missing) || !slices.Equal(r.Lost, lost) || !slices.Equal(r.Clipped, clipped) || r.Weight != weight {
		rt.Fatalf("report %+v: accepted %v, missing %v, lost %v, clipped %v, weight %v", r, accepted, missing, lost, clipped, weight)
	}
	count := map[Reason]int{}
	for k, rejection := range r.Rejected {
		count[rejection.Reason]++
		if rejection.Detail == "" || k > 0 && rejection.Client < r.Rejected[k-1].Client {
			rt.Fatalf("rejections %+v", r.Rejected)
		}
	}
	for _, reason := range w.refused {
		count[reason]--
	}
	for reason, n := range count {
		if n != 0 {
			rt.Fatalf("%q: the report has %d more than there were", reason, n)
		}
	}
	// Every message was accepted or refused: none is lost, none counts twice.
	if len(r.Accepted)+r.RejectedCount != w.sent {
		rt.Fatalf("%d accepted and %d refused of %d messages", len(r.Accepted), r.RejectedCount, w.sent)
	}
	var spent Spent
	if w.settings.Privacy.Noise > 0 {
		q := float64(len(w.chosen)) / float64(w.eligible)
		if curves[q].RDP == nil {
			curves[q] = privacy.ZeroOutCurve(q, w.settings.Privacy.Noise, privacy.Orders())
		}
		spent = Spent{Releases: w.releases, Delta: w.settings.Privacy.Delta}
		if outcome == Aggregated {
			spent.Releases++
		}
		spent.Epsilon, _ = curves[q].Times(spent.Releases).Epsilon(spent.Delta)
	}
	if r.Spent != spent {
		rt.Fatalf("spent %+v, want %+v", r.Spent, spent)
	}
}

// restart stores the server's state and goes on with one that reads it.
func (w *world) restart(rt *rapid.T) {
	var state State
	var buf bytes.Buffer
	err := errors.Join(gob.NewEncoder(&buf).Encode(w.server.State()), gob.NewDecoder(&buf).Decode(&state))
	if rapid.Bool().Draw(rt, "as JSON") {
		buf.Reset()
		state = State{}
		err = errors.Join(json.NewEncoder(&buf).Encode(w.server.State()), json.NewDecoder(&buf).Decode(&state))
	}
	if err != nil {
		rt.Fatal(err)
	}
	if w.server, err = Resume(state, w.agg); err != nil {
		rt.Fatal(err)
	}
	w.seen["restarted"]++
}

// check holds after every event.
func (w *world) check(rt *rapid.T) {
	if !same(w.server.Model(), w.model) {
		rt.Fatalf("model %v, want %v", w.server.Model(), w.model)
	}
	if w.server.Ready() != w.ready() {
		rt.Fatalf("ready %v, want %v", w.server.Ready(), w.ready())
	}
	st := w.server.State()
	if st.Round != w.round || st.Attempt != w.attempt || st.Open != w.open || st.Stopped != w.stopped || st.Releases != w.releases {
		rt.Fatalf("state %+v, want round %d, attempt %d, open %v, stopped %v, %d releases", st, w.round, w.attempt, w.open, w.stopped, w.releases)
	}
	if len(st.Updates) != len(w.chosen) || len(w.accepted) > w.target {
		rt.Fatalf("%d updates of %d participants, %d accepted of %d", len(st.Updates), len(w.chosen), len(w.accepted), w.target)
	}
	for k, id := range w.chosen {
		if !same(st.Updates[k], w.accepted[id]) {
			rt.Fatalf("update of client %d: %v, want %v", id, st.Updates[k], w.accepted[id])
		}
	}
	if st.RejectedCount != len(w.refused) {
		rt.Fatalf("%d rejections, want %d", st.RejectedCount, len(w.refused))
	}
	for k, r := range st.Rejected {
		if r.Reason != w.refused[k] {
			rt.Fatalf("rejection %d is %q, want %q", k, r.Reason, w.refused[k])
		}
	}
	// What is stored comes back bit for bit, and is a state to resume from.
	stored, err := json.Marshal(st)
	if err != nil {
		rt.Fatal(err)
	}
	var back State
	if err := json.Unmarshal(stored, &back); err != nil {
		rt.Fatal(err)
	}
	resumed, err := Resume(back, w.agg)
	if err != nil {
		rt.Fatal(err)
	}
	again, err := json.Marshal(resumed.State())
	if err != nil || !bytes.Equal(stored, again) {
		rt.Fatalf("stored %s, read back %s, error %v", stored, again, err)
	}
}

// same compares bits.
func same(a, b []float64) bool {
	return slices.EqualFunc(a, b, func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) })
}
