// Package experiment knows every task by name, the paper's protocol for each,
// and how to run a setting over losses and seeds. It is the one place where
// hyper-parameters stand as data.
package experiment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"fedrspo/nn"
	"fedrspo/surrogate"
	"fedrspo/task"
	"fedrspo/task/knapsack"
	"fedrspo/train"
)

// Data says which data a task is made of.
type Data struct {
	// Dir holds a dataset to load; empty generates one.
	Dir string
	// Seed of the generator.
	Seed int64
	// EtaObj, EtaConstr and EtaData are the generator's heterogeneity in the
	// objective, the constraint and the features.
	EtaObj, EtaConstr, EtaData float64
	// SharedWeights keeps the item weights of knapsacks equal across clients,
	// so that EtaConstr moves capacities only.
	SharedWeights bool
	// CostsByTrain scales the generated costs of all splits by the training
	// split's mean, instead of each by its own.
	CostsByTrain bool
	// Clients is their number; Train, Val and Test are the samples over all
	// clients. 0 is the paper's number.
	Clients, Train, Val, Test int
	// HoldOut, unless 0, is the share of each client's training samples, drawn
	// with Seed, that replaces its validation samples.
	HoldOut float64
}

// orElse returns d with the sizes of e where d has none.
func (d Data) orElse(e Data) Data {
	d.Clients, d.Train = cmp.Or(d.Clients, e.Clients), cmp.Or(d.Train, e.Train)
	d.Val, d.Test = cmp.Or(d.Val, e.Val), cmp.Or(d.Test, e.Test)
	return d
}

// varies says whether the data depend on the seed.
func (d Data) varies() bool { return d.Dir == "" || d.HoldOut > 0 }

// Kind is a task the module knows.
type Kind struct {
	// Name on the command line, Summary for help texts.
	Name, Summary string
	// Data has the sizes of the paper's data.
	Data Data
	// Check reports settings of generated data that are out of range, without
	// generating.
	Check func(Data) error
	// Load generates or reads the data.
	Load func(Data) (*task.Task, error)
	// Export writes the data as files of the format that Data.Dir reads.
	Export func(d Data, dir string) error
	// Defaults is the paper's protocol (appendix C), for any regime. Loss,
	// model, seed and workers are left to the caller.
	Defaults func(train.Regime) train.Config
}

// Kinds lists the tasks in the order help texts show them.
var Kinds = []Kind{{
	Name:     "knapsack",
	Summary:  "fractional knapsack with 20 clients; generated, or your own data with -data",
	Data:     Data{Clients: 20, Train: 2000, Val: 200, Test: 2000},
	Check:    checkKnapsack,
	Load:     loadKnapsack,
	Export:   exportKnapsack,
	Defaults: knapsackDefaults,
}}

// ByName returns the task of that name.
func ByName(name string) (Kind, error) {
	names := make([]string, len(Kinds))
	for i, k := range Kinds {
		if k.Name == name {
			return k, nil
		}
		names[i] = k.Name
	}
	return Kind{}, fmt.Errorf("unknown task %q, want one of %s", name, strings.Join(names, ", "))
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
	c := train.Config{
		Regime:      regime,
		Batch:       64,
		Adam:        nn.Adam{Clip: 1},
		Rates:       train.RatePaper,
		Calibration: train.Calibration{Fallback: 1},
		Multipliers: []float64{0.05, 0.1, 0.25},
		Fed: train.Stage{
			Rounds: 10, Epochs: 3, Fraction: 0.4, Alpha: 0.01, Rate: 1e-3,
			Tau: 0.01, Monitor: 8, MonitorFraction: 1, EarlyStop: -1,
		},
		Personal: train.Stage{
			Rounds: 10, Epochs: 1, Fraction: 1, Alpha: 0.01, Rate: 1e-3,
			KappaLambda: 1, KappaRate: 0.1,
			Tau: 0.01, Monitor: 8, MonitorFraction: 1, EarlyStop: 3,
		},
	}
	if regime != train.Federated {
		// The paper does not give the number; 60 reproduces its local-only and
		// centralised SPO+ (tables 14 and 18).
		c.Personal.Rounds = 60
	}
	return c
}

// NewModel returns the predictor of that name for a task.
func NewModel(name string, t *task.Task) (nn.Model, error) {
	switch name {
	case "mlp":
		return nn.NewMLP(t.In, 64, t.Out), nil
	case "linear":
		return nn.NewLinear(t.In, t.Out), nil
	}
	return nil, fmt.Errorf("unknown model %q, want mlp or linear", name)
}

// LossNames lists the losses for help texts.
func LossNames() []string { return surrogate.Names() }

// Regularized says whether one of the losses has a λ, so that calibration,
// annealing and freezing apply.
func Regularized(losses []surrogate.Loss) bool {
	return slices.ContainsFunc(losses, surrogate.Loss.Regularized)
}

// Losses parses a comma list of loss names.
func Losses(list string) ([]surrogate.Loss, error) {
	var out []surrogate.Loss
	for _, name := range strings.Split(list, ",") {
		l, err := surrogate.ByName(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		for _, o := range out {
			if o == l {
				return nil, fmt.Errorf("loss %q is named twice", l.Name())
			}
		}
		out = append(out, l)
	}
	return out, nil
}
