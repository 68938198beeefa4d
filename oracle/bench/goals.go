package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"time"
)

// Verdict compares an obtained number with a Goal.
type Verdict string

// Verdicts.
const (
	GoalMet     Verdict = "goal"
	MustMet     Verdict = "must"
	Missed      Verdict = "missed"
	NotMeasured Verdict = "not measured"
)

// Goal is a bound for the cost of an oracle and what was obtained.
type Goal struct {
	Name string `json:"name"`
	// Must and Want bound Obtained from above or, if AtLeast, from below.
	Must    float64 `json:"must"`
	Want    float64 `json:"goal"`
	AtLeast bool    `json:"at_least,omitempty"`
	// Unit is "x", multiples of the fast shortest path of the same run, or
	// "µs".
	Unit string `json:"unit"`
	// Obtained is the worst of Parts, NaN-free; it means nothing where Verdict
	// is NotMeasured.
	Obtained float64 `json:"obtained"`
	Verdict  Verdict `json:"verdict"`
	// Parts says what the number consists of.
	Parts string `json:"parts,omitempty"`
}

// judge sets the verdict.
func (g *Goal) judge() {
	sign := 1.0
	if g.AtLeast {
		sign = -1
	}
	switch {
	case sign*g.Obtained <= sign*g.Want:
		g.Verdict = GoalMet
	case sign*g.Obtained <= sign*g.Must:
		g.Verdict = MustMet
	default:
		g.Verdict = Missed
	}
}

// add takes a part into account.
func (g *Goal) add(label string, value float64) {
	if g.Parts != "" {
		g.Parts += ", "
	}
	g.Parts += label + " " + number(value)
	g.Obtained = math.Max(g.Obtained, value)
}

func number(x float64) string {
	if x >= 100 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

// Bound formats a bound of g.
func (g Goal) Bound(x float64) string {
	switch {
	case x == 0:
		return "-"
	case g.AtLeast:
		return ">= " + number(x) + g.space()
	}
	return "<= " + number(x) + g.space()
}

// Value formats what was obtained.
func (g Goal) Value() string {
	if g.Verdict == NotMeasured {
		return "-"
	}
	return number(g.Obtained) + g.space()
}

func (g Goal) space() string {
	if g.Unit == "x" {
		return g.Unit
	}
	return " " + g.Unit
}

// Peers are the times of other programs on exported instances, as
// bench/peers/compare.py writes them.
type Peers struct {
	Rows []struct {
		Case   string `json:"case"`
		Solver string `json:"solver"`
		// Operation is "project" or "linear".
		Operation string `json:"operation"`
		// Ratio is the peer's time over that of this module.
		Ratio float64 `json:"ratio"`
		// Difference is the largest of an entry.
		Difference float64 `json:"difference"`
		// Judged says that the row is one of the goal: a solver it names, at
		// equal accuracy, on a path polytope with good predictions.
		Judged bool `json:"judged"`
	} `json:"rows"`
}

// ReadPeers reads Peers in JSON. A file without rows and a judged row without a
// ratio above 0 are errors.
func ReadPeers(r io.Reader) (*Peers, error) {
	text, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	p := new(Peers)
	if err := json.Unmarshal(text, p); err != nil {
		return nil, fmt.Errorf("peers: %w", err)
	}
	if p.Rows == nil {
		return nil, errors.New(`peers: no "rows", want what bench/peers/compare.py wrote`)
	}
	for i, row := range p.Rows {
		if row.Judged && !(row.Ratio > 0) {
			return nil, fmt.Errorf("peers: row %d (%s, %s): ratio %v, want a number above 0", i, row.Case, row.Solver, row.Ratio)
		}
	}
	return p, nil
}

// MeasureGoals measures everything that has a goal, for the given duration each,
// with one worker. peers may be nil. Results go to observe as they come. When ctx
// ends it returns its error at once, with the goals whose measurement that left
// undone NotMeasured.
func MeasureGoals(ctx context.Context, seed int64, duration time.Duration, peers *Peers, observe func(Result)) ([]Goal, error) {
	m := goalMeter{ctx: ctx, seed: seed, duration: duration, observe: observe}
	goals := []Goal{
		m.shortest(false), m.shortest(true),
		m.path(Goal{Name: "path projection, lambda 0.2 to 2, good predictions, cold", Must: 17, Want: 8}, 0, []Quality{Good}, fixedLambdas),
		m.path(Goal{Name: "the same, warm after a change of 3 %", Must: 8, Want: 4}, 0.03, []Quality{Good}, fixedLambdas),
		m.path(Goal{Name: "calibrated lambda, good and medium predictions, cold", Must: 45, Want: 25}, 0, []Quality{Good, Medium}, calibratedLambdas),
		m.path(Goal{Name: "the same, warm after a change of 3 %", Must: 15, Want: 5}, 0.03, []Quality{Good, Medium}, calibratedLambdas),
		m.trajectory(),
		m.path(Goal{Name: "many cycles pay, in batches of 64", Must: 110, Want: 30}, 0, []Quality{Under, Init}, []Lambda{Fixed(0.5), Calibrated(1)}),
		m.knapsack("project", 1.5), m.knapsack("linear", 1.3),
		peers.goal(),
	}
	return goals, m.err
}

var (
	fixedLambdas      = []Lambda{Fixed(2), Fixed(1), Fixed(0.5), Fixed(0.2)}
	calibratedLambdas = []Lambda{Calibrated(1)}
)

// goalMeter measures goals until the first error.
type goalMeter struct {
	ctx      context.Context
	seed     int64
	duration time.Duration
	observe  func(Result)
	err      error
}

// judge is g's verdict, none after an error.
func (m *goalMeter) judge(g *Goal) {
	if m.err != nil {
		*g = Goal{Name: g.Name, Must: g.Must, Want: g.Want, Unit: g.Unit, Verdict: NotMeasured}
		return
	}
	g.judge()
}

func (m *goalMeter) measure(p Problem) []Result {
	if m.err != nil {
		return nil
	}
	p.Seed, p.Batch, p.Instances = m.seed, 64, 4096
	var results []Result
	results, m.err = Measure(m.ctx, p, 1, m.duration)
	for _, r := range results {
		m.observe(r)
	}
	return results
}

func (m *goalMeter) shortest(labels bool) Goal {
	g := Goal{Name: "fast shortest path, 12x12", Must: 5, Want: 4, Unit: "µs"}
	if labels {
		g = Goal{Name: "shortest path with the paper's ties, 12x12", Must: 8, Want: 8, Unit: "µs"}
	}
	for _, r := range m.measure(Problem{Oracle: Dijkstra, Height: 12, Width: 12, Labels: labels}) {
		g.Obtained = r.Nanoseconds / 1000
		g.Parts = fmt.Sprintf("best runs %s", number(r.Best/1000))
	}
	m.judge(&g)
	return g
}

func (m *goalMeter) path(g Goal, warm float64, qualities []Quality, lambdas []Lambda) Goal {
	g.Unit = "x"
	for _, q := range qualities {
		for _, lambda := range lambdas {
			p := Problem{Oracle: Path, Height: 12, Width: 12, Predictions: q, Lambda: lambda, Warm: warm}
			for _, r := range m.measure(p) {
				if r.Operation == "project" {
					g.add(fmt.Sprintf("%v %v:", q, lambda), r.Ratio)
				}
			}
		}
	}
	m.judge(&g)
	return g
}

func (m *goalMeter) trajectory() Goal {
	g := Goal{Name: "mean over a simulated training (no recorded one)", Must: 20, Want: 5, Unit: "x"}
	var results []Result
	if m.err == nil {
		results, m.err = MeasureTrajectory(m.ctx, 12, 12, m.seed, m.duration)
	}
	for _, r := range results {
		m.observe(r)
		g.Obtained = r.Ratio
		g.Parts = fmt.Sprintf("%.3g %% by the interior point method", 100*r.Interior)
	}
	m.judge(&g)
	return g
}

// knapsack covers an annealing of lambda to a tenth.
func (m *goalMeter) knapsack(operation string, must float64) Goal {
	g := Goal{Name: "knapsack of 50 items, " + operation, Must: must, Want: 0.6, Unit: "µs"}
	for _, divisor := range []float64{1, 3, 10} {
		lambda := Calibrated(divisor)
		for _, r := range m.measure(Problem{Oracle: Knapsack, Dim: 50, Predictions: Good, Lambda: lambda}) {
			if r.Operation == operation {
				g.add(lambda.String()+":", r.Nanoseconds/1000)
			}
		}
	}
	m.judge(&g)
	return g
}

// goal is that of other programs, NotMeasured without any.
func (p *Peers) goal() Goal {
	g := Goal{Name: "OSQP, PIQP, Clarabel on the same instances, equal accuracy", Must: 20, Want: 100, AtLeast: true, Unit: "x", Verdict: NotMeasured}
	if p == nil {
		return g
	}
	g.Obtained = math.Inf(1)
	least := math.Inf(1)
	for _, r := range p.Rows {
		if r.Judged {
			g.add(r.Case+" "+r.Solver+":", r.Ratio)
			least = math.Min(least, r.Ratio)
		}
	}
	if g.Obtained = least; math.IsInf(least, 1) {
		g.Obtained = 0
		return g
	}
	g.judge()
	return g
}
