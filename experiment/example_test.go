package experiment_test

import (
	"context"
	"fmt"
	"log"
	"math"

	"fedrspo/experiment"
	"fedrspo/nn"
	oracle "fedrspo/oracle/knapsack"
	"fedrspo/surrogate"
	"fedrspo/task"
	"fedrspo/train"
)

// Train a predictor on data of your own: here one client, whose three items
// have weights 1, 2 and 3 and a capacity of 3.
func Example() {
	set, err := oracle.New([]float64{1, 2, 3}, 3) // {w in [0,1]^3 : w_1 + 2 w_2 + 3 w_3 <= 3}
	if err != nil {
		log.Fatal(err)
	}
	client := &task.Client{ID: 1, Polytope: set, Train: samples(0, 60), Val: samples(60, 10), Test: samples(70, 30)}
	t := &task.Task{Name: "mine", In: 2, Out: 3, Clients: []*task.Client{client}}
	cfg := experiment.Kinds[0].Defaults(train.Local) // hyper-parameters to start from
	cfg.Loss, cfg.Model = surrogate.RSPOPlus{}, nn.NewMLP(t.In, 64, t.Out)
	run, err := train.New(cfg, t, nil)
	if err == nil {
		err = run.Execute(context.Background())
	}
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("regret below 5 %%: %v\n", run.Result().Personal.Relative < 0.05)
	// Output: regret below 5 %: true
}

// samples makes features x and costs c of samples from..from+n-1; costs are
// negated values, because everything is minimised.
func samples(from, n int) task.Split {
	var x, c []float64
	for i := from; i < from+n; i++ {
		a, b := math.Sin(float64(i)), math.Cos(3*float64(i))
		x = append(x, a, b)
		c = append(c, -(2 + a), -(3 + b), -(4 + 2*a - b))
	}
	return task.Split{X: task.Matrix{Cols: 2, Data: x}, C: task.Matrix{Cols: 3, Data: c}}
}
