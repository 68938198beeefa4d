package train

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"fedrspo/nn"
	"fedrspo/run"
	"fedrspo/surrogate"
	"fedrspo/task"
)

// methodLosses are all kinds of losses: plain, regularised, perturbed, tuned.
var methodLosses = []surrogate.Loss{surrogate.MSE{}, surrogate.SPOPlus{}, surrogate.RSPOPlus{}, surrogate.PFYL{}, surrogate.DPO{}, surrogate.OptNet{}}

// method is a way to train that the paper compares with.
type method struct {
	name   string
	regime Regime
	change func(*Config)
}

var methods = []method{
	{"finetune", Federated, func(*Config) {}},
	{"fedprox", Federated, func(c *Config) { c.Prox = 1 }},
	{"ditto", Federated, func(c *Config) { c.Personalizer = Ditto{Mu: 1} }},
	{"ditto interleaved", Federated, func(c *Config) {
		c.Personalizer, c.Personal.Rounds, c.Fed.Fraction = Ditto{Mu: 0.5, Interleaved: true}, c.Fed.Rounds, 0.5
	}},
	{"interp", Federated, func(c *Config) { c.Personalizer = Interp{} }},
	{"interp by prediction", Federated, func(c *Config) { c.Personalizer = Interp{ByPrediction: true} }},
	{"fedprox, ditto, annealed", Federated, func(c *Config) {
		anneal(c)
		c.Prox, c.Personalizer = 0.3, Ditto{Mu: 2}
	}},
	{"ditto interleaved, annealed", Federated, func(c *Config) {
		anneal(c)
		c.Fed.Rounds, c.Personalizer = c.Personal.Rounds, Ditto{Mu: 1, Interleaved: true}
	}},
	{"interp, annealed", Federated, func(c *Config) { anneal(c); c.Personalizer = Interp{} }},
	{"then spo+", Federated, func(c *Config) { anneal(c); c.PersonalLoss = surrogate.SPOPlus{} }},
	{"then rspo+", Federated, func(c *Config) { anneal(c); c.PersonalLoss = surrogate.RSPOPlus{} }},
	{"then optnet, averaged", Federated, func(c *Config) { c.PersonalLoss, c.Calibration.Averaged = surrogate.OptNet{}, true }},
	{"scaled rates", Federated, func(c *Config) { c.Rates, c.FixedRate, c.AlignmentMeanLambda = RateScaled, 0.01, true }},
	{"local", Local, anneal},
	{"centralised", Centralized, func(*Config) {}},
	{"centralised, single", Centralized, func(c *Config) { c.SinglePooled = true }},
	{"centralised, single, annealed, matched", Centralized, func(c *Config) { anneal(c); c.SinglePooled, c.Rates = true, RateMatched }},
}

// config sets a configuration up for the method.
func (m method) config(tk *task.Task, l surrogate.Loss) Config {
	cfg := linearConfig(tk, l, m.regime)
	cfg.Alignment, cfg.Validation, cfg.Multipliers = true, true, []float64{0.5, 0.05, 0.2}
	m.change(&cfg)
	return cfg
}

// short is config with three rounds a stage.
func (m method) short(tk *task.Task, l surrogate.Loss) Config {
	cfg := m.config(tk, l)
	cfg.Fed.Rounds, cfg.Personal.Rounds = 3, 3
	return cfg
}

// fits says whether the twin knows the method with this loss: it trains
// interleaved personal models beside the federated stage, in one pass, without
// candidates.
func (m method) fits(l surrogate.Loss) bool {
	return l.Name() != "optnet" || !strings.Contains(m.name, "interleaved")
}

// TestMethods compares whole runs with the twin, for every loss: the federated
// baselines (FedProx, Li et al. 2020; Ditto, Li et al. 2021; Interp-DFFL; PFYL,
// DPO, OptNet-style; paper, section 4 and appendix C) and both readings of
// centralised training, with their schedules, rates, λ, regrets, alignment
// (appendix C.6) and validation regrets.
func TestMethods(t *testing.T) {
	tk := threeClients()
	for _, m := range methods {
		t.Run(m.name, func(t *testing.T) {
			for _, l := range methodLosses {
				t.Run(l.Name(), func(t *testing.T) {
					if !m.fits(l) {
						t.Skip("not in the twin")
					}
					cfg := m.config(tk, l)
					r := execute(t, cfg, tk)
					runTwin(cfg, tk, r).compare(t, r)
				})
			}
		})
	}
}

// TestMethodsWorkersDoNotMatter: the state of a run is the same, bit for bit,
// with any number of workers.
func TestMethodsWorkersDoNotMatter(t *testing.T) {
	tk := fiveClients()
	for _, m := range methods {
		t.Run(m.name, func(t *testing.T) {
			for _, l := range []surrogate.Loss{surrogate.RSPOPlus{}, surrogate.DPO{}, surrogate.OptNet{}} {
				cfg := m.short(tk, l)
				want := ""
				for _, workers := range []int{1, 2, 8} {
					cfg.Workers = workers
					got := marshal(t, execute(t, cfg, tk).State())
					if want == "" {
						want = got
					} else if got != want {
						t.Errorf("%s, %d workers: another state", l.Name(), workers)
					}
				}
			}
		})
	}
}

// TestProxIsAPull: μ = 0 is FedAvg bit for bit, personalisation is FedProx's
// without any term, and a large μ keeps the models near where they started (Li
// et al. 2020, section 3).
func TestProxIsAPull(t *testing.T) {
	tk := threeClients()
	cfg := linearConfig(tk, surrogate.RSPOPlus{}, Federated)
	cfg.Fed.Rounds = 1
	moved := func(mu float64) float64 {
		cfg.Prox = mu
		s := execute(t, cfg, tk).State()
		sum := 0.0
		for k, x := range s.Server.Model {
			sum += (x - s.Initial[k]) * (x - s.Initial[k])
		}
		return math.Sqrt(sum)
	}
	// Twelve Adam steps of one rate move every parameter as far as they can
	// where the gradient keeps its sign; the pull makes it turn.
	cfg.Fed.Epochs = 12
	free, pulled := moved(0), moved(1000)
	if !(pulled < free/2) {
		t.Errorf("moved by %v without the term, by %v with it", free, pulled)
	}
	cfg.Prox = 0
	a, again := execute(t, cfg, tk), cfg
	again.Prox = math.Copysign(0, -1)
	if marshal(t, a.State()) != marshal(t, execute(t, again, tk).State()) {
		t.Error("mu = 0 is not FedAvg")
	}
}

// TestInterleavedDittoLeavesTheGlobalModelAlone: the federated stage is bit for
// bit that of a plain run; each round's reference is the model it started from;
// a client that never takes part keeps the initial model and has no rounds (Li
// et al. 2021, algorithm 1).
func TestInterleavedDittoLeavesTheGlobalModelAlone(t *testing.T) {
	tk := threeClients()
	for _, l := range methodLosses {
		cfg := methods[0].config(tk, l)
		cfg.Fed.Rounds, cfg.Personal.Rounds, cfg.Fed.Fraction = 2, 2, 0.3 // one client a round
		plain := execute(t, cfg, tk).State()
		if plain.History != nil {
			t.Errorf("%s: a plain run keeps its history", l.Name())
		}
		cfg.Personalizer = Ditto{Mu: 1, Interleaved: true}
		var last Progress
		r, err := New(cfg, tk, func(p Progress) { last.Done, last.Total = max(last.Done, p.Done), p.Total })
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Execute(ctx); err != nil {
			t.Fatal(err)
		}
		s := r.State()
		if last.Done != last.Total {
			t.Errorf("%s: progress ends at %+v", l.Name(), last)
		}
		if !slices.Equal(s.Server.Model, plain.Server.Model) || marshal(t, s.FedMetrics) != marshal(t, plain.FedMetrics) || marshal(t, s.Fed) != marshal(t, plain.Fed) {
			t.Errorf("%s: another federated stage than without Ditto", l.Name())
		}
		rounds := map[int]int{}
		if len(s.History) != 2 || !slices.Equal(s.History[0].Model, s.Initial) || slices.Equal(s.History[1].Model, s.Initial) || slices.Equal(s.History[1].Model, s.Server.Model) {
			t.Errorf("%s: history %+v", l.Name(), s.History)
		}
		for k, plan := range s.History {
			if !slices.Equal(plan.Participants, s.FedMetrics[k].Active) {
				t.Errorf("%s: round %d has participants %v in the history, %v in the metrics", l.Name(), k, plan.Participants, s.FedMetrics[k].Active)
			}
			for _, id := range plan.Participants {
				rounds[id]++
			}
		}
		idle := 0
		for j, c := range s.Clients {
			if n := rounds[tk.Clients[j].ID]; len(c.Metrics) != n {
				t.Errorf("%s: client %d has %d personal rounds and %d federated ones", l.Name(), j, len(c.Metrics), n)
			} else if n == 0 {
				idle++
				if !slices.Equal(c.Model, s.Initial) || c.Steps != 0 || c.Schedule.Step != 0 {
					t.Errorf("%s: client %d never took part, and has moved", l.Name(), j)
				}
			}
		}
		if idle == 0 {
			t.Errorf("%s: every client took part: the case shows little", l.Name())
		}
	}
}

// TestInterpEndpoints: at ρ = 1 a client predicts as the federated model, at
// ρ = 0 as its local one, bit for bit. That local model comes from the initial
// one by the rounds of the local regime, in another order of samples: with
// whole-batch steps the two agree.
func TestInterpEndpoints(t *testing.T) {
	tk := threeClients()
	cfg := linearConfig(tk, surrogate.SPOPlus{}, Federated)
	cfg.Batch, cfg.Personalizer = 9, Interp{}
	r := execute(t, cfg, tk)
	models, _ := r.Models(StagePersonal)
	for _, c := range []struct {
		rho  string
		want *run.StageResult
	}{{"1", r.Result().Fed}, {"0", r.Result().LocalEndpoint}} {
		for _, client := range tk.Clients {
			models.Meta["rho."+clientKey(client.ID)] = c.rho
		}
		got, err := Evaluate(ctx, cfg, tk, models, nil)
		if err != nil {
			t.Fatal(err)
		}
		for i := range got.Clients {
			if got.Clients[i].Regret != c.want.Clients[i].Regret {
				t.Errorf("ρ = %s: client %d has regret %+v, want %+v", c.rho, i, got.Clients[i].Regret, c.want.Clients[i].Regret)
			}
		}
	}
	alone := linearConfig(tk, surrogate.SPOPlus{}, Local)
	alone.Batch = cfg.Batch
	for i, c := range execute(t, alone, tk).State().Clients {
		sameVector(t, fmt.Sprintf("local model %d", i), r.State().Clients[i].Model, c.Model, twinTolerance)
	}
}

// TestInterpChoosesFirstOfEquals: ρ is the first minimiser over the grid of the
// mean SPO+ loss, or of the squared error.
func TestInterpChoosesFirstOfEquals(t *testing.T) {
	tk := threeClients()
	cfg := linearConfig(tk, surrogate.SPOPlus{}, Federated)
	w, err := newWorker(&cfg, 1, trains)
	if err != nil {
		t.Fatal(err)
	}
	defer w.session.Close()
	c := tk.Clients[0]
	theta := []float64{1, -2, 0.5, 1, -1, 3}
	scaled := func(s float64) []float64 {
		out := make([]float64, len(theta))
		for k, x := range theta {
			out[k] = s * x
		}
		return out
	}
	// Costs that theta predicts exactly.
	m := c.Val.C
	for i := range m.Len() {
		x := features(c.Val, i, tk.In)
		for k := range m.Cols {
			m.Row(i)[k] = dot(theta[k*tk.In:(k+1)*tk.In], x)
		}
	}
	for _, s := range []struct {
		by            Interp
		local, global float64
		want          float64
	}{
		{Interp{}, 1, 2, 0}, {Interp{}, 2, 1, 0}, // every mixture decides as c does: loss 0
		{Interp{}, 0, 0, 0}, {Interp{ByPrediction: true}, 0, 0, 0}, // one prediction
		{Interp{ByPrediction: true}, 1, -1, 0}, {Interp{ByPrediction: true}, -1, 1, 1}, // one is exact
		{Interp{ByPrediction: true}, 0, 2, 0.5}, {Interp{ByPrediction: true}, 0, 4, 0.25}, // their mixture is
		// 2ĉ-c has the sign of c from ĉ > c/2 on: loss 0 from ρ > 3/4 on.
		{Interp{}, 1, -1, 0}, {Interp{}, -1, 1, 0.8},
	} {
		if rho, err := s.by.choose(ctx, w, c, scaled(s.local), scaled(s.global)); err != nil || rho != s.want {
			t.Errorf("%+v, models of %v and %v times the truth: ρ = %v, want %v (error %v)", s.by, s.local, s.global, rho, s.want, err)
		}
	}
}

// TestSelectionNeverSeesTestData: other test costs and features change neither
// ρ nor m nor any model, and validation samples beyond the first eight do not
// change the choice of m (paper, appendix C).
func TestSelectionNeverSeesTestData(t *testing.T) {
	long := func() *task.Task {
		return toyTask(31, 2, clientSpec{1, 7, 11, 4, mustKnapsack(1.2, 0.6, 1.1, 0.9)}, clientSpec{2, 8, 10, 3, mustTopK(3, 1)})
	}
	spoil := func(s task.Split, from int) {
		for i := from; i < s.Len(); i++ {
			for k := range s.C.Row(i) {
				s.C.Row(i)[k] = float64(100 * ((i+k)%3 - 1))
			}
			for k := range s.X.(task.Matrix).Row(i) {
				s.X.(task.Matrix).Row(i)[k] *= -50
			}
		}
	}
	for _, m := range methods {
		for _, l := range methodLosses {
			clean, poisoned := long(), long()
			for _, c := range poisoned.Clients {
				spoil(c.Test, 0)
				if l.Name() == "optnet" && !strings.Contains(m.name, "interp") && !strings.Contains(m.name, "rspo+") {
					spoil(c.Val, 8)
				}
			}
			a, b := execute(t, m.short(clean, l), clean), execute(t, m.short(poisoned, l), poisoned)
			if marshal(t, a.State().Clients) != marshal(t, b.State().Clients) || marshal(t, a.State().Server) != marshal(t, b.State().Server) || marshal(t, a.Metrics()) != marshal(t, b.Metrics()) {
				t.Errorf("%s, %s: training looks at test data", m.name, l.Name())
			}
			stage := func(r *Run) *run.StageResult {
				if r.Result().Personal != nil {
					return r.Result().Personal
				}
				return r.Result().Fed
			}
			if marshal(t, stage(a)) == marshal(t, stage(b)) {
				t.Errorf("%s, %s: the case shows nothing", m.name, l.Name())
			}
		}
	}
}

// TestOptNetTuning: every candidate is trained from the same seed, the one of
// least validation regret is kept, by the whole federation and then by each
// client, the first of equals; steps count all of them.
func TestOptNetTuning(t *testing.T) {
	tk := threeClients()
	multipliers := []float64{0.5, 0.02, 0.1}
	cfg := linearConfig(tk, surrogate.OptNet{}, Federated)
	cfg.Multipliers = multipliers
	all := execute(t, cfg, tk)
	var steps int
	var alone []*Run
	best, bestRegret := -1, math.Inf(1)
	for k, m := range multipliers {
		cfg.Multipliers = []float64{m}
		cfg.Validation = true
		r := execute(t, cfg, tk)
		alone, steps = append(alone, r), steps+r.State().FedSteps
		// Fewer than eight samples: validation regret is selection regret.
		mean := 0.0
		for _, c := range r.Result().Fed.Clients {
			mean += c.Validation.Relative / float64(len(tk.Clients))
		}
		if mean < bestRegret {
			best, bestRegret = k, mean
		}
	}
	s := all.State()
	if s.FedMultiplier != multipliers[best] || !slices.Equal(s.Server.Model, alone[best].State().Server.Model) {
		t.Errorf("federated multiplier %v, want %v and the model it gives alone", s.FedMultiplier, multipliers[best])
	}
	if s.FedSteps != steps || all.Result().Steps != steps+3*alone[0].State().totalPersonalSteps() {
		t.Errorf("%d federated steps of %d, want %d of %d", s.FedSteps, all.Result().Steps, steps, steps+3*alone[0].State().totalPersonalSteps())
	}

	// Without validation data all candidates are equal.
	blind := toyTask(11, 2, clientSpec{3, 6, 0, 4, mustKnapsack(1.2, 0.6, 1.1, 0.9)}, clientSpec{8, 9, 0, 5, mustTopK(3, 1)})
	cfg.Multipliers = multipliers
	single := cfg
	single.Regime, single.SinglePooled = Centralized, true
	for _, c := range []Config{cfg, single} {
		s = execute(t, c, blind).State()
		if c.Regime == Federated && s.FedMultiplier != multipliers[0] || s.Clients[0].Multiplier != multipliers[0] || s.Clients[1].Multiplier != multipliers[0] {
			t.Errorf("%s: of equal candidates, m = %v, %v and %v are chosen", c.Regime, s.FedMultiplier, s.Clients[0].Multiplier, s.Clients[1].Multiplier)
		}
	}

	// Clients without validation data do not count in the mean.
	half := threeClients()
	half.Clients[2].Val = task.Split{}
	for _, c := range []Config{cfg, single} {
		r := execute(t, c, half)
		runTwin(c, half, r).compare(t, r)
	}
}

func (s *State) totalPersonalSteps() int {
	n := 0
	for _, c := range s.Clients {
		n += c.Steps
	}
	return n
}

// TestSinglePooledUsesOwnersSets: with one owner per set, the pooled model
// depends on each set, and with a single client it is the local regime's model.
func TestSinglePooledUsesOwnersSets(t *testing.T) {
	for _, l := range []surrogate.Loss{surrogate.SPOPlus{}, surrogate.RSPOPlus{}, surrogate.OptNet{}} {
		cfg := method{"", Centralized, func(c *Config) { c.SinglePooled = true }}.config(threeClients(), l)
		want := execute(t, cfg, threeClients()).State().Clients[0].Model
		for k := range 3 {
			tk := threeClients()
			tk.Clients[k].Polytope = mustTopK(3, 2)
			s := execute(t, cfg, tk).State()
			if slices.Equal(s.Clients[0].Model, want) {
				t.Errorf("%s: the set of client %d does not matter", l.Name(), k)
			}
			for j := range s.Clients {
				if !slices.Equal(s.Clients[j].Model, s.Clients[0].Model) {
					t.Errorf("%s: more than one model", l.Name())
				}
			}
		}
	}
}

// TestSinglePooledProgress ends at its total, also when the schedule stops.
func TestSinglePooledProgress(t *testing.T) {
	tk := threeClients()
	for _, l := range methodLosses {
		cfg := method{"", Centralized, func(c *Config) { anneal(c); c.SinglePooled, c.Personal.Tau = true, 0.2 }}.config(tk, l)
		var last Progress
		r, err := New(cfg, tk, func(p Progress) { last = p })
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Execute(ctx); err != nil {
			t.Fatal(err)
		}
		if l.Regularized() && len(r.State().FedMetrics) == cfg.Personal.Rounds {
			t.Error("no early stop: the case shows nothing")
		}
		if last.Done != last.Total {
			t.Errorf("%s: progress ends at %d of %d", l.Name(), last.Done, last.Total)
		}
	}
}

// TestNoTrainingDataAnywhere: with nothing to train on, centralised models stay
// the initial one.
func TestNoTrainingDataAnywhere(t *testing.T) {
	tk := toyTask(12, 2, clientSpec{1, 0, 2, 3, mustTopK(3, 1)}, clientSpec{2, 0, 2, 3, mustTopK(3, 2)})
	for _, single := range []bool{false, true} {
		for _, l := range methodLosses {
			cfg := method{"", Centralized, func(c *Config) { c.SinglePooled = single }}.config(tk, l)
			s := execute(t, cfg, tk).State()
			marshal(t, s)
			if !slices.Equal(s.Clients[1].Model, s.Initial) {
				t.Errorf("%s: trained on nothing", l.Name())
			}
		}
	}
}

// TestMethodCheckpoints: the models of every method, saved and loaded, give the
// regrets of the run, bit for bit, ρ included.
func TestMethodCheckpoints(t *testing.T) {
	tk := threeClients()
	for _, m := range methods {
		for _, precision := range []nn.Precision{nn.Float64, nn.Float32} {
			cfg := m.config(tk, surrogate.SPOPlus{})
			cfg.Precision = precision
			r := execute(t, cfg, tk)
			for stage, want := range map[string]*run.StageResult{StageFed: r.Result().Fed, StagePersonal: r.Result().Personal} {
				models, ok := r.Models(stage)
				if !ok {
					continue
				}
				var file bytes.Buffer
				if err := models.Write(&file, r.Layout()); err != nil {
					t.Fatal(err)
				}
				saved, err := nn.ReadCheckpoint(file.Bytes(), r.Layout())
				if err != nil {
					t.Fatal(err)
				}
				got, err := Evaluate(ctx, cfg, tk, saved, nil)
				if err != nil {
					t.Fatal(err)
				}
				for i, c := range got.Clients {
					if c.Regret != want.Clients[i].Regret {
						t.Errorf("%s, stage %s: client %d has regret %+v, the run %+v", m.name, stage, c.Client, c.Regret, want.Clients[i].Regret)
					}
				}
				if _, interp := cfg.Personalizer.(Interp); (saved.Meta["rho.client.8"] != "") != (interp && stage == StagePersonal) || (saved.Models["global"] != nil) != (interp && stage == StagePersonal) {
					t.Errorf("%s, stage %s: metadata %v", m.name, stage, saved.Meta)
				}
			}
		}
	}
}

// TestInterpCheckpointRefused: a weight that is none, or without the global
// model it weighs.
func TestInterpCheckpointRefused(t *testing.T) {
	tk := threeClients()
	cfg := linearConfig(tk, surrogate.SPOPlus{}, Federated)
	cfg.Personalizer = Interp{}
	models, _ := execute(t, cfg, tk).Models(StagePersonal)
	for _, text := range []string{"1.5", "-0.1", "NaN", "", "a"} {
		models.Meta["rho.client.8"] = text
		if _, err := Evaluate(ctx, cfg, tk, models, nil); err == nil || !strings.Contains(err.Error(), "client 8: the checkpoint's weight rho.client.8") {
			t.Errorf("ρ = %q: got error %v", text, err)
		}
	}
	models.Meta["rho.client.8"] = "0.5"
	global := models.Models["global"]
	models.Models["global"] = global[1:]
	if _, err := Evaluate(ctx, cfg, tk, models, nil); err == nil || !strings.Contains(err.Error(), "want 6") {
		t.Errorf("a short global model: got error %v", err)
	}
	delete(models.Models, "global")
	if _, err := Evaluate(ctx, cfg, tk, models, nil); err == nil || !strings.Contains(err.Error(), `no model "global"`) {
		t.Errorf("no global model: got error %v", err)
	}
}

// TestMethodsValidate: settings of methods that have no meaning, or would be
// ignored, are refused with ErrConfig; a client without calibration data with
// its number.
func TestMethodsValidate(t *testing.T) {
	tk := threeClients()
	for name, change := range map[string]func(*Config){
		"prox":                 func(c *Config) { c.Prox = -1 },
		"prox NaN":             func(c *Config) { c.Prox = math.NaN() },
		"prox alone":           func(c *Config) { c.Regime, c.Prox = Local, 1 },
		"personal loss alone":  func(c *Config) { c.Regime, c.PersonalLoss = Local, surrogate.MSE{} },
		"ditto centralised":    func(c *Config) { c.Regime, c.Personalizer = Centralized, Ditto{Mu: 1} },
		"single federated":     func(c *Config) { c.SinglePooled = true },
		"ditto mu":             func(c *Config) { c.Personalizer = Ditto{} },
		"ditto mu infinite":    func(c *Config) { c.Personalizer = Ditto{Mu: math.Inf(1)} },
		"interleaved rounds":   func(c *Config) { c.Personalizer = Ditto{Mu: 1, Interleaved: true} },
		"optnet":               func(c *Config) { c.Loss = surrogate.OptNet{} },
		"optnet multipliers":   func(c *Config) { c.PersonalLoss, c.Multipliers = surrogate.OptNet{}, []float64{0.1, 0} },
		"perturbation":         func(c *Config) { c.Loss = surrogate.PFYL{Perturbation: surrogate.Perturbation{Samples: -1}} },
		"personal pertubation": func(c *Config) { c.PersonalLoss = surrogate.DPO{Perturbation: surrogate.Perturbation{Epsilon: -1}} },
	} {
		cfg := testConfig(tk, surrogate.MSE{}, Federated)
		change(&cfg)
		if _, err := New(cfg, tk, nil); !errors.Is(err, ErrConfig) {
			t.Errorf("%s: got error %v, want ErrConfig", name, err)
		}
	}
	cfg := testConfig(tk, surrogate.SPOPlus{}, Federated)
	cfg.Personalizer = Interp{}
	tk.Clients[1].Val = task.Split{}
	r, err := New(cfg, tk, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Execute(ctx); err == nil || !strings.Contains(err.Error(), "client 8: interp: no validation samples") {
		t.Errorf("interp without validation data: got error %v", err)
	}
}
