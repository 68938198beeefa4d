package bench

import (
	"context"
	"math"
	"time"

	"fedrspo/internal/stream"
	"fedrspo/oracle"
	"fedrspo/oracle/synthetic"
)

// The simulated training: each of the clients visits its samples once an epoch.
const (
	trajectoryEpochs  = 12
	trajectorySamples = 16
	// trajectoryPace is the number of epochs in which the distance to the final
	// predictions falls by a factor e.
	trajectoryPace = 2
	// trajectoryNoise is the relative size of the change of an epoch beside
	// that progress.
	trajectoryNoise = 0.02
)

// MeasureTrajectory times the projections of a simulated training on a grid
// with one worker: predictions go from those of an untrained network to medium
// ones, at the calibrated lambda, and every projection but a sample's first
// starts from its last. It returns what Measure returns for the mean over the
// training. It stands in for a recorded training; it is none.
func MeasureTrajectory(ctx context.Context, height, width int, seed int64, duration time.Duration) ([]Result, error) {
	p := Problem{
		Oracle: Path, Height: height, Width: width, Predictions: Medium, Lambda: Calibrated(1),
		Batch: trajectorySamples, Instances: maxClients * trajectorySamples, Seed: seed,
	}
	w, err := newWorkload(ctx, p)
	if err != nil {
		return nil, err
	}
	final := w.predictions(Medium)
	now := w.predictions(Init)
	samples := w.total
	w.ordered = true
	w.total *= trajectoryEpochs
	w.problem.Instances = w.total
	w.starts = make([][]uint64, w.total)
	costs := w.costs
	w.costs, w.theta = nil, nil
	projectors := make([]oracle.Projector, len(w.sets))
	for k, set := range w.sets {
		projectors[k] = set.NewProjector()
	}
	warm := make([]oracle.Warm, samples)
	dst := make([]float64, w.d)
	step := 1 - math.Exp(-1.0/trajectoryPace)
	for epoch := range trajectoryEpochs {
		for i := range samples {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			w.starts[epoch*samples+i] = append([]uint64(nil), warm[i].Words...)
			theta := synthetic.LossPoint(w.row(costs, i), w.row(now, i))
			// A batch of every client an epoch: clients recur in the same order.
			k := w.client(epoch*samples + i)
			if _, err := projectors[k].Project(dst, theta, w.lambda[k], &warm[i]); err != nil {
				return nil, err
			}
			w.theta = append(w.theta, theta...)
			predicted := w.row(now, i)
			synthetic.Move(stream.New(stream.Key{Seed: seed, Purpose: "bench trajectory", Client: i, Epoch: epoch}), predicted, trajectoryNoise)
			for v, to := range w.row(final, i) {
				predicted[v] = max(predicted[v]+step*(to-predicted[v]), 0)
			}
		}
		w.costs = append(w.costs, costs...)
	}
	return w.measure(ctx, 1, duration)
}

// predictions draws predictions of every row's costs.
func (w *workload) predictions(q Quality) []float64 {
	var out []float64
	for i := range w.total {
		r := stream.New(stream.Key{Seed: w.problem.Seed, Purpose: "bench predictions " + q.String(), Client: i})
		out = append(out, w.predict(r, w.row(w.costs, i), q)...)
	}
	return out
}
