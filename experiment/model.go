package experiment

import (
	"fmt"
	"math"

	"fedrspo/nn"
	"fedrspo/resnet"
	"fedrspo/task"
)

// modelNames lists the networks for help texts.
var modelNames = []string{"mlp", "linear", "resnet", "resnet-conv1x1"}

// NewModel returns the predictor of that name for a task.
func NewModel(name string, t *task.Task) (nn.Model, error) {
	switch name {
	case "mlp":
		return nn.NewMLP(t.In, 64, t.Out), nil
	case "linear":
		return nn.NewLinear(t.In, t.Out), nil
	case "resnet", "resnet-conv1x1":
		cfg := resnet.Config{Grid: int(math.Round(math.Sqrt(float64(t.Out))))}
		if name == "resnet-conv1x1" {
			cfg.Head = resnet.Conv1x1
		}
		m, err := resnet.New(cfg)
		if err != nil {
			return nil, err
		}
		if m.In() != t.In || m.Out() != t.Out {
			return nil, fmt.Errorf("model %s maps images of 8G x 8G x 3 numbers to G x G costs, task %s has %d features and %d costs", name, t.Name, t.In, t.Out)
		}
		return m, nil
	}
	return nil, fmt.Errorf("unknown model %q, want one of %v", name, modelNames)
}

// modelPrecision is what the paper trains a network in (appendix C).
func modelPrecision(name string) nn.Precision {
	switch name {
	case "resnet", "resnet-conv1x1":
		return nn.Float32
	}
	return nn.Float64
}

// hasStatistics says whether a network has running statistics.
func hasStatistics(name string) bool { return modelPrecision(name) == nn.Float32 }
