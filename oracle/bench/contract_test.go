package bench

import (
	"errors"
	"reflect"
	"testing"

	"fedrspo/oracle"
	"fedrspo/oracle/dijkstra"
	"fedrspo/oracle/qp"
)

// The accuracy contract holds, and what is found does not depend on the number
// of workers.
func TestContract(t *testing.T) {
	one, err := CheckContract(t.Context(), 7, 6, 150, 5, 1)
	if err != nil {
		t.Fatal(err)
	}
	if one.Total.Broken > 0 || one.Total.Instances != 150 || one.Warm == 0 || one.Total.Interior == 0 || one.Total.Interior == 150 {
		t.Errorf("%+v", one)
	}
	three, err := CheckContract(t.Context(), 7, 6, 150, 5, 3)
	if err != nil || !reflect.DeepEqual(one, three) {
		t.Errorf("three workers found %+v, one %+v, %v", three, one, err)
	}
	for _, bad := range [][4]int{{1, 5, 10, 1}, {5, 5, 0, 1}, {5, 5, 10, 0}} {
		if _, err := CheckContract(t.Context(), bad[0], bad[1], bad[2], 1, bad[3]); !errors.Is(err, ErrProblem) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// lpProjector answers with a vertex.
type lpProjector struct{ oracle.Linear }

func (p lpProjector) Project(dst, theta []float64, _ float64, _ *oracle.Warm) (oracle.Info, error) {
	return p.Solve(dst, theta)
}

func (lpProjector) JVP([]float64, []float64) error { return nil }

// A wrong answer that calls itself optimal breaks the contract.
func TestContractBreaks(t *testing.T) {
	p := problemOf(Path)
	f, err := newFamily(p, 1)
	if err != nil {
		t.Fatal(err)
	}
	c, err := newContractChecker(p, f, 0)
	if err != nil {
		t.Fatal(err)
	}
	c.projector = lpProjector{c.linear}
	broken := 0
	for i := range 20 {
		o, err := c.check(i)
		if err != nil {
			t.Fatal(err)
		}
		if o.Broken != 0 != (o.broken != "") {
			t.Errorf("%d broken, described as %q", o.Broken, o.broken)
		}
		broken += o.Broken
	}
	// A vertex may be the projection by chance.
	if broken < 15 {
		t.Errorf("only %d of 20 vertices break the contract", broken)
	}
}

// Package qp hands problems with more than wolfePairs pairs to the interior
// point method, which leaves no warm start.
func TestWolfePairs(t *testing.T) {
	cfg := dijkstra.Config{Height: 20, Width: 20, Sink: dijkstra.Cell{Row: 19, Col: 19}}
	grid, err := dijkstra.NewGrid(cfg)
	if err != nil {
		t.Fatal(err)
	}
	path, err := qp.NewPath(grid)
	if err != nil {
		t.Fatal(err)
	}
	for _, pairs := range []int{wolfePairs, wolfePairs + 1} {
		// Isolated pairs of cells whose costs sum to less than 0, with no other
		// such pair.
		theta := make([]float64, 400)
		for v := range theta {
			theta[v] = 1
		}
		for k := range pairs {
			v := (2+3*(k/5))*20 + 2 + 3*(k%5)
			theta[v], theta[v+1] = -0.6, -0.6
		}
		if n := positivePairs(cfg, theta); n != pairs {
			t.Fatalf("%d pairs counted, want %d", n, pairs)
		}
		var warm oracle.Warm
		if _, err := path.NewProjector().Project(make([]float64, 400), theta, 1, &warm); err != nil {
			t.Fatal(err)
		}
		if interior := len(warm.Words) == 0; interior != (pairs > wolfePairs) {
			t.Errorf("%d pairs: interior point method %v", pairs, interior)
		}
	}
}
