package qp_test

import (
	"fmt"
	"log"

	"fedrspo/oracle/qp"
)

// A workshop makes chairs, tables and shelves from 40 hours of work and 30
// boards, at least one chair for every table. Profits are negated, for the
// solvers minimise.
func ExampleNewPolyhedron() {
	set, err := qp.NewPolyhedron(qp.Constraints{
		Dim:   3,
		Lower: []float64{0, 0, 0},
		Upper: []float64{10, 10, 6},
		AtMost: []qp.Constraint{
			{Value: []float64{2, 5, 3}, RHS: 40},                         // hours
			{Value: []float64{1, 4, 3}, RHS: 30},                         // boards
			{Index: []int{1, 0}, Value: []float64{1, -1}, RHS: 0},        // tables - chairs
			{Index: []int{0, 1, 2}, Value: []float64{1, 1, 1}, RHS: 100}, // redundant
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	cost := []float64{-20, -60, -35}

	plan := make([]float64, 3)
	if _, err := set.NewLinear().Solve(plan, cost); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("most profitable: %.3f, radius at most %.2f\n", plan, set.Radius())

	smooth := set.NewProjector()
	if _, err := smooth.Project(plan, cost, 8, nil); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("regularised:     %.3f\n", plan)

	slope := make([]float64, 3)
	if err := smooth.JVP(slope, []float64{1, 0, 0}); err != nil {
		log.Fatal(err)
	}
	fmt.Printf("better paid chairs move the plan along %.3f\n", slope)
	// Output:
	// most profitable: [5.000 5.000 1.667], radius at most 11.76
	// regularised:     [4.055 4.055 3.241]
	// better paid chairs move the plan along [0.209 0.209 -0.349]
}
