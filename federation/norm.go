package federation

import "math"

// change is ‖params - model‖ as scaled·2^600 or, where that says too little, as
// scaled: squares of numbers near the end of their range overflow.
type change struct {
	scaled float64
	h      float64 // 1, or 2^-600 if scaled is of a change times that
}

// changeOf returns the norm of params - model, of finite numbers.
func changeOf(params, model []float64) change {
	c := change{h: 1}
	if c.sum(params, model); math.IsInf(c.scaled, 1) {
		c.h = 0x1p-600
		c.sum(params, model)
	}
	return c
}

func (c *change) sum(params, model []float64) {
	sum := 0.0
	model = model[:len(params)]
	for k, x := range params {
		d := float64(x*c.h) - float64(model[k]*c.h)
		sum += float64(d * d)
	}
	c.scaled = math.Sqrt(sum)
}

// exceeds says whether the norm is above bound.
func (c change) exceeds(bound float64) bool { return c.scaled > bound*c.h }

// norm returns the norm, which may be infinite.
func (c change) norm() float64 { return c.scaled / c.h }

// clipped returns model + (params - model) bound/norm.
func (c change) clipped(params, model []float64, bound float64) []float64 {
	out := make([]float64, len(params))
	factor := bound / c.scaled
	for k, x := range params {
		out[k] = model[k] + float64((float64(x*c.h)-float64(model[k]*c.h))*factor)
	}
	return out
}
