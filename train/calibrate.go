package train

import (
	"fmt"
	"math"

	"fedrspo/task"
)

// minLambda bounds calibrated λ from below.
const minLambda = 1e-6

// calibrate returns λ_j = max(C̄_j/R_j, 1e-6) of a client with feasible set of
// radius R_j, from costs [n, d]: C̄_j is the mean of |c|₂ over the training
// samples, or |mean c|₂ (Calibration.NormOfMean). Without samples, or with a
// feasible set that is the single point 0, it is the fallback.
func calibrate(costs task.Matrix, radius float64, opt Calibration) (float64, error) {
	n := costs.Len()
	if n == 0 || radius == 0 {
		if !positive(opt.Fallback) {
			return 0, fmt.Errorf("no training data or a feasible set of radius 0, and no fallback lambda")
		}
		return opt.Fallback, nil
	}
	sum := 0.0
	if opt.NormOfMean {
		mean := make([]float64, costs.Cols)
		for i := range n {
			for k, c := range costs.Row(i) {
				mean[k] += c / float64(n)
			}
		}
		sum = norm(mean) * float64(n)
	} else {
		for i := range n {
			sum += norm(costs.Row(i))
		}
	}
	lambda := max(sum/float64(n)/radius, minLambda)
	if math.IsInf(lambda, 1) || math.IsNaN(lambda) {
		return 0, fmt.Errorf("lambda overflows: mean cost norm %v, radius %v", sum/float64(n), radius)
	}
	return lambda, nil
}

// rate returns η_j = αλ_j/4: a step of the order of the loss's curvature, whose
// gradient is 4/λ-Lipschitz (paper, equation 11).
func rate(alpha, lambda float64) float64 { return alpha * lambda / 4 }

// norm is |v|₂, scaled so that no square overflows.
func norm(v []float64) float64 {
	most := 0.0
	for _, x := range v {
		most = max(most, math.Abs(x))
	}
	if most == 0 {
		return 0
	}
	sum := 0.0
	for _, x := range v {
		sum += (x / most) * (x / most)
	}
	return most * math.Sqrt(sum)
}
