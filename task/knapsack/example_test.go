package knapsack_test

import (
	"fmt"
	"log"
	"os"
	"path/filepath"

	"fedrspo/task/knapsack"
)

// The paper's dataset with heterogeneous capacities and weights, as files.
func Example() {
	data, err := knapsack.Generate(knapsack.Config{Seed: 42, EtaConstr: 1})
	if err != nil {
		log.Fatal(err)
	}
	parent, err := os.MkdirTemp("", "")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(parent)
	dir := filepath.Join(parent, "knapsack")
	if err := data.Export(dir); err != nil {
		log.Fatal(err)
	}
	if data, err = knapsack.Load(dir); err != nil {
		log.Fatal(err)
	}
	problem, err := data.Task()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(len(problem.Clients), "clients,", problem.In, "features,", problem.Out, "costs")
	// Output: 20 clients, 8 features, 50 costs
}
