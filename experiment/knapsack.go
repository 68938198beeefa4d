package experiment

import (
	"fmt"

	"fedrspo/task"
	"fedrspo/task/knapsack"
	"fedrspo/train"
)

var knapsackKind = Kind{
	Name:    "knapsack",
	Summary: "fractional knapsack with 20 clients; generated, or your own data with -data",
	Data:    Data{Clients: 20, Train: 2000, Val: 200, Test: 2000},
	DataFlags: []string{"data", "eta-obj", "eta-constr", "eta-data", "knapsack-weight-het", "cost-scale",
		"clients", "train-samples", "validation-samples", "test-samples", "hold-out"},
	DirFlags:  []string{"data", "hold-out"},
	Models:    []string{"mlp", "linear"},
	Alignment: true,
	Check:     checkKnapsack,
	Describe:  describeKnapsack,
	Load:      loadKnapsack,
	Export:    exportKnapsack,
	Defaults:  knapsackDefaults,
}

func describeKnapsack(d Data) string {
	switch {
	case d.Dir != "":
		return d.Dir
	case d.EtaObj != 0 || d.EtaConstr != 0 || d.EtaData != 0:
		return fmt.Sprintf("generated data, heterogeneity (%g, %g, %g)", d.EtaObj, d.EtaConstr, d.EtaData)
	}
	return "generated data"
}

func knapsackConfig(d Data) knapsack.Config {
	c := knapsack.Config{Seed: d.Seed, EtaObj: d.EtaObj, EtaConstr: d.EtaConstr, EtaData: d.EtaData,
		Clients: d.Clients, Train: d.Train, Val: d.Val, Test: d.Test, SharedWeights: d.SharedWeights}
	if d.CostsByTrain {
		c.CostScale = knapsack.ByTrain
	}
	return c
}

func checkKnapsack(d Data) error {
	if d.Dir != "" {
		return nil
	}
	_, err := knapsackConfig(d).Resolve()
	return err
}

func knapsackDataset(d Data) (ds *knapsack.Dataset, err error) {
	if d.Dir != "" {
		ds, err = knapsack.Load(d.Dir)
	} else {
		ds, err = knapsack.Generate(knapsackConfig(d))
	}
	if err == nil && d.HoldOut > 0 {
		ds, err = ds.HoldOut(d.HoldOut, d.Seed)
	}
	return ds, err
}

func loadKnapsack(d Data) (*task.Task, error) {
	ds, err := knapsackDataset(d)
	if err != nil {
		return nil, err
	}
	return ds.Task()
}

func exportKnapsack(d Data, dir string) error {
	ds, err := knapsackDataset(d)
	if err != nil {
		return err
	}
	return ds.Export(dir)
}

// knapsackDefaults is paper, section 4.1 and appendix C.2.
func knapsackDefaults(regime train.Regime) train.Config {
	c := protocol(regime)
	c.Multipliers = []float64{0.05, 0.1, 0.25}
	c.Fed = train.Stage{
		Rounds: 10, Epochs: 3, Fraction: 0.4, Alpha: 0.01, Rate: 1e-3,
		Tau: 0.01, Monitor: 8, MonitorFraction: 1, EarlyStop: -1,
	}
	c.Personal = train.Stage{
		Rounds: 10, Epochs: 1, Fraction: 1, Alpha: 0.01, Rate: 1e-3,
		KappaLambda: 1, KappaRate: 0.1,
		Tau: 0.01, Monitor: 8, MonitorFraction: 1, EarlyStop: 3,
	}
	if regime != train.Federated {
		// The paper does not give the number; 60 reproduces its local-only and
		// centralised SPO+ (tables 14 and 18).
		c.Personal.Rounds = 60
	}
	return c
}
