package train

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"fedrspo/nn"
	"fedrspo/oracle"
	"fedrspo/surrogate"
	"fedrspo/task"
)

// TestSchedule plays rounds against the paper's rules (section 3.2, equation 6):
// λ_t = λ_0/(1+κ^λ t) and η_t = η_0/(1+κ^LR t) with t = 0 in the first round;
// the freeze check comes after a round, with that round's λ; from then on λ and
// η stay; a client trains EarlyStop rounds after the one it froze in.
func TestSchedule(t *testing.T) {
	const lambda0, rate0 = 2.0, 0.3
	for _, c := range []struct {
		name      string
		stage     Stage
		u         []float64 // statistic after each round
		steps     []float64 // t in each round that is trained
		frozen    int       // -1: never
		lastSteps float64   // t of the last λ used
	}{
		{"never", Stage{KappaLambda: 1, KappaRate: 0.1, Tau: 0.01, EarlyStop: 1}, []float64{1, 0.5, 0.02, 0.011},
			[]float64{0, 1, 2, 3}, -1, 3},
		{"in the first round", Stage{KappaLambda: 1, KappaRate: 0.1, Tau: 0.01, EarlyStop: 3}, []float64{0.01, 0, 0, 0, 0, 0},
			[]float64{0, 0, 0, 0}, 0, 0},
		{"in the third round", Stage{KappaLambda: 0.5, KappaRate: 0, Tau: 0.1, EarlyStop: 3}, []float64{1, 0.2, 0.1, 5, 5, 5, 5, 5},
			[]float64{0, 1, 2, 2, 2, 2}, 2, 2},
		{"stop at once", Stage{KappaLambda: 2, KappaRate: 1, Tau: 0.1, EarlyStop: 0}, []float64{1, 0.1, 0.1, 0.1},
			[]float64{0, 1}, 1, 1},
		{"no early stop", Stage{KappaLambda: 2, KappaRate: 1, Tau: 0.1, EarlyStop: -1}, []float64{1, 0.05, 1, 1, 1},
			[]float64{0, 1, 1, 1, 1}, 1, 1},
		{"no samples", Stage{KappaLambda: 1, KappaRate: 1, Tau: 1, EarlyStop: 0}, []float64{math.NaN(), math.NaN(), math.NaN()},
			[]float64{0, 1, 2}, -1, 2},
		{"no annealing", Stage{Tau: 0.01, EarlyStop: -1}, []float64{1, 1, 1},
			[]float64{0, 0, 0}, -1, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSchedule()
			if got := s.LastLambda(lambda0, c.stage); got != lambda0 {
				t.Errorf("before training, the last λ is %v, want %v", got, lambda0)
			}
			trained := 0
			for round, u := range c.u {
				if s.Stopped(round, c.stage) {
					continue
				}
				if trained == len(c.steps) {
					t.Fatalf("trains round %d, want a stop after %d rounds", round, len(c.steps))
				}
				step := c.steps[trained]
				lambda, rate := lambda0/(1+c.stage.KappaLambda*step), rate0/(1+c.stage.KappaRate*step)
				if got := s.Lambda(lambda0, c.stage); got != lambda {
					t.Errorf("round %d: λ is %v, want %v", round, got, lambda)
				}
				if got := s.Rate(rate0, c.stage); got != rate {
					t.Errorf("round %d: η is %v, want %v", round, got, rate)
				}
				s.Advance(round, u, c.stage)
				trained++
				if got := s.LastLambda(lambda0, c.stage); got != lambda {
					t.Errorf("after round %d, the last λ is %v, want %v", round, got, lambda)
				}
			}
			if trained != len(c.steps) {
				t.Errorf("%d rounds trained, want %d", trained, len(c.steps))
			}
			if s.Frozen != (c.frozen >= 0) || s.FrozenAfter != c.frozen {
				t.Errorf("frozen %v after round %d, want %d", s.Frozen, s.FrozenAfter, c.frozen)
			}
		})
	}
}

// TestCalibrate: λ_j = max(C̄_j/R_j, 1e-6), with C̄_j the mean of the norms and
// not the norm of the mean, and η_j = αλ_j/4 (paper, equation 11).
func TestCalibrate(t *testing.T) {
	// Norms 5 and 13; the mean is (4, -4).
	costs := task.Matrix{Cols: 2, Data: []float64{3, 4, 5, -12}}
	for _, c := range []struct {
		name   string
		costs  task.Matrix
		radius float64
		opt    Calibration
		want   float64
	}{
		{"mean of norms", costs, 2, Calibration{}, 9.0 / 2},
		{"norm of mean", costs, 2, Calibration{NormOfMean: true}, math.Sqrt(4*4+4*4) / 2},
		{"no samples", task.Matrix{Cols: 2}, 2, Calibration{Fallback: 0.7}, 0.7},
		{"radius 0", costs, 0, Calibration{Fallback: 0.7}, 0.7},
		{"floor", task.Matrix{Cols: 2, Data: []float64{1e-9, 0}}, 2, Calibration{Fallback: 0.7}, 1e-6},
		{"zero costs", task.Matrix{Cols: 2, Data: []float64{0, 0}}, 2, Calibration{}, 1e-6},
		{"no overflow in squares", task.Matrix{Cols: 2, Data: []float64{3e200, 4e200}}, 1, Calibration{}, 5e200},
		{"small radius", costs, 1e-9, Calibration{}, 9e9},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := calibrate(c.costs, c.radius, c.opt)
			if err != nil || math.Abs(got-c.want) > 1e-14*c.want {
				t.Errorf("λ is %v (error %v), want %v", got, err, c.want)
			}
		})
	}
	for _, fallback := range []float64{0, -1, math.NaN(), math.Inf(1)} {
		if l, err := calibrate(task.Matrix{Cols: 2}, 1, Calibration{Fallback: fallback}); err == nil {
			t.Errorf("no samples, fallback %v: λ is %v, want an error", fallback, l)
		}
	}
	if l, err := calibrate(task.Matrix{Cols: 1, Data: []float64{1e300}}, 1e-300, Calibration{}); err == nil {
		t.Errorf("overflow: λ is %v, want an error", l)
	}
	if got := rate(0.01, 2); got != 0.005 {
		t.Errorf("η is %v, want αλ/4 = 0.005", got)
	}
}

// TestNorm against math.Hypot, at scales whose squares leave float64.
func TestNorm(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, scale := range []float64{0, 1e-300, 1, 1e300} {
		v, want := make([]float64, 9), 0.0
		for i := range v {
			v[i] = scale * r.NormFloat64()
			want = math.Hypot(want, v[i])
		}
		if got := norm(v); math.Abs(got-want) > 1e-14*want {
			t.Errorf("scale %v: %v, want %v", scale, got, want)
		}
	}
	if got := norm(nil); got != 0 {
		t.Errorf("the empty vector has norm %v", got)
	}
}

// TestFreezeStatistic by hand on two clients (paper, equation 6): a ratio of
// means over all samples, which is neither the mean of the clients' ratios nor
// that of the samples'.
func TestFreezeStatistic(t *testing.T) {
	// S = {w in [0,1] : w <= 1}: c = -1 has z* = -1 and, at λ, w = min(1/λ, 1).
	client := func(id int, costs ...float64) *task.Client {
		return &task.Client{ID: id, Polytope: mustKnapsack(1, 1), Val: task.Split{C: task.Matrix{Cols: 1, Data: costs}}}
	}
	a, b := client(1, -1, 2, -8), client(2, -2, -4)
	cfg := Config{Model: nn.NewLinear(1, 1), Batch: 1, Loss: surrogate.RSPOPlus{}}
	w, err := newWorker(&cfg, 1, trains)
	if err != nil {
		t.Fatal(err)
	}
	defer w.session.Close()
	solver := func(c *task.Client) *oracle.Solver { return w.poolFor(c.Polytope).Solver() }
	pa, err := newMonitorPart(0, a, []int{0, 1}, solver(a))
	if err != nil {
		t.Fatal(err)
	}
	pb, err := newMonitorPart(1, b, []int{1, 0}, solver(b))
	if err != nil {
		t.Fatal(err)
	}
	r := &Run{cfg: cfg, task: &task.Task{Clients: []*task.Client{a, b}}}
	lambda := func(i int) float64 { return []float64{2, 8}[i] }
	// Client 1 at λ = 2: c = -1 gives w = 1/2, excess 1/2; c = 2 gives w = 0,
	// excess 0. Client 2 at λ = 8: c = -4 gives w = 1/2, excess 2; c = -2 gives
	// w = 1/4, excess 3/2. |z*| are 1, 0, 4, 2.
	want := ((0.5 + 0 + 2 + 1.5) / 4) / ((1+0+4+2)/4.0 + 1e-8)
	got, err := r.freezeStatistic(w, []monitorPart{pa, pb}, lambda)
	if err != nil || !near(got, want, 1e-15) {
		t.Errorf("Ũ is %v (error %v), want %v", got, err, want)
	}
	// The first sample of each.
	want = ((0.5 + 2) / 2) / ((1+4)/2.0 + 1e-8)
	if got, err = r.freezeStatistic(w, []monitorPart{pa.first(1), pb.first(1)}, lambda); err != nil || !near(got, want, 1e-15) {
		t.Errorf("Ũ over one sample each is %v (error %v), want %v", got, err, want)
	}
	if got, err = r.freezeStatistic(w, nil, lambda); err != nil || !math.IsNaN(got) {
		t.Errorf("Ũ without samples is %v (error %v), want NaN", got, err)
	}
	if _, err = r.freezeStatistic(w, []monitorPart{pb}, func(int) float64 { return -1 }); !errors.Is(err, oracle.ErrLambda) || !strings.Contains(err.Error(), "client 2") {
		t.Errorf("λ = -1: got error %v", err)
	}
	// All z* zero: the 1e-8 keeps the ratio finite.
	zero := client(3, 1, 2)
	pz, err := newMonitorPart(0, zero, []int{0, 1}, solver(zero))
	if err != nil {
		t.Fatal(err)
	}
	r.task.Clients[0] = zero
	if got, err = r.freezeStatistic(w, []monitorPart{pz}, lambda); err != nil || got != 0 {
		t.Errorf("Ũ of zero optima is %v (error %v), want 0", got, err)
	}
}

// TestFreezeStatisticIsModelFree: runs from different initial models log the
// same Ũ (paper, equation 6).
func TestFreezeStatisticIsModelFree(t *testing.T) {
	tk := fiveClients()
	cfg := testConfig(tk, surrogate.RSPOPlus{}, Federated)
	cfg.Personal.KappaLambda, cfg.Fed.KappaLambda = 1, 0.5
	freezes := func(r *Run) (u []float64) {
		for _, m := range r.Metrics() {
			u = append(u, *m.Freeze)
		}
		return u
	}
	want := freezes(execute(t, cfg, tk))
	cfg.Model, cfg.Fed.Alpha, cfg.Personal.Alpha = nn.NewLinear(tk.In, tk.Out), 0.5, 1e-4
	sameVector(t, "Ũ", freezes(execute(t, cfg, tk)), want, 0)
}

// TestPooledMonitor: the federated Ũ pools the samples of ⌈fraction·N⌉ clients,
// each at its own λ, as one ratio of means (paper, equation 6); which clients,
// the seed decides.
func TestPooledMonitor(t *testing.T) {
	tk := fiveClients()
	cfg := testConfig(tk, surrogate.RSPOPlus{}, Federated)
	cfg.Fed.MonitorFraction, cfg.Fed.Rounds = 0.4, 1
	chosen := map[int]bool{}
	for cfg.Seed = range 8 {
		s := execute(t, cfg, tk).State()
		w := &twin{cfg: cfg, task: tk}
		for _, c := range s.Clients {
			w.lambda = append(w.lambda, c.Lambda)
		}
		matches := 0
		for i := range tk.Clients {
			for j := range i {
				if near(*s.FedMetrics[0].Freeze, w.freeze([]int{i, j}, 1), 1e-13) {
					chosen[i], chosen[j] = true, true
					matches++
				}
			}
		}
		if matches != 1 {
			t.Errorf("seed %d: Ũ is that of %d pairs of clients, want 1", cfg.Seed, matches)
		}
	}
	if len(chosen) < 4 {
		t.Errorf("8 seeds choose among %d clients only", len(chosen))
	}
}
