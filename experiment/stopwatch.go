package experiment

import (
	"time"

	"fedrspo/run"
	"fedrspo/train"
)

// stopwatch measures a training run.
type stopwatch struct {
	start time.Time
	cpu   float64 // seconds of the process at the start
}

func startStopwatch() stopwatch {
	cpu, _ := run.Usage()
	return stopwatch{time.Now(), cpu}
}

// nanoseconds is the time since the start.
func (s stopwatch) nanoseconds() int64 { return int64(time.Since(s.start)) }

// timing is what a run took, with the stages it measured by nanoseconds.
func (s stopwatch) timing(loss string, seed int64, stages []train.Spent) run.SeedTiming {
	cpu, peak := run.Usage()
	t := run.SeedTiming{Loss: loss, Seed: seed, WallSeconds: time.Since(s.start).Seconds(), CPUSeconds: cpu - s.cpu, PeakBytes: peak}
	seconds := func(ns int64) float64 { return time.Duration(ns).Seconds() }
	for _, p := range stages {
		st := run.StageTiming{Stage: p.Stage, WallSeconds: seconds(p.Wall), EvaluationSeconds: seconds(p.Evaluation),
			OracleSeconds: seconds(p.Oracle), NetworkSeconds: seconds(p.Network), Steps: p.Steps,
			Projections: p.Projections.Projections, HardProjections: p.Projections.Hard, PositivePairs: p.Projections.Pairs}
		for _, ns := range p.Rounds {
			st.RoundSeconds = append(st.RoundSeconds, seconds(ns))
		}
		t.Stages = append(t.Stages, st)
	}
	return t
}
