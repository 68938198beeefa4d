package experiment

import (
	"cmp"

	"fedrspo/task/warcraft"
)

// Data says which data a task is made of. Fields that do not belong to a task
// are zero.
type Data struct {
	// Dir holds a dataset to load; empty generates one.
	Dir string
	// Seed of the generator, and of what is drawn for loaded data.
	Seed int64
	// Clients is their number; Train, Val and Test are the samples over all
	// clients, Test those of each client where they share them. 0 is the paper's
	// number.
	Clients, Train, Val, Test int

	// EtaObj, EtaConstr and EtaData are the heterogeneity of generated knapsacks
	// in the objective, the constraint and the features.
	EtaObj, EtaConstr, EtaData float64
	// SharedWeights keeps the item weights of knapsacks equal across clients,
	// so that EtaConstr moves capacities only.
	SharedWeights bool
	// CostsByTrain scales the generated costs of all splits by the training
	// split's mean, instead of each by its own.
	CostsByTrain bool
	// HoldOut, unless 0, is the share of each client's training samples, drawn
	// with Seed, that replaces its validation samples.
	HoldOut float64

	// Maps is the number of generated maps, test maps included.
	Maps int
	// Grid is the side of a map in cells; 0 is the paper's.
	Grid int
	// TerrainScale is the heterogeneity of the clients' terrain costs.
	TerrainScale float64
	// PathSet and NegativeCosts are those of warcraft.Config; empty is the
	// paper's.
	PathSet       warcraft.PathSet
	NegativeCosts warcraft.NegativeCosts

	// Days is the number of generated dates of prices, DataSeed the seed of their
	// generator.
	Days     int
	DataSeed int64
	// Demand, unless 0, is the hours that every client needs a day.
	Demand int
	// TrainDays, unless 0, is how many of its training days a client has, the last
	// ones: LateClient, which joins after federated training, or if that is 0
	// every client.
	TrainDays, LateClient int
}

// orElse returns d with the choices of e where d has none.
func (d Data) orElse(e Data) Data {
	d.Clients, d.Train = cmp.Or(d.Clients, e.Clients), cmp.Or(d.Train, e.Train)
	d.Val, d.Test = cmp.Or(d.Val, e.Val), cmp.Or(d.Test, e.Test)
	d.Grid, d.Days = cmp.Or(d.Grid, e.Grid), cmp.Or(d.Days, e.Days)
	d.PathSet, d.NegativeCosts = cmp.Or(d.PathSet, e.PathSet), cmp.Or(d.NegativeCosts, e.NegativeCosts)
	if d.Dir == "" {
		d.Maps = cmp.Or(d.Maps, e.Maps)
	}
	return d
}
