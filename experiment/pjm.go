package experiment

import (
	"fmt"
	"strings"

	"fedrspo/task"
	"fedrspo/task/pjm"
	"fedrspo/train"
)

var pjmKind = Kind{
	Name:      "pjm",
	Summary:   "hours to buy energy in, day-ahead prices of 19 zones of PJM; generated, or the published or your own table with -data",
	Data:      Data{Clients: 19, Days: 403},
	DataFlags: []string{"data", "clients", "days", "data-seed", "demand", "train-days", "late-client"},
	DirFlags:  []string{"data", "demand", "train-days", "late-client"},
	Models:    []string{"mlp", "linear"},
	Alignment: true,
	Check:     checkPJM,
	Describe:  describePJM,
	Load:      loadPJM,
	Export:    exportPJM,
	Defaults:  pjmDefaults,
}

// pjmConfig is the configuration of the data, whose seed is their own: as in
// the paper, the seeds of a run shape initial model and training alone.
func pjmConfig(d Data) pjm.Config {
	if d.Dir != "" {
		return pjm.Config{Demand: d.Demand}
	}
	return pjm.Config{Seed: d.DataSeed, Clients: d.Clients, Days: d.Days, Demand: d.Demand}
}

func checkPJM(d Data) error {
	_, err := pjmConfig(d).Resolve()
	return err
}

func describePJM(d Data) string {
	parts := []string{d.Dir}
	if d.Dir == "" {
		parts[0] = fmt.Sprintf("generated prices of %d clients on %d days", d.Clients, d.Days)
	}
	if d.Demand > 0 {
		parts = append(parts, fmt.Sprintf("%d hours a day for all", d.Demand))
	}
	if d.TrainDays > 0 {
		parts = append(parts, fmt.Sprintf("the last %d training days", d.TrainDays))
	}
	if d.LateClient > 0 {
		parts = append(parts, fmt.Sprintf("client %d joins late", d.LateClient))
	}
	return strings.Join(parts, ", ")
}

func pjmDataset(d Data) (*pjm.Dataset, error) {
	if d.Dir != "" {
		return pjm.Load(d.Dir, pjmConfig(d))
	}
	return pjm.Generate(pjmConfig(d))
}

func loadPJM(d Data) (*task.Task, error) {
	ds, err := pjmDataset(d)
	if err != nil {
		return nil, err
	}
	return ds.Recent(d.LateClient, d.TrainDays)
}

func exportPJM(d Data, dir string) error {
	ds, err := pjmDataset(d)
	if err != nil {
		return err
	}
	return ds.Export(dir)
}

// pjmDefaults is paper, section 4.2 and table 10, but for the rounds of
// personalisation, which are those of the authors' program.
func pjmDefaults(regime train.Regime) train.Config {
	c := protocol(regime)
	c.Multipliers = []float64{0.01, 0.025, 0.05}
	c.Fed = train.Stage{
		Rounds: 10, Epochs: 3, Fraction: 0.4, Alpha: 0.01, Rate: 1e-3,
		Tau: 0.03, Monitor: 8, MonitorFraction: 0.4, EarlyStop: -1,
	}
	c.Personal = train.Stage{
		Rounds: 15, Epochs: 1, Fraction: 1, Alpha: 1e-3, Rate: 1e-3,
		KappaLambda: 1, KappaRate: 0.1,
		Tau: 0.03, Monitor: 8, MonitorFraction: 1, EarlyStop: 3,
	}
	if regime != train.Federated {
		// The paper does not give the number: as many passes over a client's data
		// as both stages of the federated regime make.
		c.Personal.Rounds = 45
	}
	return c
}
