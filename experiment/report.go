package experiment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"fedrspo/nn"
	"fedrspo/oracle"
	"fedrspo/report"
	"fedrspo/run"
	"fedrspo/task"
	"fedrspo/train"
)

// Shown names a test sample: the index is that of the client's test split.
type Shown struct{ Client, Sample int }

// ReportText is what a report takes from the command that makes it.
type ReportText struct {
	Title string
	// Table prints the results.
	Table func(io.Writer, []run.Result) error
}

// ErrShown is wrapped by errors about test samples that cannot be shown.
var ErrShown = errors.New("no such test sample")

// Report writes report.File and its pictures to the folder of a run of this
// setting, from what the run left there: version, timing, results, metrics and
// models. The decisions shown are those of the first seed that has models, on
// the given test samples, or, with none given, of three clients: those of least,
// median and greatest regret. Data that are not those of the run are an error
// that wraps run.ErrData: its results say nothing about them.
func (s Setting) Report(ctx context.Context, folder *run.Folder, show []Shown, text ReportText) error {
	p := report.Page{Title: text.Title, Task: s.Kind.Name, Data: s.dataText(), Stages: reportStages(s.Config.Regime), Names: map[int]string{}}
	var err error
	if p.Version, err = folder.Version(); err != nil {
		return err
	}
	if p.Timing, err = folder.Timing(); err != nil {
		return err
	}
	if p.Results, err = folder.Results(); err != nil {
		return err
	}
	// A run that was interrupted before its first round has no metrics.
	if p.Metrics, err = folder.Metrics(); err != nil && !(errors.Is(err, os.ErrNotExist) && !slices.ContainsFunc(p.Results, func(r run.Result) bool { return len(r.Seeds) > 0 })) {
		return err
	}
	var table strings.Builder
	if err := text.Table(&table, p.Results); err != nil {
		return err
	}
	p.Table = table.String()
	if Regularized(slices.Concat(s.Losses, s.PersonalLosses())) {
		p.Tau = s.Config.Personal.Tau
	}
	resolved := s.Resolved()
	for _, g := range FlagGroups {
		for _, name := range g.Names {
			if v, ok := resolved[name]; ok {
				p.Settings = append(p.Settings, report.Setting{Name: name, Value: fmt.Sprint(v)})
			}
		}
	}
	if err := s.decisions(ctx, folder, show, &p); err != nil {
		return err
	}
	return report.Write(folder, &p)
}

// dataText says where the data come from.
func (s Setting) dataText() string {
	if s.Data.Dir != "" {
		return s.Data.Dir
	}
	return "generated"
}

// reportStages lists the stages of a regime.
func reportStages(regime train.Regime) []report.Stage {
	switch regime {
	case train.Local:
		return []report.Stage{{Metrics: "local", Title: "local", Axis: "local training", Personal: true}}
	case train.Centralized:
		return []report.Stage{{Metrics: "centralized", Title: "centralized", Axis: "centralised training"}}
	}
	return []report.Stage{{Metrics: "federated", Title: "Fed", Axis: "federated stage"}, {Metrics: "personal", Title: "+P", Axis: "personalisation", Personal: true}}
}

// shownSamples is how many of a client's test samples the one to show is chosen
// from.
const shownSamples = 8

// candidate is a test sample that may be shown.
type candidate struct {
	Shown
	client *task.Client
	why    string
	// regret under the first method.
	regret float64
}

// decisions fills in the clients' names and the decisions to show, with the
// models of the last stage that has any.
func (s Setting) decisions(ctx context.Context, folder *run.Folder, show []Shown, p *report.Page) error {
	seed, stage, ok := lastStage(p)
	if !ok && len(show) > 0 {
		return fmt.Errorf("client %d, test sample %d: %s holds no model, for no stage was finished: %w", show[0].Client, show[0].Sample, folder.Path(), ErrShown)
	}
	if !ok {
		return nil
	}
	s.Seeds = []int64{seed}
	var shown []report.Decision
	var small *task.Task
	var candidates []candidate
	err := s.each(func(_ int, t *task.Task, cfg train.Config) error {
		result := stageOf(p.Results, cfg.Loss.Name(), seed, stage)
		if result == nil {
			return nil
		}
		if small == nil {
			if want := dataOf(p.Results, cfg.Loss.Name(), seed); want != "" && Fingerprint(t) != want {
				return fmt.Errorf("%s: the data it was made from are not these (%s): %w", folder.Path(run.ResultFile), s.dataText(), run.ErrData)
			}
			for _, c := range t.Clients {
				p.Names[c.ID] = c.Name
			}
			var err error
			if candidates, err = chooseCandidates(t, p.Results[0].Metric, result, show); err != nil {
				return err
			}
			small = candidateTask(t, candidates)
			shown = make([]report.Decision, len(candidates))
			for i, c := range candidates {
				if shown[i], err = newDecision(c); err != nil {
					return err
				}
			}
		}
		return decide(ctx, folder, cfg, small, stage, result, candidates, shown)
	})
	if err != nil {
		return err
	}
	if len(show) == 0 {
		shown = medianSamples(candidates, shown)
	}
	p.Decisions = shown
	return nil
}

// lastStage is the first seed that has results, and its last stage.
func lastStage(p *report.Page) (seed int64, stage string, ok bool) {
	for _, r := range p.Results {
		for _, s := range r.Seeds {
			switch {
			case s.Personal != nil:
				return s.Seed, train.StagePersonal, true
			case s.Fed != nil:
				return s.Seed, train.StageFed, true
			}
		}
	}
	return 0, "", false
}

// dataOf is the fingerprint of the data of a method's seed, empty if it was not
// noted.
func dataOf(results []run.Result, loss string, seed int64) string {
	for _, r := range results {
		for _, s := range r.Seeds {
			if r.Loss == loss && s.Seed == seed {
				return s.Data
			}
		}
	}
	return ""
}

func stageOf(results []run.Result, loss string, seed int64, stage string) *run.StageResult {
	for _, r := range results {
		for _, s := range r.Seeds {
			if r.Loss == loss && s.Seed == seed {
				if stage == train.StagePersonal {
					return s.Personal
				}
				return s.Fed
			}
		}
	}
	return nil
}

// chooseCandidates checks the samples asked for or, without any, lists the first
// test samples of the clients of least, median and greatest regret.
func chooseCandidates(t *task.Task, metric run.Measure, result *run.StageResult, show []Shown) ([]candidate, error) {
	byID := map[int]*task.Client{}
	for _, c := range t.Clients {
		byID[c.ID] = c
	}
	var out []candidate
	for _, s := range show {
		c := byID[s.Client]
		switch {
		case c == nil:
			return nil, fmt.Errorf("client %d: the task has no such client: %w", s.Client, ErrShown)
		case s.Sample < 0 || s.Sample >= c.Test.Len():
			return nil, fmt.Errorf("client %d has the test samples 0 to %d, not %d: %w", s.Client, c.Test.Len()-1, s.Sample, ErrShown)
		}
		out = append(out, candidate{Shown: s, client: c, why: "asked for"})
	}
	if len(show) > 0 {
		return out, nil
	}
	ranked := slices.Clone(result.Clients)
	slices.SortStableFunc(ranked, func(a, b run.ClientResult) int { return cmp.Compare(metric.Of(a.Regret), metric.Of(b.Regret)) })
	n := len(ranked)
	for k, why := range []string{"client of least regret", "client of median regret", "client of greatest regret"} {
		at := []int{0, n / 2, n - 1}[k]
		if k == 1 && n < 3 || k == 2 && n < 2 {
			continue
		}
		c := byID[ranked[at].Client]
		if c == nil {
			return nil, fmt.Errorf("client %d of the results: the task has no such client: %w", ranked[at].Client, ErrShown)
		}
		for i := range min(shownSamples, c.Test.Len()) {
			out = append(out, candidate{Shown: Shown{c.ID, i}, client: c, why: why})
		}
	}
	return out, nil
}

// candidateTask is t with the candidates as its test samples, client by client
// in the order of the task, and without others.
func candidateTask(t *task.Task, candidates []candidate) *task.Task {
	small := *t
	small.Clients = nil
	for _, c := range t.Clients {
		var rows []int
		for _, k := range candidates {
			if k.Client == c.ID {
				rows = append(rows, k.Sample)
			}
		}
		if len(rows) > 0 {
			small.Clients = append(small.Clients, &task.Client{ID: c.ID, Name: c.Name, Polytope: c.Polytope, Train: c.Train, Test: task.Select(c.Test, rows)})
		}
	}
	return &small
}

// newDecision solves a candidate's true problem.
func newDecision(c candidate) (report.Decision, error) {
	d := report.Decision{Client: c.Client, Sample: c.Sample, Why: c.why, View: c.client.View, Cost: c.client.Test.C.Row(c.Sample)}
	d.Optimal = make([]float64, len(d.Cost))
	var err error
	if d.Optimum, err = oracle.NewSolver(c.client.Polytope).Minimize(d.Optimal, d.Cost); err != nil {
		err = fmt.Errorf("client %d, test sample %d: %w", c.Client, c.Sample, err)
	}
	return d, err
}

// decide adds what the saved models of a method decide on the candidates.
func decide(ctx context.Context, folder *run.Folder, cfg train.Config, small *task.Task, stage string, result *run.StageResult, candidates []candidate, shown []report.Decision) error {
	loss := cfg.Loss.Name()
	name := folder.Path(run.ModelFile(loss, cfg.Seed, stage))
	data, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	models, err := nn.ReadCheckpoint(data, cfg.Model.Layout())
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	// at finds the candidates of a client in the order of its small split.
	at := map[int][]int{}
	for i, c := range candidates {
		at[c.Client] = append(at[c.Client], i)
	}
	lambda := map[int]float64{}
	for _, c := range result.Clients {
		lambda[c.Client] = c.Lambda
	}
	cfg.Batch = min(cfg.Batch, len(candidates))
	solvers := map[int]*oracle.Solver{}
	_, err = train.Evaluate(ctx, cfg, small, models, func(c *task.Client, d train.Decision) error {
		i := at[c.ID][d.Sample]
		out := &shown[i]
		m := report.Decided{Loss: loss, Chat: slices.Clone(d.Chat), W: slices.Clone(d.W), Cost: d.Cost}
		if len(out.Methods) == 0 {
			candidates[i].regret = d.Cost - d.Optimum
		}
		if m.Lambda = lambda[c.ID]; m.Lambda > 0 {
			s := solvers[c.ID]
			if s == nil {
				s = oracle.NewSolver(c.Polytope)
				solvers[c.ID] = s
			}
			if s.Projector != nil {
				m.Regularized = make([]float64, len(d.Chat))
				if err := s.Regularize(m.Regularized, d.Chat, m.Lambda, nil); err != nil {
					return fmt.Errorf("client %d, lambda %g: %w", c.ID, m.Lambda, err)
				}
				for k, w := range m.Regularized {
					m.RegularizedCost += out.Cost[k] * w
				}
				if out.Regularized == nil {
					out.Regularized, out.Lambda = make([]float64, len(d.Chat)), m.Lambda
					if err := s.Regularize(out.Regularized, out.Cost, m.Lambda, nil); err != nil {
						return fmt.Errorf("client %d, lambda %g: %w", c.ID, m.Lambda, err)
					}
				}
			}
		}
		out.Methods = append(out.Methods, m)
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// medianSamples keeps, of every client's candidates, the one of median regret.
func medianSamples(candidates []candidate, shown []report.Decision) []report.Decision {
	var out []report.Decision
	for lo := 0; lo < len(candidates); {
		hi := lo
		for hi < len(candidates) && candidates[hi].Client == candidates[lo].Client {
			hi++
		}
		order := make([]int, hi-lo)
		for k := range order {
			order[k] = lo + k
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(candidates[a].regret, candidates[b].regret) })
		d := shown[order[len(order)/2]]
		d.Why = fmt.Sprintf("%s; of its first %d test samples the one of median regret, both by %s", d.Why, hi-lo, d.Methods[0].Loss)
		out = append(out, d)
		lo = hi
	}
	return out
}

// ParseShown reads CLIENT:SAMPLE.
func ParseShown(text string) (s Shown, err error) {
	_, err = fmt.Sscanf(text, "%d:%d", &s.Client, &s.Sample)
	if err != nil || text != strconv.Itoa(s.Client)+":"+strconv.Itoa(s.Sample) {
		return s, fmt.Errorf("%q, want client:sample, as in 3:17", text)
	}
	return s, nil
}

// WithAbsolutePaths returns s with the path of its dataset made absolute, so that
// it means the same in every working directory.
func (s Setting) WithAbsolutePaths() (Setting, error) {
	if s.Data.Dir == "" {
		return s, nil
	}
	dir, err := filepath.Abs(s.Data.Dir)
	if err != nil {
		return s, err
	}
	if s.checked != nil && s.checked.data.Dir == s.Data.Dir {
		c := *s.checked
		c.data.Dir = dir
		s.checked = &c
	}
	s.Data.Dir = dir
	return s, nil
}
