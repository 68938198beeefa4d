package federation_test

import (
	"errors"
	"fmt"
	"log"

	"fedrspo/federation"
)

// One round of three clients, of which one sends garbage.
func Example() {
	clients := []federation.Client{{ID: 1, Weight: 100}, {ID: 2, Weight: 300}, {ID: 3, Weight: 100}}
	server, err := federation.New(federation.Settings{Seed: 42}, federation.FedAvg{}, clients, []float64{0, 0})
	if err != nil {
		log.Fatal(err)
	}
	plan, err := server.Begin(0)
	if err != nil {
		log.Fatal(err)
	}
	for _, id := range plan.Participants {
		params := []float64{float64(id), 1} // stands for local training from plan.Model
		if id == 3 {
			params = nil
		}
		err := server.Submit(federation.Update{Round: plan.Round, Client: id, Params: params})
		if errors.Is(err, federation.WrongShape) {
			fmt.Println(err)
		}
	}
	report, err := server.Close()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("accepted", report.Accepted, "missing", report.Missing, "model", server.Model())
	// Output:
	// update of client 3 for round 0: wrong number of parameters: got 0, want 2
	// accepted [1 2] missing [3] model [1.75 1]
}
