package train

import (
	"slices"
	"testing"

	"fedrspo/nn"
	"fedrspo/surrogate"
	"fedrspo/task"
)

// threeClients is a task of three unequal clients.
func threeClients() *task.Task {
	return toyTask(11, 2,
		clientSpec{3, 6, 3, 4, mustKnapsack(1.2, 0.6, 1.1, 0.9)},
		clientSpec{8, 9, 2, 5, mustTopK(3, 1)},
		clientSpec{9, 2, 4, 3, mustKnapsack(2, 1.3, 0.7, 1)})
}

// linearConfig trains bias-free linear predictors, as the twin does.
func linearConfig(tk *task.Task, l surrogate.Loss, regime Regime) Config {
	cfg := testConfig(tk, l, regime)
	cfg.Model = nn.NewLinear(tk.In, tk.Out)
	cfg.Fed.Rounds, cfg.Personal.Rounds, cfg.Personal.Epochs = 5, 12, 2
	cfg.Personal.Alpha, cfg.Personal.Rate = 0.02, 0.004
	return cfg
}

// anneal makes every schedule anneal, freeze and stop early.
func anneal(c *Config) {
	c.Fed.KappaLambda, c.Fed.KappaRate, c.Fed.Tau = 0.5, 0.2, 0.08
	c.Personal.KappaLambda, c.Personal.KappaRate, c.Personal.Tau, c.Personal.EarlyStop = 1, 0.1, 0.05, 2
}

// TestProtocol compares whole runs with the twin: federated averaging with
// fresh optimisers and n_j weights, personalisation from the final global
// model, local and centralised training from the initial one, calibration,
// annealing, freezing, early stopping, the learning rates and the regret
// (paper, section 3.2, table 1, equations 6 and 11, appendix C.1).
func TestProtocol(t *testing.T) {
	tk := threeClients()
	variants := map[string]func(*Config){
		"plain":    func(*Config) {},
		"sampled":  func(c *Config) { c.Fed.Fraction = 0.5 },
		"averaged": func(c *Config) { c.Calibration.Averaged = true },
		"matched":  func(c *Config) { c.Rates = RateMatched },
		"fixed":    func(c *Config) { c.Rates, c.FixedRate, c.Personal.KappaRate = RateFixed, 0.02, 0.5 },
		"annealed": anneal,
	}
	for name, change := range variants {
		t.Run(name, func(t *testing.T) {
			eachSetting(t, func(t *testing.T, l surrogate.Loss, regime Regime) {
				cfg := linearConfig(tk, l, regime)
				change(&cfg)
				r := execute(t, cfg, tk)
				s := r.State()
				for _, m := range s.FedMetrics {
					// ⌈0.5·3⌉ or all, in ascending ID.
					if want := map[float64]int{0.5: 2, 1: 3}[cfg.Fed.Fraction]; len(m.Active) != want || !slices.IsSorted(m.Active) {
						t.Errorf("participants %v, want %d", m.Active, want)
					}
				}
				w := runTwin(cfg, tk, r)
				w.compare(t, r)
				if name != "annealed" || !l.Regularized() {
					return
				}
				if frozen := w.clients[0].frozen; frozen < 1 || frozen+cfg.Personal.EarlyStop >= cfg.Personal.Rounds {
					t.Errorf("the first client froze after round %d: the case shows no freezing and stopping", frozen)
				}
				if regime == Federated && (w.fed.step == 0 || w.fed.frozen < 0) {
					t.Errorf("federated t = %v, frozen after %d: the case shows no freezing", w.fed.step, w.fed.frozen)
				}
			})
		})
	}
}
