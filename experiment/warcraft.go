package experiment

import (
	"cmp"
	"fmt"

	"fedrspo/task"
	"fedrspo/task/warcraft"
	"fedrspo/train"
)

const (
	// warcraftTest is the paper's number of test maps, testShare that of all
	// maps over it.
	warcraftTest, testShare = 2000, 5
	// maxGrid is the largest side of a map.
	maxGrid = 30
)

// warcraftGrids are the sides of the published maps; the first is the paper's.
var warcraftGrids = []int{12, 18, 24, maxGrid}

var warcraftKind = Kind{
	Name:    "warcraft",
	Summary: "shortest paths on maps seen as pictures; generated, or the published maps with -data",
	Data: Data{Clients: 44, Test: warcraftTest, Grid: 12, TerrainScale: 0.6,
		PathSet: warcraft.WithCycles, NegativeCosts: warcraft.AsIs},
	DataFlags: []string{"data", "clients", "test-samples", "grid", "terrain-scale", "path-set", "negcost"},
	DirFlags:  []string{"data", "clients", "test-samples", "grid", "terrain-scale", "path-set", "negcost"},
	Models:    []string{"resnet", "resnet-conv1x1", "mlp", "linear"},
	Small: &Small{
		Data: Data{Maps: 1500, Clients: 12, Test: 300, Grid: 12, TerrainScale: 0.6,
			PathSet: warcraft.WithCycles, NegativeCosts: warcraft.AsIs},
		Shorten: shortenWarcraft,
		Note:    "A small example with a short protocol; -data generated:10000 has the paper's size, -data FOLDER takes the published maps.",
	},
	Seeded:   true,
	Check:    checkWarcraft,
	Describe: describeWarcraft,
	Load:     loadWarcraft,
	Export:   exportWarcraft,
	Defaults: warcraftDefaults,
}

func warcraftConfig(d Data) warcraft.Config {
	c := warcraft.Config{Seed: d.Seed, Grid: d.Grid, Clients: d.Clients, Scale: &d.TerrainScale, Maps: d.Maps, Test: d.Test,
		PathSet: d.PathSet, NegativeCosts: d.NegativeCosts}
	if c.PathSet == warcraft.DAG {
		c.NegativeCosts = "" // every answer is exact
	}
	return c
}

func checkWarcraft(d Data) error {
	if d.Dir != "" {
		// How many maps there are is known once they are read.
		d.Maps = cmp.Or(d.Test, warcraftTest) + 4*maxGrid
	}
	_, err := warcraftConfig(d).Resolve()
	return err
}

func describeWarcraft(d Data) string {
	from := fmt.Sprintf("%d generated maps", d.Maps)
	if d.Dir != "" {
		from = "maps of " + d.Dir
	}
	return fmt.Sprintf("%s, %d x %d cells, %d clients", from, d.Grid, d.Grid, d.Clients)
}

func warcraftDataset(d Data) (*warcraft.Dataset, error) {
	if d.Dir != "" {
		return warcraft.Load(d.Dir, warcraftConfig(d))
	}
	return warcraft.Generate(warcraftConfig(d))
}

func loadWarcraft(d Data) (*task.Task, error) {
	ds, err := warcraftDataset(d)
	if err != nil {
		return nil, err
	}
	return ds.Task()
}

func exportWarcraft(d Data, dir string) error {
	ds, err := warcraftDataset(d)
	if err != nil {
		return err
	}
	return ds.Export(dir)
}

// warcraftDefaults is paper, section 4.3 and appendix C.
func warcraftDefaults(regime train.Regime) train.Config {
	c := protocol(regime)
	c.Multipliers = []float64{0.05, 0.1, 0.25}
	c.Fed = train.Stage{
		Rounds: 10, Epochs: 3, Fraction: 0.5, Alpha: 1e-3, Rate: 1e-3,
		Tau: 0.01, Monitor: 64, MonitorFraction: 0.25, EarlyStop: -1,
	}
	c.Personal = train.Stage{
		Rounds: 10, Epochs: 2, Fraction: 1, Alpha: 1e-3, Rate: 1e-3,
		KappaLambda: 1, KappaRate: 0.1,
		Tau: 0.01, Monitor: 64, MonitorFraction: 0.25, EarlyStop: 3,
	}
	if regime != train.Federated {
		// The paper trains Warcraft in the federated regime only. These are as
		// many passes over a client's data as it makes there in both stages.
		c.Personal.Rounds = 25
	}
	return c
}

// shortenWarcraft fits the protocol to the small data.
func shortenWarcraft(c *train.Config) {
	c.Fed.Rounds, c.Personal.Rounds = 6, 5
	if c.Regime != train.Federated {
		c.Personal.Rounds = 8
	}
}
