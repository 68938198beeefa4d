package main

import (
	"fedrspo/internal/graphop"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// meanSquares adds the loss mean (y - target)² over all outputs.
func meanSquares(y *gorgonia.Node, target []float32) (*gorgonia.Node, error) {
	loss, g := graphop.NewScalar[float32](), make([]float32, len(target))
	gT := graphop.Wrap(g, y.Shape()...)
	return graphop.Apply(graphop.Spec{
		Name: "mean squares", Dtype: tensor.Float32, Shape: tensor.ScalarShape(), Wrt: []bool{true},
		Do: func(in []gorgonia.Value) (gorgonia.Value, error) {
			sum, n := 0.0, float64(len(target))
			for i, v := range graphop.Data[float32](in[0]) {
				d := float64(v) - float64(target[i])
				sum += d * d / n
				g[i] = float32(2 * d / n)
			}
			return loss.Set(sum), nil
		},
		Diff: func(in gorgonia.Nodes, out, grad *gorgonia.Node) (gorgonia.Nodes, error) {
			n, err := graphop.Apply(graphop.Spec{Name: "mean squares gradient", Dtype: tensor.Float32, Shape: in[0].Shape(),
				Do: func([]gorgonia.Value) (gorgonia.Value, error) { return gT, nil }}, out, grad)
			return gorgonia.Nodes{n}, err
		},
	}, y)
}
