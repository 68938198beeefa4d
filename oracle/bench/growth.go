package bench

import (
	"context"
	"time"
)

// InstancesFor returns how many instances of dimension d to measure: thousands,
// but fewer of large ones.
func InstancesFor(d int) int { return min(4096, max(512, 4096*144/d)) }

// MeasureGrowth measures how the time of a solve grows: path polytopes of square
// grids with 12, 18, 24 and 30 cells a side, at lambda 1 and calibrated, cold and
// after a change of 3 %, with one worker; and batches of 1 to 1024 on the
// smallest grid at lambda 1 with each number of workers. Predictions are good.
// Results go to observe as they come. When ctx ends it returns its error at once.
func MeasureGrowth(ctx context.Context, seed int64, workers []int, duration time.Duration, observe func(Result)) error {
	measure := func(p Problem, workers int) error {
		results, err := Measure(ctx, p, workers, duration)
		for _, r := range results {
			observe(r)
		}
		return err
	}
	problem := func(side int) Problem {
		return Problem{
			Oracle: Path, Height: side, Width: side, Predictions: Good, Lambda: Fixed(1),
			Batch: 16, Instances: InstancesFor(side * side), Seed: seed,
		}
	}
	for _, side := range []int{12, 18, 24, 30} {
		for _, lambda := range []Lambda{Fixed(1), Calibrated(1)} {
			for _, warm := range []float64{0, 0.03} {
				p := problem(side)
				p.Lambda, p.Warm = lambda, warm
				if err := measure(p, 1); err != nil {
					return err
				}
			}
		}
	}
	for _, n := range workers {
		for batch := 1; batch <= 1024; batch *= 4 {
			p := problem(12)
			p.Batch = batch
			if err := measure(p, n); err != nil {
				return err
			}
		}
	}
	return nil
}
