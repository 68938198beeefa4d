package bench

import (
	"fmt"
	"slices"
	"strings"
)

// Names of the oracles of a Problem.
const (
	Dijkstra   = "dijkstra"
	Path       = "path"
	Knapsack   = "knapsack"
	TopK       = "topk"
	Polyhedron = "polyhedron"
)

// Oracles returns the names in the order in which they are reported.
func Oracles() []string { return []string{Dijkstra, Path, Knapsack, TopK, Polyhedron} }

// Problem describes a family of instances of one oracle.
type Problem struct {
	// Oracle is one of Oracles. Dijkstra has no projection; Path is its set with
	// one.
	Oracle string `json:"oracle"`
	// Height and Width are the grid of Dijkstra and Path, from 2 to 64 cells
	// each.
	Height int `json:"height,omitempty"`
	Width  int `json:"width,omitempty"`
	// Dim is the number of variables of the other oracles, from 2 to 100000,
	// of a Polyhedron to 1000.
	Dim int `json:"dim,omitempty"`
	// Labels asks of Dijkstra for the paper's choice among ties.
	Labels bool `json:"labels,omitempty"`
	// Predictions and Lambda shape what is projected.
	Predictions Quality `json:"predictions"`
	Lambda      Lambda  `json:"lambda"`
	// Warm is the share by which predictions changed since the warm start, 0
	// to 1; 0 is a cold start.
	Warm float64 `json:"warm"`
	// Batch is how many instances of one client are solved in one call.
	Batch int `json:"batch"`
	// Instances is the number of distinct ones.
	Instances int `json:"instances"`
	// Seed makes other instances.
	Seed int64 `json:"seed"`
}

// onGrid says whether the oracle is one of shortest paths.
func (p Problem) onGrid() bool { return p.Oracle == Dijkstra || p.Oracle == Path }

// Size returns the shape as text, 12x12 or 50.
func (p Problem) Size() string {
	if p.onGrid() {
		return fmt.Sprintf("%dx%d", p.Height, p.Width)
	}
	return fmt.Sprint(p.Dim)
}

const (
	maxSide       = 64
	maxDim        = 100_000
	maxPolyhedron = 1000
	maxInstances  = 1 << 20
	// maxNumbers bounds the memory of a workload, in float64 of one of its
	// arrays.
	maxNumbers = 1 << 27
)

// Check returns an ErrProblem that says what is wrong with p.
func (p Problem) Check() error {
	d := p.Dim
	switch {
	case !slices.Contains(Oracles(), p.Oracle):
		return fmt.Errorf("oracle %q, want %s: %w", p.Oracle, strings.Join(Oracles(), ", "), ErrProblem)
	case p.onGrid():
		if min(p.Height, p.Width) < 2 || max(p.Height, p.Width) > maxSide {
			return fmt.Errorf("grid %dx%d, want sides from 2 to %d: %w", p.Height, p.Width, maxSide, ErrProblem)
		}
		d = p.Height * p.Width
	case p.Dim < 2 || p.Dim > maxDim:
		return fmt.Errorf("dimension %d, want 2 to %d: %w", p.Dim, maxDim, ErrProblem)
	case p.Oracle == Polyhedron && p.Dim > maxPolyhedron:
		return fmt.Errorf("polyhedron of dimension %d, want at most %d: %w", p.Dim, maxPolyhedron, ErrProblem)
	}
	switch {
	case p.Predictions < 0 || int(p.Predictions) >= len(Qualities()):
		return fmt.Errorf("%v: %w", p.Predictions, ErrProblem)
	case !(p.Warm >= 0 && p.Warm <= 1):
		return fmt.Errorf("warm start after a change of %v, want 0 to 1: %w", p.Warm, ErrProblem)
	case p.Instances < 1 || p.Instances > maxInstances:
		return fmt.Errorf("%d instances, want 1 to %d: %w", p.Instances, maxInstances, ErrProblem)
	case p.Instances*d > maxNumbers:
		return fmt.Errorf("%d instances of dimension %d, want at most %d numbers in all: %w", p.Instances, d, maxNumbers, ErrProblem)
	case p.Batch < 1 || p.Batch > p.Instances:
		return fmt.Errorf("batch of %d, want 1 to the number of instances, %d: %w", p.Batch, p.Instances, ErrProblem)
	}
	if p.Oracle == Dijkstra {
		return nil
	}
	return p.Lambda.check()
}
