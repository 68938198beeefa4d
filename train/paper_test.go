package train

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"fedrspo/internal/stream"
	"fedrspo/nn"
	"fedrspo/oracle"
	"fedrspo/surrogate"
	"fedrspo/task"
)

// twin is the paper's protocol written out in plain loops, for bias-free
// linear predictors ĉ = Θx and the three losses. It shares with the product the
// oracles, the order of samples (internal/stream), the initial model and the
// choice of each round's participants, and nothing else.
type twin struct {
	cfg     Config
	task    *task.Task
	lambda  []float64 // λ_j
	steps   int
	rounds  []twinRound // in the order of Run.Metrics
	global  []float64
	models  [][]float64 // after personalisation
	frozen  []int       // round, or -1
	last    []float64   // λ in the last round
	active  [][]int     // IDs of each federated round's participants
	fedStep float64     // t after the federated stage
	initial []float64
}

type twinRound struct{ loss, lambda, rate, freeze float64 }

// adam is Kingma and Ba (2015), algorithm 1.
type adam struct {
	t    int
	m, v []float64
}

func (a *adam) update(theta, g []float64, clip, rate float64) {
	if a.m == nil {
		a.m, a.v = make([]float64, len(g)), make([]float64, len(g))
	}
	a.t++
	scale := 1.0
	if n := math.Sqrt(dot(g, g)); n > clip {
		scale = clip / n
	}
	for k := range g {
		x := g[k] * scale
		a.m[k] = 0.9*a.m[k] + 0.1*x
		a.v[k] = 0.999*a.v[k] + 0.001*x*x
		mhat := a.m[k] / (1 - math.Pow(0.9, float64(a.t)))
		vhat := a.v[k] / (1 - math.Pow(0.999, float64(a.t)))
		theta[k] -= rate * mhat / (math.Sqrt(vhat) + 1e-8)
	}
}

func (w *twin) predict(theta, x []float64) []float64 {
	chat := make([]float64, w.task.Out)
	for k := range chat {
		chat[k] = dot(theta[k*w.task.In:(k+1)*w.task.In], x)
	}
	return chat
}

func features(s task.Split, i, in int) []float64 {
	x := make([]float64, in)
	s.X.Copy(x, i)
	return x
}

func solve(p oracle.Polytope, theta []float64) []float64 {
	w := make([]float64, len(theta))
	if _, err := p.NewLinear().Solve(w, theta); err != nil {
		panic(err)
	}
	return w
}

func project(p oracle.Polytope, theta []float64, lambda float64) []float64 {
	w := make([]float64, len(theta))
	if _, err := p.NewProjector().Project(w, theta, lambda, nil); err != nil {
		panic(err)
	}
	return w
}

// loss returns value and gradient of one sample.
func (w *twin) loss(p oracle.Polytope, c, chat []float64, lambda float64) (v float64, g []float64) {
	d := len(c)
	g = make([]float64, d)
	a := make([]float64, d)
	for k := range a {
		a[k] = 2*chat[k] - c[k]
	}
	switch w.cfg.Loss.(type) {
	case surrogate.MSE:
		for k := range g {
			v += (chat[k] - c[k]) * (chat[k] - c[k]) / float64(d)
			g[k] = 2 * (chat[k] - c[k]) / float64(d)
		}
	case surrogate.SPOPlus:
		best, w := solve(p, c), solve(p, a)
		v = dot(a, best) - dot(a, w)
		for k := range g {
			g[k] = 2 * (best[k] - w[k])
		}
	case surrogate.RSPOPlus:
		best, w := project(p, c, lambda), project(p, a, lambda)
		v = dot(a, best) + lambda/2*dot(best, best) - dot(a, w) - lambda/2*dot(w, w)
		for k := range g {
			g[k] = 2 * (best[k] - w[k])
		}
	}
	return v, g
}

// round trains theta for one round and returns the mean loss.
func (w *twin) round(theta []float64, o *adam, s task.Split, p oracle.Polytope, key stream.Key, epochs int, lambda, rate float64) float64 {
	total, n := 0.0, s.Len()
	perm := make([]int, n)
	for key.Epoch = range epochs {
		stream.Permute(stream.New(key), perm)
		for lo := 0; lo < n; lo += w.cfg.Batch {
			batch := perm[lo:min(lo+w.cfg.Batch, n)]
			g := make([]float64, len(theta))
			for _, i := range batch {
				x := features(s, i, w.task.In)
				v, dc := w.loss(p, s.C.Row(i), w.predict(theta, x), lambda)
				total += v
				for k := range dc {
					for j := range x {
						g[k*w.task.In+j] += dc[k] * x[j] / float64(len(batch))
					}
				}
			}
			o.update(theta, g, w.cfg.Adam.Clip, rate)
			w.steps++
		}
	}
	return total / float64(n*epochs)
}

// freeze is Ũ over all validation samples of the clients.
func (w *twin) freeze(clients []int, factor float64) float64 {
	num, den, n := 0.0, 0.0, 0.0
	for _, j := range clients {
		c := w.task.Clients[j]
		for i := range c.Val.Len() {
			cost := c.Val.C.Row(i)
			z := dot(cost, solve(c.Polytope, cost))
			num += dot(cost, project(c.Polytope, cost, w.lambda[j]*factor)) - z
			den += math.Abs(z)
			n++
		}
	}
	return num / n / (den/n + 1e-8)
}

// run is sections 3.2 and C.1 of the paper.
func (w *twin) run() {
	cfg, tk := w.cfg, w.task
	rspo := cfg.Loss.Name() == "rspo+"
	train := func(j int) task.Split { return tk.Clients[j].Train }
	if cfg.Regime == Centralized {
		var all []task.Split
		for j := range tk.Clients {
			all = append(all, train(j))
		}
		pooled := task.Pool(all...)
		train = func(int) task.Split { return pooled }
	}
	mean := 0.0
	for j, c := range tk.Clients {
		sum, s := 0.0, train(j)
		for i := range s.Len() {
			sum += math.Sqrt(dot(s.C.Row(i), s.C.Row(i)))
		}
		w.lambda = append(w.lambda, max(sum/float64(s.Len())/c.Polytope.Radius(), 1e-6))
		mean += w.lambda[j] / float64(len(tk.Clients))
	}
	if cfg.Calibration.Averaged {
		for j := range w.lambda {
			w.lambda[j] = mean
		}
	}
	rate := func(j int, s Stage) float64 {
		switch {
		case cfg.Rates == RateFixed:
			return cfg.FixedRate
		case rspo:
			return s.Alpha * w.lambda[j] / 4
		case cfg.Rates == RateMatched:
			return s.Alpha * mean / 4
		}
		return s.Rate
	}
	start, name := w.initial, map[Regime]string{Federated: "personal", Local: "local", Centralized: "centralized"}[cfg.Regime]
	if cfg.Regime == Federated {
		w.global = append([]float64(nil), w.initial...)
		step, frozen := 0.0, false
		for round := range cfg.Fed.Rounds {
			fl, fr := 1.0, 1.0
			if rspo {
				fl, fr = 1/(1+cfg.Fed.KappaLambda*step), 1/(1+cfg.Fed.KappaRate*step)
			}
			total, all := 0, []int{}
			for j, c := range tk.Clients {
				all = append(all, j)
				if slices.Contains(w.active[round], c.ID) {
					total += train(j).Len()
				}
			}
			next := append([]float64(nil), w.global...)
			var log twinRound
			for j, c := range tk.Clients {
				log.lambda += w.lambda[j] * fl / float64(len(all))
				log.rate += rate(j, cfg.Fed) * fr / float64(len(all))
				if !slices.Contains(w.active[round], c.ID) {
					continue
				}
				theta := append([]float64(nil), w.global...)
				key := stream.Key{Seed: cfg.Seed, Purpose: "federated shuffle", Round: round, Client: c.ID}
				// A fresh optimiser in every round.
				loss := w.round(theta, &adam{}, train(j), c.Polytope, key, cfg.Fed.Epochs, w.lambda[j]*fl, rate(j, cfg.Fed)*fr)
				share := float64(train(j).Len()) / float64(total)
				for k := range next {
					next[k] += share * (theta[k] - w.global[k])
				}
				log.loss += share * loss
			}
			w.global = next
			if rspo {
				log.freeze = w.freeze(all, fl)
				frozen = frozen || log.freeze <= cfg.Fed.Tau
				if !frozen {
					step++
				}
			}
			w.rounds = append(w.rounds, log)
		}
		start, w.fedStep = w.global, step
	}
	for j, c := range tk.Clients {
		theta, o := append([]float64(nil), start...), &adam{} // one optimiser for all rounds
		step, frozen, last := 0.0, -1, w.lambda[j]
		for round := range cfg.Personal.Rounds {
			if cfg.Personal.EarlyStop >= 0 && frozen >= 0 && round > frozen+cfg.Personal.EarlyStop {
				continue
			}
			fl, fr := 1.0, 1.0
			if rspo {
				fl, fr = 1/(1+cfg.Personal.KappaLambda*step), 1/(1+cfg.Personal.KappaRate*step)
			}
			key := stream.Key{Seed: cfg.Seed, Purpose: name + " shuffle", Round: round, Client: c.ID}
			log := twinRound{lambda: w.lambda[j] * fl, rate: rate(j, cfg.Personal) * fr}
			last = log.lambda
			log.loss = w.round(theta, o, train(j), c.Polytope, key, cfg.Personal.Epochs, log.lambda, log.rate)
			if rspo {
				log.freeze = w.freeze([]int{j}, fl)
				if frozen < 0 && log.freeze <= cfg.Personal.Tau {
					frozen = round
				}
				if frozen < 0 {
					step++
				}
			}
			w.rounds = append(w.rounds, log)
		}
		w.models, w.frozen, w.last = append(w.models, theta), append(w.frozen, frozen), append(w.last, last)
	}
}

// regret is the regret of LP decisions over the client's test samples.
func (w *twin) regret(j int, theta []float64) (relative, absolute float64) {
	c := w.task.Clients[j]
	sum, scale, n := 0.0, 0.0, c.Test.Len()
	for i := range n {
		cost := c.Test.C.Row(i)
		z := dot(cost, solve(c.Polytope, cost))
		sum += dot(cost, solve(c.Polytope, w.predict(theta, features(c.Test, i, w.task.In)))) - z
		scale += math.Abs(z)
	}
	return sum / scale, sum / float64(n)
}

// TestProtocol compares whole runs with the twin: federated averaging with
// fresh optimisers and n_j weights, personalisation from the final global
// model, local and centralised training from the initial one, calibration,
// annealing, freezing, early stopping, the learning rates and the regret
// (paper, section 3.2, table 1, equations 6 and 11, appendix C.1).
func TestProtocol(t *testing.T) {
	tk := toyTask(11, 2,
		clientSpec{3, 6, 3, 4, mustKnapsack(1.2, 0.6, 1.1, 0.9)},
		clientSpec{8, 9, 2, 5, mustTopK(3, 1)},
		clientSpec{9, 2, 4, 3, mustKnapsack(2, 1.3, 0.7, 1)})
	variants := map[string]func(*Config){
		"plain":    func(*Config) {},
		"sampled":  func(c *Config) { c.Fed.Fraction = 0.5 },
		"averaged": func(c *Config) { c.Calibration.Averaged = true },
		"matched":  func(c *Config) { c.Rates = RateMatched },
		"fixed":    func(c *Config) { c.Rates, c.FixedRate, c.Personal.KappaRate = RateFixed, 0.02, 0.5 },
		"annealed": func(c *Config) {
			c.Fed.KappaLambda, c.Fed.KappaRate, c.Fed.Tau = 0.5, 0.2, 0.08
			c.Personal.KappaLambda, c.Personal.KappaRate, c.Personal.Tau, c.Personal.EarlyStop = 1, 0.1, 0.05, 2
		},
	}
	for name, change := range variants {
		t.Run(name, func(t *testing.T) {
			eachSetting(t, func(t *testing.T, l surrogate.Loss, regime Regime) {
				cfg := testConfig(tk, l, regime)
				cfg.Model = nn.NewLinear(tk.In, tk.Out)
				cfg.Fed.Rounds, cfg.Personal.Rounds, cfg.Personal.Epochs = 5, 12, 2
				cfg.Personal.Alpha, cfg.Personal.Rate = 0.02, 0.004
				change(&cfg)
				r := execute(t, cfg, tk)
				s := r.State()
				w := &twin{cfg: cfg, task: tk, initial: s.Initial}
				for _, m := range s.FedMetrics {
					w.active = append(w.active, m.Active)
					// ⌈0.5·3⌉ or all, in ascending ID.
					if want := map[float64]int{0.5: 2, 1: 3}[cfg.Fed.Fraction]; len(m.Active) != want || !slices.IsSorted(m.Active) {
						t.Errorf("participants %v, want %d", m.Active, want)
					}
				}
				w.run()

				// Rounding errors reach a parameter through Adam's quotient, which
				// multiplies them by at most 1/ε = 1e8 and the learning rate.
				const tol = 1e-9
				if regime == Federated {
					sameVector(t, "global model", s.Server.Model, w.global, tol)
					if l.Regularized() && float64(s.Schedule.Step) != w.fedStep {
						t.Errorf("federated t is %d, want %v", s.Schedule.Step, w.fedStep)
					}
				}
				for j, c := range s.Clients {
					what := fmt.Sprintf("client %d: ", tk.Clients[j].ID)
					sameVector(t, what+"model", c.Model, w.models[j], tol)
					if c.Schedule.FrozenAfter != w.frozen[j] {
						t.Errorf("%sfrozen after round %d, want %d", what, c.Schedule.FrozenAfter, w.frozen[j])
					}
					stage, theta := s.Personal, w.models[j]
					if regime == Centralized {
						stage = s.Fed
					}
					relative, absolute := w.regret(j, theta)
					if got := stage.Clients[j]; got.Client != tk.Clients[j].ID || !near(got.Relative, relative, tol) || !near(got.Absolute, absolute, tol) {
						t.Errorf("%sregret %+v, want %v and %v", what, got, relative, absolute)
					}
					if got := stage.Clients[j]; l.Regularized() && !near(got.Lambda, w.last[j], 1e-14) {
						t.Errorf("%slast λ %v, want %v", what, got.Lambda, w.last[j])
					} else if (got.FrozenAfter != nil) != (w.frozen[j] >= 0) || got.FrozenAfter != nil && *got.FrozenAfter != w.frozen[j] {
						t.Errorf("%sfrozen after round %v in the result, want %d", what, got.FrozenAfter, w.frozen[j])
					}
					if regime == Federated {
						relative, absolute := w.regret(j, w.global)
						if got := s.Fed.Clients[j]; !near(got.Relative, relative, tol) || !near(got.Absolute, absolute, tol) {
							t.Errorf("%sregret of the global model %+v, want %v and %v", what, got, relative, absolute)
						}
					}
				}
				metrics := r.Metrics()
				if len(metrics) != len(w.rounds) {
					t.Fatalf("%d rounds, want %d", len(metrics), len(w.rounds))
				}
				for k, want := range w.rounds {
					m := metrics[k]
					if !near(m.TrainLoss, want.loss, tol) || !near(m.Rate, want.rate, 1e-14) {
						t.Errorf("line %d of the metrics: %+v, want %+v", k, m, want)
					}
					if !l.Regularized() {
						if m.Lambda != nil || m.Freeze != nil {
							t.Errorf("line %d of the metrics: %s has a λ or Ũ", k, l.Name())
						}
					} else if !near(*m.Lambda, want.lambda, 1e-14) || !near(*m.Freeze, want.freeze, 1e-12) {
						t.Errorf("line %d of the metrics: λ %v, Ũ %v, want %+v", k, *m.Lambda, *m.Freeze, want)
					}
				}
				if got := r.Result().Steps; got != w.steps {
					t.Errorf("%d steps, want %d", got, w.steps)
				}
				if name == "annealed" && l.Regularized() && (w.frozen[0] < 1 || w.frozen[0]+cfg.Personal.EarlyStop >= cfg.Personal.Rounds) {
					t.Errorf("the first client froze after round %d: the case shows no freezing and stopping", w.frozen[0])
				}
				if name == "annealed" && l.Regularized() && regime == Federated && (w.fedStep == 0 || !s.Schedule.Frozen) {
					t.Errorf("federated schedule %+v: the case shows no freezing", s.Schedule)
				}
			})
		})
	}
}
