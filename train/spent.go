package train

import (
	"fedrspo/oracle"
	"fedrspo/surrogate"
)

// Spent is where the time of a stage went, in nanoseconds of Config.Clock. It
// differs between equal runs.
type Spent struct {
	// Stage has the name that metrics have.
	Stage string
	// Wall is the time of training, Evaluation that of judging the stage's models
	// on test samples, and on validation samples where the result has them.
	Wall, Evaluation int64
	// Rounds are the parts of Wall that the rounds of a federated stage took.
	Rounds []int64
	// Oracle and Network are sums over the workers: the time in the oracle calls
	// of losses and of the freeze rule, and the rest of training. Where few
	// clients leave cores idle, a call that several goroutines share counts for
	// each of them.
	Oracle, Network int64
	// Steps counts gradient steps.
	Steps int
	// Projections counts those of training.
	Projections oracle.Tally
}

// meter is what a worker measures. Its zero value measures nothing.
type meter struct {
	clock           func() int64
	oracle, network int64
	steps           int
	tally           oracle.Tally
}

// now reads the clock; it is 0 without one.
func (m *meter) now() int64 {
	if m.clock == nil {
		return 0
	}
	return m.clock()
}

// timedSource is a surrogate.Switch that measures its oracle calls.
type timedSource struct {
	surrogate.Switch
	meter *meter
	spent int64
}

// Eval implements surrogate.Source.
func (s *timedSource) Eval(chat, values, grad []float64) (float64, error) {
	from := s.meter.now()
	v, err := s.Switch.Eval(chat, values, grad)
	s.spent += s.meter.now() - from
	return v, err
}

// timed adds what f takes to the worker's oracle time.
func (w *worker) timed(f func() error) error {
	from := w.meter.now()
	err := f()
	w.meter.oracle += int64(w.oracles) * (w.meter.now() - from)
	return err
}

// dropPool forgets the worker's pool and keeps its counts.
func (w *worker) dropPool() {
	if w.pool != nil {
		w.meter.tally.Add(w.pool.Tally())
		w.pool = nil
	}
}

// now reads the run's clock.
func (r *Run) now() int64 {
	if r.cfg.Clock == nil {
		return 0
	}
	return r.cfg.Clock()
}

// begin starts to measure a stage.
func (r *Run) begin(stage string) {
	r.collect(nil)
	r.spent = append(r.spent, Spent{Stage: stage})
	r.since = r.now()
}

// trained ends the training of the stage that is measured.
func (r *Run) trained() {
	s := &r.spent[len(r.spent)-1]
	now := r.now()
	s.Wall, r.since = now-r.since, now
	r.collect(s)
}

// evaluated ends its evaluation.
func (r *Run) evaluated() {
	s := &r.spent[len(r.spent)-1]
	s.Evaluation = r.now() - r.since
	r.collect(nil)
}

// collect moves what the workers measured to s, or forgets it.
func (r *Run) collect(s *Spent) {
	for _, w := range r.workers {
		w.dropPool()
		if s != nil {
			s.Oracle += w.meter.oracle
			s.Network += w.meter.network
			s.Steps += w.meter.steps
			s.Projections.Add(w.meter.tally)
		}
		w.meter = meter{clock: w.meter.clock}
	}
}

// Spent returns where the time of the stages went, those done and the one at
// work; all times are 0 without a Config.Clock.
func (r *Run) Spent() []Spent { return r.spent }
