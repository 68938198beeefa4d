// Package run defines what a training run leaves behind: the result, the
// metrics of every round, and the folder they are written to.
package run

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Regret is how much worse decisions are than the best possible ones.
type Regret struct {
	// Relative is mean regret over mean |z*|, as a fraction.
	Relative float64 `json:"relative_regret"`
	// Absolute is mean regret in units of the objective.
	Absolute float64 `json:"absolute_regret"`
	// Gap is the optimality gap, the mean of c.w*(ĉ)/z* - 1, as a fraction; 0
	// for tasks that are not judged by it.
	Gap float64 `json:"optimality_gap,omitempty"`
}

// Measure names, as JSON does, the number of a Regret in which a task's
// decisions are judged.
type Measure string

// The measures; task.Metric has the same names.
const (
	RelativeRegret Measure = "relative_regret"
	OptimalityGap  Measure = "optimality_gap"
	AbsoluteRegret Measure = "absolute_regret"
)

// Of returns the number that m names. The empty Measure stands for
// RelativeRegret.
func (m Measure) Of(r Regret) float64 {
	switch m {
	case OptimalityGap:
		return r.Gap
	case AbsoluteRegret:
		return r.Absolute
	}
	return r.Relative
}

// Title is the measure in words.
func (m Measure) Title() string {
	switch m {
	case OptimalityGap:
		return "optimality gap"
	case AbsoluteRegret:
		return "absolute regret"
	}
	return "relative regret"
}

// Unit is what people read the measure in, and how many of it are 1.
func (m Measure) Unit() (name string, per float64) {
	if m == AbsoluteRegret {
		return "", 1
	}
	return "%", 100
}

// add adds o to r, number by number.
func (r *Regret) add(o Regret) {
	r.Relative += o.Relative
	r.Absolute += o.Absolute
	r.Gap += o.Gap
}

// divide divides every number by n.
func (r *Regret) divide(n float64) {
	r.Relative /= n
	r.Absolute /= n
	r.Gap /= n
}

// text is r in an error.
func (r Regret) text() string {
	if r.Gap != 0 {
		return fmt.Sprintf("%v (relative), %v and the gap %v", r.Relative, r.Absolute, r.Gap)
	}
	return fmt.Sprintf("%v (relative) and %v", r.Relative, r.Absolute)
}

// ClientResult is one client's share of a stage's result, over its test
// samples.
type ClientResult struct {
	Client int `json:"client"`
	Regret
	// Lambda is the last λ the client was trained at; 0 for losses without λ.
	Lambda float64 `json:"lambda,omitempty"`
	// FrozenAfter is the round (from 0) after which the client's schedule
	// froze; nil when it did not, or where there is no freeze rule.
	FrozenAfter *int `json:"frozen_after_round,omitempty"`
	// Freeze is the freeze statistic Ũ after the last round trained; nil where
	// there is none.
	Freeze *float64 `json:"freeze_statistic,omitempty"`
	// Multiplier is the factor of ε chosen for the client by the OptNet-style
	// loss.
	Multiplier float64 `json:"multiplier,omitempty"`
	// Rho is the weight of the federated model in the client's prediction, if
	// that interpolates (Interp-DFFL).
	Rho *float64 `json:"rho,omitempty"`
	// Alignment is filled on demand.
	Alignment *Alignment `json:"alignment,omitempty"`
	// Validation is the regret over the validation samples, filled on demand.
	Validation *Regret `json:"validation,omitempty"`
}

// Alignment says how far the regularised decision P_λ(ĉ) is from the linear
// decision w*(ĉ) on test samples (paper, appendix C.6).
type Alignment struct {
	// Gap is Δ, the mean of |P_λ(ĉ) - w*(ĉ)|₂.
	Gap float64 `json:"gap"`
	// Decision is D: the gap over the mean of |w*(ĉ)|₂, in percent.
	Decision float64 `json:"decision_percent"`
	// Objective is O: the mean of |c·(P_λ(ĉ) - w*(ĉ))|/|z*|, in percent.
	Objective float64 `json:"objective_percent"`
}

// StageResult is the result of one stage for one seed. Its regret is the
// unweighted mean over clients.
type StageResult struct {
	Regret
	Clients []ClientResult `json:"clients,omitempty"`
}

// NewStageResult averages over clients.
func NewStageResult(clients []ClientResult) *StageResult {
	s := &StageResult{Clients: clients}
	for _, c := range clients {
		s.add(c.Regret)
	}
	s.divide(float64(len(clients)))
	return s
}

// SeedResult is the result of one seed. A stage that does not belong to the
// regime, or was not reached, is nil.
type SeedResult struct {
	Seed int64 `json:"seed"`
	// Data is the SHA-256 of the numbers the seed was trained and judged on;
	// empty where it is not known.
	Data     string       `json:"data_sha256,omitempty"`
	Fed      *StageResult `json:"fed"`
	Personal *StageResult `json:"personal"`
	// Constant is what equal costs everywhere lead to, for a sense of scale: the
	// test samples judged without a look at their features. Nil where the task
	// is not judged by OptimalityGap.
	Constant *StageResult `json:"constant_costs,omitempty"`
	// LocalEndpoint is Interp-DFFL's local models alone.
	LocalEndpoint *StageResult `json:"local_endpoint,omitempty"`
	// Steps counts gradient steps over all clients and rounds.
	Steps int `json:"steps,omitempty"`
	// LeftOut counts the updates that federated rounds went on without,
	// FailedRounds the rounds, and attempts at them, that left the model as it
	// was.
	LeftOut      int `json:"left_out,omitempty"`
	FailedRounds int `json:"failed_rounds,omitempty"`
	// Privacy is what the federated models cost; nil without noise.
	Privacy *Privacy `json:"privacy,omitempty"`
}

// Privacy is the differential privacy of the models of the federated stage, for
// a client (zero-out adjacency).
type Privacy struct {
	// Releases is the number of models made from clients' updates.
	Releases int `json:"releases"`
	// Epsilon and Delta are ε and δ of all of them together.
	Epsilon float64 `json:"epsilon"`
	Delta   float64 `json:"delta"`
}

// MeanResult is the mean over seeds of each stage.
type MeanResult struct {
	Fed      *Regret `json:"fed"`
	Personal *Regret `json:"personal"`
}

// Result is the result of one loss over one or more seeds.
type Result struct {
	Task string `json:"task"`
	Loss string `json:"loss"`
	// Metric is the task's: what tables show and models are chosen by.
	Metric Measure `json:"metric,omitempty"`
	// Complete is false when the run was interrupted: seeds or stages are
	// missing.
	Complete bool         `json:"complete"`
	Seeds    []SeedResult `json:"seeds"`
	Mean     MeanResult   `json:"mean"`
	// Steps counts the gradient steps of all seeds.
	Steps int `json:"steps"`
	// Tuning says how the learning rate was chosen, where it was.
	Tuning *Tuning `json:"tuning,omitempty"`
}

// Tuning is the choice of a learning rate on validation data.
type Tuning struct {
	// Rate is the chosen one: the candidate of least regret, the first of
	// equals.
	Rate       float64     `json:"rate"`
	Candidates []Candidate `json:"candidates"`
}

// Candidate is a learning rate that was tried.
type Candidate struct {
	Rate float64 `json:"rate"`
	// Regret is the mean over clients and seeds of the task's metric on
	// validation samples after the last stage.
	Regret float64 `json:"validation_metric"`
}

// Summarize fills Mean and Steps from Seeds.
func (r *Result) Summarize() {
	r.Steps = 0
	for _, s := range r.Seeds {
		r.Steps += s.Steps
	}
	r.Mean.Fed = meanRegret(r.Stages(false))
	r.Mean.Personal = meanRegret(r.Stages(true))
}

// Stages returns the finished federated (or centralised) stages, or the
// personal ones, in the order of Seeds.
func (r *Result) Stages(personal bool) []*StageResult {
	var out []*StageResult
	for _, s := range r.Seeds {
		stage := s.Fed
		if personal {
			stage = s.Personal
		}
		if stage != nil {
			out = append(out, stage)
		}
	}
	return out
}

// ErrData is wrapped by errors of SameRegrets about results of different data.
var ErrData = errors.New("the data differ")

// Adopt copies from the result of a training run what judging its models again
// does not recompute: steps, the choice of learning rates, and how each client
// was trained. What was measured on other samples than test samples is copied
// where the data are the same.
func (r *Result) Adopt(trained Result) {
	r.Tuning = trained.Tuning
	for i := range r.Seeds {
		s := &r.Seeds[i]
		k := slices.IndexFunc(trained.Seeds, func(t SeedResult) bool { return t.Seed == s.Seed })
		if k < 0 {
			continue
		}
		t := trained.Seeds[k]
		s.Steps = t.Steps
		s.LeftOut, s.FailedRounds, s.Privacy = t.LeftOut, t.FailedRounds, t.Privacy
		adoptStage(s.Fed, t.Fed, s.Data == t.Data)
		adoptStage(s.Personal, t.Personal, s.Data == t.Data)
		adoptStage(s.LocalEndpoint, t.LocalEndpoint, s.Data == t.Data)
	}
	r.Summarize()
}

func adoptStage(s, trained *StageResult, sameData bool) {
	if s == nil || trained == nil {
		return
	}
	for i := range s.Clients {
		c := &s.Clients[i]
		k := slices.IndexFunc(trained.Clients, func(t ClientResult) bool { return t.Client == c.Client })
		if k < 0 {
			continue
		}
		regret := c.Regret
		*c = trained.Clients[k]
		c.Regret = regret
		if !sameData {
			c.Alignment, c.Validation = nil, nil
		}
	}
}

// SameRegrets returns nil if got has the losses, seeds, stages and regrets of
// clients and stages of want, bit for bit, and else says where they first
// differ; if the data of a seed differ, that comes first and wraps ErrData. It
// also checks that the means and sums over seeds in want are those of its
// seeds. Seeds of want that got lacks are not compared: got may be a selection.
func SameRegrets(got, want []Result) error {
	for _, g := range got {
		i := slices.IndexFunc(want, func(w Result) bool { return w.Loss == g.Loss })
		if i < 0 {
			return fmt.Errorf("loss %s is missing", g.Loss)
		}
		if err := want[i].checkSummary(); err != nil {
			return fmt.Errorf("loss %s: %w", g.Loss, err)
		}
		for _, s := range g.Seeds {
			k := slices.IndexFunc(want[i].Seeds, func(w SeedResult) bool { return w.Seed == s.Seed })
			if k < 0 {
				return fmt.Errorf("loss %s: seed %d is missing", g.Loss, s.Seed)
			}
			w := want[i].Seeds[k]
			if s.Data != w.Data && s.Data != "" && w.Data != "" {
				return fmt.Errorf("loss %s, seed %d: %w: SHA-256 %.12s…, want %.12s…", g.Loss, s.Seed, ErrData, s.Data, w.Data)
			}
			for _, stage := range []struct {
				name      string
				got, want *StageResult
			}{{"fed", s.Fed, w.Fed}, {"personal", s.Personal, w.Personal}, {"local endpoint", s.LocalEndpoint, w.LocalEndpoint}, {"constant costs", s.Constant, w.Constant}} {
				if err := sameStage(stage.got, stage.want); err != nil {
					return fmt.Errorf("loss %s, seed %d, %s: %w", g.Loss, s.Seed, stage.name, err)
				}
			}
		}
	}
	return nil
}

func sameStage(got, want *StageResult) error {
	if (got == nil) != (want == nil) {
		return errors.New("a stage is missing")
	}
	if got == nil {
		return nil
	}
	if len(got.Clients) != len(want.Clients) {
		return fmt.Errorf("%d clients, want %d", len(got.Clients), len(want.Clients))
	}
	for i, c := range got.Clients {
		if w := want.Clients[i]; c.Client != w.Client || c.Regret != w.Regret {
			return fmt.Errorf("client %d has regret %s, the result says client %d has %s", c.Client, c.text(), w.Client, w.text())
		}
	}
	if got.Regret != want.Regret {
		return fmt.Errorf("mean regret %s, want %s", got.text(), want.text())
	}
	return nil
}

// checkSummary reports a mean or sum over seeds that is not that of the seeds.
func (r Result) checkSummary() error {
	again := r
	again.Summarize()
	for _, m := range []struct {
		stage      string
		is, should *Regret
	}{{"fed", r.Mean.Fed, again.Mean.Fed}, {"personal", r.Mean.Personal, again.Mean.Personal}} {
		if (m.is == nil) != (m.should == nil) {
			return fmt.Errorf("%s: the mean over seeds does not fit the stages of the seeds", m.stage)
		}
		if m.is != nil && *m.is != *m.should {
			return fmt.Errorf("%s: the mean regret over seeds is said to be %s, the seeds give %s", m.stage, m.is.text(), m.should.text())
		}
	}
	if r.Steps != again.Steps {
		return fmt.Errorf("%d steps in all, the seeds give %d", r.Steps, again.Steps)
	}
	return nil
}

func meanRegret(stages []*StageResult) *Regret {
	if len(stages) == 0 {
		return nil
	}
	var m Regret
	for _, s := range stages {
		m.add(s.Regret)
	}
	m.divide(float64(len(stages)))
	return &m
}

// MeanStd returns the mean and the sample standard deviation (n-1) of v; the
// deviation of a single number is 0.
func MeanStd(v []float64) (mean, std float64) {
	if len(v) == 0 {
		return math.NaN(), math.NaN()
	}
	for _, x := range v {
		mean += x
	}
	mean /= float64(len(v))
	if len(v) == 1 {
		return mean, 0
	}
	for _, x := range v {
		std += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(std / float64(len(v)-1))
}

// Metric is one line of metrics.jsonl: a round of the federated stage (Client
// is nil), or a round of one client. It holds no clock values, so that the
// file is the same for the same seed.
type Metric struct {
	Loss  string `json:"loss"`
	Seed  int64  `json:"seed"`
	Stage string `json:"stage"`
	// Round counts from 0 within the stage.
	Round  int  `json:"round"`
	Client *int `json:"client,omitempty"`
	// Active are the participants of a federated round, LeftOut those of them
	// whose update it went on without, Clipped the number whose update was scaled
	// down.
	Active  []int `json:"active,omitempty"`
	LeftOut []int `json:"left_out,omitempty"`
	Clipped int   `json:"clipped,omitempty"`
	// Failed says what became of a federated round that left the model as it
	// was: "skipped", or "retried" with other participants.
	Failed string `json:"failed,omitempty"`
	// Epsilon is ε that all models up to this round cost, where noise is added.
	Epsilon float64 `json:"epsilon,omitempty"`
	// TrainLoss is the mean training loss over the samples visited.
	TrainLoss float64 `json:"train_loss"`
	// Validation is the regret after the round on some validation samples of each
	// client, in a federated round the mean over clients; nil where it was not
	// measured.
	Validation *Regret `json:"validation,omitempty"`
	// Lambda and Rate were used in the round; in a federated round they are
	// means over all clients.
	Lambda *float64 `json:"lambda,omitempty"`
	Rate   float64  `json:"rate"`
	// Freeze is the statistic Ũ at this round's λ.
	Freeze *float64 `json:"freeze_statistic,omitempty"`
}
