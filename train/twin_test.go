package train

import (
	"math"
	"slices"
	"testing"

	"fedrspo/internal/stream"
	"fedrspo/oracle"
	"fedrspo/oracle/knapsack"
	"fedrspo/run"
	"fedrspo/surrogate"
	"fedrspo/task"
)

// twin is the paper's protocol written out in plain loops, for bias-free
// linear predictors ĉ = Θx. It shares with the product the oracles, the random
// streams (internal/stream), the initial model and the choice of each round's
// participants, and nothing else.
type twin struct {
	cfg     Config
	task    *task.Task
	initial []float64
	active  [][]int // IDs of each federated round's participants

	lambda     []float64 // λ_j
	mean       float64   // of λ_j, before averaging
	steps      int
	fed        twinStage
	clients    []*twinClient
	fedMetrics []twinRound
}

type twinRound struct{ loss, lambda, rate, freeze float64 }

// twinStage is a federated stage, or the training of a single pooled model.
type twinStage struct {
	model      []float64
	rounds     []twinRound
	step, last float64 // t, and the λ factor of the last round
	frozen     int     // round, or -1
	multiplier float64
}

// twinClient is a client's personal training.
type twinClient struct {
	theta      []float64
	adam       adam
	round      int
	step       float64
	frozen     int     // round, or -1
	last       float64 // λ or ε in the last round
	multiplier float64
	rho        float64
	rounds     []twinRound
}

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

// twinSample is a training sample, with the set, the λ and the noise of its
// owner.
type twinSample struct {
	x, c   []float64
	set    oracle.Polytope
	lambda float64
	// index is the number of the sample among its owner's, owner the number of
	// the owner's family of noise streams, -1 where there is only one owner.
	index, owner int
}

func (w *twin) samples(s task.Split, p oracle.Polytope, lambda float64, owner int) []twinSample {
	var out []twinSample
	for i := range s.Len() {
		out = append(out, twinSample{features(s, i, w.task.In), s.C.Row(i), p, lambda, i, owner})
	}
	return out
}

// loss returns value and gradient of one sample.
func (s twinSample) loss(l surrogate.Loss, noise stream.Family, chat []float64) (v float64, g []float64) {
	d, c := len(chat), s.c
	g, a := make([]float64, d), make([]float64, d)
	for k := range a {
		a[k] = 2*chat[k] - c[k]
	}
	difference := func(best, w []float64) {
		for k := range g {
			g[k] = 2 * (best[k] - w[k])
		}
	}
	switch l.(type) {
	case surrogate.MSE:
		for k := range g {
			v += (chat[k] - c[k]) * (chat[k] - c[k]) / float64(d)
			g[k] = 2 * (chat[k] - c[k]) / float64(d)
		}
	case surrogate.SPOPlus:
		best, w := solve(s.set, c), solve(s.set, a)
		v = dot(a, best) - dot(a, w)
		difference(best, w)
	case surrogate.RSPOPlus:
		best, w := project(s.set, c, s.lambda), project(s.set, a, s.lambda)
		v = dot(a, best) + s.lambda/2*dot(best, best) - dot(a, w) - s.lambda/2*dot(w, w)
		difference(best, w)
	case surrogate.OptNet:
		// With A the entries strictly inside the bounds: -c_A/λ, less its part
		// along a_A where the constraint binds.
		w := project(s.set, chat, s.lambda)
		v = dot(c, w)
		weights, binds := make([]float64, d), true
		switch p := s.set.(type) {
		case *knapsack.Set:
			for k, x := range p.Weights() {
				weights[k] = x
			}
			binds = p.Capacity()-dot(weights, w) < 1e-12
		case *knapsack.TopK:
			for k := range weights {
				weights[k] = 1
			}
		}
		along, square := 0.0, 0.0
		for k, x := range w {
			if 0 < x && x < 1 {
				g[k] = -c[k] / s.lambda
				along += weights[k] * g[k]
				square += weights[k] * weights[k]
			}
		}
		for k, x := range w {
			if binds && 0 < x && x < 1 {
				g[k] -= weights[k] * along / square
			}
		}
	default: // PFYL and DPO with ten standard normal draws
		if s.owner >= 0 {
			noise = noise.Sub(s.owner)
		}
		rng := stream.NewStream()
		noise.Open(rng, s.index)
		const draws = 10
		best, mean := solve(s.set, c), make([]float64, d)
		var zs, ws [][]float64
		for range draws {
			z, eta := make([]float64, d), make([]float64, d)
			for k := range z {
				z[k] = rng.NormFloat64()
				eta[k] = chat[k] + z[k]
			}
			w := solve(s.set, eta)
			zs, ws = append(zs, z), append(ws, w)
			v -= dot(eta, w) / draws
			for k := range w {
				mean[k] += w[k] / draws
			}
		}
		if l.Name() == "pfyl" {
			for k := range g {
				g[k] = best[k] - mean[k]
			}
			return v + dot(chat, best), g
		}
		v = 0
		for k := range g {
			v += (mean[k] - best[k]) * (mean[k] - best[k]) / float64(d)
		}
		for m := range draws {
			along := 0.0
			for k := range g {
				along += (ws[m][k] - mean[k]) * 2 / float64(d) * (mean[k] - best[k])
			}
			for k := range g {
				g[k] += zs[m][k] * along / (draws - 1)
			}
		}
	}
	return v, g
}

// train trains theta for one round, with (mu/2)|θ-ref|² unless ref is nil, and
// returns the mean loss without that term.
func (w *twin) train(l surrogate.Loss, theta []float64, o *adam, samples []twinSample, key stream.Key, epochs int, rate, mu float64, ref []float64) float64 {
	total, n := 0.0, len(samples)
	perm := make([]int, n)
	for key.Epoch = range epochs {
		stream.Permute(stream.New(key), perm)
		noisy := key
		noisy.Purpose += " noise"
		noise := stream.NewFamily(noisy)
		for lo := 0; lo < n; lo += w.cfg.Batch {
			batch := perm[lo:min(lo+w.cfg.Batch, n)]
			g := make([]float64, len(theta))
			for _, i := range batch {
				s := samples[i]
				v, dc := s.loss(l, noise, w.predict(theta, s.x))
				total += v
				for k := range dc {
					for j := range s.x {
						g[k*w.task.In+j] += dc[k] * s.x[j] / float64(len(batch))
					}
				}
			}
			for k := range ref {
				g[k] += mu * (theta[k] - ref[k])
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

// regret is the regret of LP decisions over the first n samples.
func regret(c *task.Client, s task.Split, n int, predict func(x []float64) []float64, in int) run.Regret {
	sum, scale := 0.0, 0.0
	for i := range n {
		cost := s.C.Row(i)
		z := dot(cost, solve(c.Polytope, cost))
		sum += dot(cost, solve(c.Polytope, predict(features(s, i, in)))) - z
		scale += math.Abs(z)
	}
	return run.Regret{Relative: sum / scale, Absolute: sum / float64(n)}
}

// selection is the relative regret of theta on the first 8 validation samples
// of a client, 0 without any.
func (w *twin) selection(j int, theta []float64) float64 {
	c := w.task.Clients[j]
	n := min(8, c.Val.Len())
	if n == 0 {
		return 0
	}
	return regret(c, c.Val, n, func(x []float64) []float64 { return w.predict(theta, x) }, w.task.In).Relative
}

// alignment is paper, appendix C.6: Δ, D and O over the test samples.
func alignmentOf(c *task.Client, predict func(x []float64) []float64, in int, lambda float64) run.Alignment {
	gap, length, objective, n := 0.0, 0.0, 0.0, float64(c.Test.Len())
	for i := range c.Test.Len() {
		chat, cost := predict(features(c.Test, i, in)), c.Test.C.Row(i)
		p, w := project(c.Polytope, chat, lambda), solve(c.Polytope, chat)
		z, square := dot(cost, solve(c.Polytope, cost)), 0.0
		for k := range p {
			square += (p[k] - w[k]) * (p[k] - w[k])
		}
		gap += math.Sqrt(square) / n
		length += math.Sqrt(dot(w, w)) / n
		objective += math.Abs(dot(cost, p)-dot(cost, w)) / (math.Abs(z) + 1e-8) / n
	}
	return run.Alignment{Gap: gap, Decision: 100 * gap / (length + 1e-8), Objective: 100 * objective}
}

func (w *twin) rate(l surrogate.Loss, j int, s Stage) float64 {
	switch {
	case w.cfg.Rates == RateScaled && l.Name() == "rspo+":
		return w.cfg.FixedRate * w.lambda[j] / w.mean
	case w.cfg.Rates == RateFixed, w.cfg.Rates == RateScaled:
		return w.cfg.FixedRate
	case l.Name() == "rspo+":
		return s.Alpha * w.lambda[j] / 4
	case w.cfg.Rates == RateMatched:
		return s.Alpha * w.mean / 4
	}
	return s.Rate
}

// annealed returns the factors of λ and η at t.
func annealed(l surrogate.Loss, s Stage, t float64) (lambda, rate float64) {
	if l.Name() == "rspo+" {
		return 1 / (1 + s.KappaLambda*t), 1 / (1 + s.KappaRate*t)
	}
	return 1, 1
}

// weight is the λ or ε that client j trains with.
func (w *twin) weight(l surrogate.Loss, j int, factor, multiplier float64) float64 {
	if l.Name() == "optnet" {
		return multiplier * w.lambda[j]
	}
	return factor * w.lambda[j]
}

func (w *twin) candidates(l surrogate.Loss) []float64 {
	if l.Name() == "optnet" {
		return w.cfg.Multipliers
	}
	return []float64{0}
}

// federate is the federated stage; beside, if not nil, is what a participant
// does besides, given the model that the round started from.
func (w *twin) federate(multiplier float64, beside func(j int, start []float64)) twinStage {
	cfg, l, n := w.cfg, w.cfg.Loss, float64(len(w.task.Clients))
	f := twinStage{model: slices.Clone(w.initial), frozen: -1, multiplier: multiplier, last: 1}
	for round := range cfg.Fed.Rounds {
		fl, fr := annealed(l, cfg.Fed, f.step)
		f.last = fl
		total, all := 0, []int{}
		for j, c := range w.task.Clients {
			all = append(all, j)
			if slices.Contains(w.active[round], c.ID) {
				total += c.Train.Len()
			}
		}
		next := slices.Clone(f.model)
		var log twinRound
		for j, c := range w.task.Clients {
			lambda := w.weight(l, j, fl, multiplier)
			log.lambda += lambda / n
			log.rate += w.rate(l, j, cfg.Fed) * fr / n
			if !slices.Contains(w.active[round], c.ID) {
				continue
			}
			theta := slices.Clone(f.model)
			key := stream.Key{Seed: cfg.Seed, Purpose: "federated shuffle", Round: round, Client: c.ID}
			// A fresh optimiser in every round.
			loss := w.train(l, theta, &adam{}, w.samples(c.Train, c.Polytope, lambda, -1), key, cfg.Fed.Epochs, w.rate(l, j, cfg.Fed)*fr, cfg.Prox, f.model)
			share := float64(c.Train.Len()) / float64(total)
			for k := range next {
				next[k] += share * (theta[k] - f.model[k])
			}
			log.loss += share * loss
			if beside != nil {
				beside(j, f.model)
			}
		}
		f.model = next
		if l.Name() == "rspo+" {
			log.freeze = w.freeze(all, fl)
			if f.frozen < 0 && log.freeze <= cfg.Fed.Tau {
				f.frozen = round
			}
			if f.frozen < 0 {
				f.step++
			}
		}
		f.rounds = append(f.rounds, log)
	}
	return f
}

func (w *twin) newClient(l surrogate.Loss, j int, start []float64, multiplier float64) *twinClient {
	// One optimiser for all rounds.
	return &twinClient{theta: slices.Clone(start), frozen: -1, multiplier: multiplier, last: w.weight(l, j, 1, multiplier)}
}

// personalRound trains client j one round, unless it has stopped early.
func (w *twin) personalRound(c *twinClient, j int, name string, set task.Split, mu float64, ref []float64) {
	s, l := w.cfg.Personal, w.cfg.personalLoss()
	round := c.round
	c.round++
	if s.EarlyStop >= 0 && c.frozen >= 0 && round > c.frozen+s.EarlyStop {
		return
	}
	fl, fr := annealed(l, s, c.step)
	client := w.task.Clients[j]
	key := stream.Key{Seed: w.cfg.Seed, Purpose: name + " shuffle", Round: round, Client: client.ID}
	log := twinRound{lambda: w.weight(l, j, fl, c.multiplier), rate: w.rate(l, j, s) * fr}
	c.last = log.lambda
	log.loss = w.train(l, c.theta, &c.adam, w.samples(set, client.Polytope, log.lambda, -1), key, s.Epochs, log.rate, mu, ref)
	if l.Name() == "rspo+" {
		log.freeze = w.freeze([]int{j}, fl)
		if c.frozen < 0 && log.freeze <= s.Tau {
			c.frozen = round
		}
		if c.frozen < 0 {
			c.step++
		}
	}
	c.rounds = append(c.rounds, log)
}

// single trains one model on all clients' data, each sample over its owner's
// set at its owner's λ.
func (w *twin) single(multiplier float64) twinStage {
	s, l, n := w.cfg.Personal, w.cfg.Loss, float64(len(w.task.Clients))
	f, o := twinStage{model: slices.Clone(w.initial), frozen: -1, multiplier: multiplier}, &adam{}
	for round := range s.Rounds {
		if s.EarlyStop >= 0 && f.frozen >= 0 && round > f.frozen+s.EarlyStop {
			break
		}
		fl, fr := annealed(l, s, f.step)
		f.last = fl
		var log twinRound
		var all []int
		var pool []twinSample
		for j, c := range w.task.Clients {
			lambda := w.weight(l, j, fl, multiplier)
			log.lambda += lambda / n
			log.rate += w.rate(l, j, s) * fr / n
			all = append(all, j)
			pool = append(pool, w.samples(c.Train, c.Polytope, lambda, j)...)
		}
		key := stream.Key{Seed: w.cfg.Seed, Purpose: "centralized shuffle", Round: round}
		log.loss = w.train(l, f.model, o, pool, key, s.Epochs, log.rate, 0, nil)
		if l.Name() == "rspo+" {
			log.freeze = w.freeze(all, fl)
			if f.frozen < 0 && log.freeze <= s.Tau {
				f.frozen = round
			}
			if f.frozen < 0 {
				f.step++
			}
		}
		f.rounds = append(f.rounds, log)
	}
	return f
}

// chooseRho is the first minimiser of the mean SPO+ loss, or of the mean
// squared error, over ρ = 0, 0.05, ..., 1 on the validation samples.
func (w *twin) chooseRho(j int, local, global []float64, byPrediction bool) float64 {
	c := w.task.Clients[j]
	best, rho := math.Inf(1), -1.0
	for k := range 21 {
		r, sum := float64(k)/20, 0.0
		for i := range c.Val.Len() {
			x, cost := features(c.Val, i, w.task.In), c.Val.C.Row(i)
			chat := w.blend(local, global, r, x)
			if byPrediction {
				for m := range chat {
					sum += (chat[m] - cost[m]) * (chat[m] - cost[m])
				}
				continue
			}
			a := make([]float64, len(chat))
			for m := range a {
				a[m] = 2*chat[m] - cost[m]
			}
			sum += dot(a, solve(c.Polytope, cost)) - dot(a, solve(c.Polytope, a))
		}
		if sum < best {
			best, rho = sum, r
		}
	}
	return rho
}

// blend predicts (1-ρ) L(x) + ρ G(x).
func (w *twin) blend(local, global []float64, rho float64, x []float64) []float64 {
	l, g := w.predict(local, x), w.predict(global, x)
	for k := range l {
		l[k] = (1-rho)*l[k] + rho*g[k]
	}
	return l
}

// run is sections 3.2 and C.1 of the paper, with the methods it compares with.
func (w *twin) run() {
	cfg, tk := w.cfg, w.task
	train := func(j int) task.Split { return tk.Clients[j].Train }
	if cfg.Regime == Centralized {
		var all []task.Split
		for j := range tk.Clients {
			all = append(all, train(j))
		}
		pooled := task.Pool(all...)
		train = func(int) task.Split { return pooled }
	}
	for j, c := range tk.Clients {
		sum, s := 0.0, train(j)
		for i := range s.Len() {
			sum += math.Sqrt(dot(s.C.Row(i), s.C.Row(i)))
		}
		w.lambda = append(w.lambda, max(sum/float64(s.Len())/c.Polytope.Radius(), 1e-6))
		w.mean += w.lambda[j] / float64(len(tk.Clients))
	}
	if cfg.Calibration.Averaged {
		for j := range w.lambda {
			w.lambda[j] = w.mean
		}
	}
	personal := cfg.personalLoss()
	start, name := w.initial, map[Regime]string{Federated: "personal", Local: "local", Centralized: "centralized"}[cfg.Regime]
	ditto, isDitto := cfg.Personalizer.(Ditto)
	interp, isInterp := cfg.Personalizer.(Interp)
	mean := func(theta []float64) float64 { // of the selection regret
		sum, n := 0.0, 0
		for j, c := range tk.Clients {
			if c.Val.Len() > 0 {
				sum += w.selection(j, theta)
				n++
			}
		}
		return sum / float64(max(n, 1))
	}
	choose := func(stage func(m float64) twinStage) {
		best := math.Inf(1)
		for k, m := range w.candidates(cfg.Loss) {
			f := stage(m)
			if r := mean(f.model); k == 0 || r < best {
				w.fed, best = f, r
			}
		}
		w.fedMetrics = w.fed.rounds
	}
	if cfg.SinglePooled {
		choose(w.single)
		return
	}
	if cfg.Regime == Federated {
		var beside func(j int, start []float64)
		if ditto.Interleaved {
			for j := range tk.Clients {
				w.clients = append(w.clients, w.newClient(personal, j, w.initial, 0))
			}
			beside = func(j int, start []float64) {
				w.personalRound(w.clients[j], j, name, train(j), ditto.Mu, start)
			}
		}
		choose(func(m float64) twinStage { return w.federate(m, beside) })
		if ditto.Interleaved {
			return
		}
		if start = w.fed.model; isInterp {
			start = w.initial
		}
	}
	for j := range tk.Clients {
		var kept *twinClient
		best := math.Inf(1)
		for k, m := range w.candidates(personal) {
			c := w.newClient(personal, j, start, m)
			for range cfg.Personal.Rounds {
				var ref []float64
				if isDitto {
					ref = w.fed.model
				}
				w.personalRound(c, j, name, train(j), ditto.Mu, ref)
			}
			if r := w.selection(j, c.theta); k == 0 || r < best {
				kept, best = c, r
			}
		}
		if isInterp {
			kept.rho = w.chooseRho(j, kept.theta, w.fed.model, interp.ByPrediction)
		}
		w.clients = append(w.clients, kept)
	}
}

// runTwin runs the twin beside a finished run.
func runTwin(cfg Config, tk *task.Task, r *Run) *twin {
	w := &twin{cfg: cfg, task: tk, initial: r.State().Initial}
	for _, m := range r.State().FedMetrics {
		w.active = append(w.active, m.Active)
	}
	w.run()
	return w
}

// twinTolerance: rounding errors reach a parameter through Adam's quotient,
// which multiplies them by at most 1/ε = 1e8 and the learning rate.
const twinTolerance = 1e-9

// compare holds a run against its twin.
func (w *twin) compare(t *testing.T, r *Run) {
	t.Helper()
	s, tk, l, personal := r.State(), w.task, w.cfg.Loss, w.cfg.personalLoss()
	_, isInterp := w.cfg.Personalizer.(Interp)
	if w.fed.model != nil {
		model, schedule, multiplier := []float64(nil), s.Schedule, s.FedMultiplier
		if w.cfg.SinglePooled {
			model, schedule, multiplier = s.Clients[0].Model, s.Clients[0].Schedule, s.Clients[0].Multiplier
		} else {
			model = s.Server.Model
		}
		sameVector(t, "global model", model, w.fed.model, twinTolerance)
		if l.Regularized() && (float64(schedule.Step) != w.fed.step || schedule.FrozenAfter != w.fed.frozen) {
			t.Errorf("federated schedule %+v, want t = %v, frozen after %d", schedule, w.fed.step, w.fed.frozen)
		}
		if multiplier != w.fed.multiplier {
			t.Errorf("federated multiplier %v, want %v", multiplier, w.fed.multiplier)
		}
	}
	sameRounds(t, "federated", s.FedMetrics, w.fedMetrics, l)
	for j, c := range tk.Clients {
		global := func(x []float64) []float64 { return w.predict(w.fed.model, x) }
		if w.fed.model != nil {
			w.sameResult(t, "global: ", s.Fed, j, l, global, w.weight(l, j, w.fed.last, w.fed.multiplier))
		}
		if w.cfg.SinglePooled {
			continue
		}
		want, got := w.clients[j], s.Clients[j]
		sameVector(t, "model of "+clientKey(c.ID), got.Model, want.theta, twinTolerance)
		sameRounds(t, clientKey(c.ID), got.Metrics, want.rounds, personal)
		if got.Schedule.FrozenAfter != want.frozen || personal.Regularized() && float64(got.Schedule.Step) != want.step {
			t.Errorf("%s: schedule %+v, want t = %v, frozen after %d", clientKey(c.ID), got.Schedule, want.step, want.frozen)
		}
		if got.Multiplier != want.multiplier || got.Rho != want.rho || got.Interpolates != isInterp {
			t.Errorf("%s: m %v, ρ %v (%v), want %v, %v (%v)", clientKey(c.ID), got.Multiplier, got.Rho, got.Interpolates, want.multiplier, want.rho, isInterp)
		}
		local := func(x []float64) []float64 { return w.predict(want.theta, x) }
		predict, stage := local, s.Personal
		if w.cfg.Regime == Centralized {
			stage = s.Fed
		}
		if isInterp {
			predict = func(x []float64) []float64 { return w.blend(want.theta, w.fed.model, want.rho, x) }
			w.sameResult(t, "local endpoint: ", s.LocalEndpoint, j, personal, local, want.last)
			if rho := s.Personal.Clients[j].Rho; rho == nil || *rho != want.rho || s.LocalEndpoint.Clients[j].Rho != nil {
				t.Errorf("%s: ρ in the result is %v, want %v", clientKey(c.ID), rho, want.rho)
			}
		} else if s.LocalEndpoint != nil || stage.Clients[j].Rho != nil {
			t.Error("a local endpoint without interpolation")
		}
		w.sameResult(t, "personal: ", stage, j, personal, predict, want.last)
		if f, n := stage.Clients[j].Freeze, len(want.rounds); (f != nil) != (personal.Regularized() && n > 0) || f != nil && !near(*f, want.rounds[n-1].freeze, 1e-12) {
			t.Errorf("%s: Ũ in the result is %v, want that of the last round", clientKey(c.ID), f)
		}
		if f := stage.Clients[j].FrozenAfter; (f != nil) != (want.frozen >= 0) || f != nil && *f != want.frozen {
			t.Errorf("%s: frozen after round %v in the result, want %d", clientKey(c.ID), f, want.frozen)
		}
	}
	if got := r.Result().Steps; got != w.steps {
		t.Errorf("%d steps, want %d", got, w.steps)
	}
}

// sameResult checks client j's line of a stage's result.
func (w *twin) sameResult(t *testing.T, what string, stage *run.StageResult, j int, l surrogate.Loss, predict func([]float64) []float64, lambda float64) {
	t.Helper()
	c, got := w.task.Clients[j], stage.Clients[j]
	same := func(what string, got, want run.Regret) {
		t.Helper()
		if !near(got.Relative, want.Relative, twinTolerance) || !near(got.Absolute, want.Absolute, twinTolerance) {
			t.Errorf("%s of client %d: %+v, want %+v", what, c.ID, got, want)
		}
	}
	if got.Client != c.ID {
		t.Errorf("%sclient %d in place of %d", what, got.Client, c.ID)
	}
	same(what+"regret", got.Regret, regret(c, c.Test, c.Test.Len(), predict, w.task.In))
	if weighed := l.Regularized() || l.Name() == "optnet"; !weighed {
		lambda = 0
	}
	if !near(got.Lambda, lambda, 1e-14) {
		t.Errorf("%sλ of client %d is %v, want %v", what, c.ID, got.Lambda, lambda)
	}
	if (got.Alignment != nil) != (w.cfg.Alignment && lambda > 0) {
		t.Errorf("%salignment of client %d is %v", what, c.ID, got.Alignment)
	} else if got.Alignment != nil {
		if w.cfg.AlignmentMeanLambda && what == "global: " {
			lambda = w.mean
		}
		want := alignmentOf(c, predict, w.task.In, lambda)
		if a := *got.Alignment; !near(a.Gap, want.Gap, twinTolerance) || !near(a.Decision, want.Decision, twinTolerance) || !near(a.Objective, want.Objective, twinTolerance) {
			t.Errorf("%salignment of client %d is %+v, want %+v", what, c.ID, a, want)
		}
	}
	if (got.Validation != nil) != (w.cfg.Validation && c.Val.Len() > 0) {
		t.Errorf("%svalidation of client %d is %v", what, c.ID, got.Validation)
	} else if got.Validation != nil {
		same(what+"validation regret", *got.Validation, regret(c, c.Val, c.Val.Len(), predict, w.task.In))
	}
}

// sameRounds checks lines of the metrics.
func sameRounds(t *testing.T, what string, got []run.Metric, want []twinRound, l surrogate.Loss) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d rounds, want %d", what, len(got), len(want))
	}
	for k, m := range got {
		w := want[k]
		if m.Loss != l.Name() || m.Round != k || !near(m.TrainLoss, w.loss, twinTolerance) || !near(m.Rate, w.rate, 1e-14) {
			t.Errorf("%s, round %d: %+v, want %+v", what, k, m, w)
		}
		if weighed := l.Regularized() || l.Name() == "optnet"; (m.Lambda != nil) != weighed || weighed && !near(*m.Lambda, w.lambda, 1e-14) {
			t.Errorf("%s, round %d: λ %v, want %v", what, k, m.Lambda, w.lambda)
		}
		if (m.Freeze != nil) != l.Regularized() || m.Freeze != nil && !near(*m.Freeze, w.freeze, 1e-12) {
			t.Errorf("%s, round %d: Ũ %v, want %v", what, k, m.Freeze, w.freeze)
		}
	}
}
