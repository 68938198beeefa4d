package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"fedrspo/oracle/dijkstra"
	"fedrspo/oracle/knapsack"
)

// exportedCase describes one case of an exported file.
type exportedCase struct {
	// Name is the prefix of the case's arrays.
	Name string `json:"name"`
	Problem
	// Results are the times of this module, over all instances.
	Results []Result `json:"results"`
}

// Export measures the problems with one worker and writes rows of their
// instances, evenly spaced, with this module's answers and times, as an npz file
// of NumPy. Warm starts are not exported. Array "meta" is JSON: the machine and,
// in "cases", the problems with their results. Of a case NAME there are, for n
// rows of dimension d,
//
//	NAME.cost    [n, d]  what the linear problem minimises
//	NAME.linear  [n, d]  a minimiser
//	NAME.theta   [n, d]  what is projected; not for Dijkstra, nor the next two
//	NAME.lambda  [n]
//	NAME.project [n, d]  the minimiser of theta.w + (lambda/2)|w|²
//	NAME.set     [n]     the set of the row, from 0
//
// and by set, for paths the row-major cells NAME.source and NAME.sink [sets],
// for knapsacks NAME.a [sets, d] and NAME.b [sets], for top-k NAME.k [sets], and
// for polyhedra {0 <= w <= 1, A w <= b} NAME.A [sets, m, d] and NAME.b [sets, m].
// Two problems of one name are an ErrProblem. When ctx ends it returns its error
// at once. After an error what is written is no file.
func Export(ctx context.Context, out io.Writer, problems []Problem, rows int, duration time.Duration) error {
	npz := newNPZ(out)
	var meta struct {
		Machine Machine        `json:"machine"`
		Cases   []exportedCase `json:"cases"`
	}
	meta.Machine = ThisMachine()
	for _, p := range problems {
		p.Warm = 0
		c := exportedCase{Name: p.Oracle, Problem: p}
		if p.Oracle != Dijkstra {
			c.Name = fmt.Sprintf("%s-%v-%v", p.Oracle, p.Predictions, p.Lambda)
		}
		if slices.ContainsFunc(meta.Cases, func(o exportedCase) bool { return o.Name == c.Name }) {
			return fmt.Errorf("two cases named %s: %w", c.Name, ErrProblem)
		}
		w, err := newWorkload(ctx, p)
		if err != nil {
			return err
		}
		if c.Results, err = w.measure(ctx, 1, duration); err != nil {
			return err
		}
		if err := w.export(npz, c.Name, rows); err != nil {
			return fmt.Errorf("%s: %w", c.Name, err)
		}
		meta.Cases = append(meta.Cases, c)
	}
	text, err := json.Marshal(meta)
	if err != nil {
		return err
	}
	if err := npz.text("meta", text); err != nil {
		return err
	}
	return npz.close()
}

// export writes the arrays of a case.
func (w *workload) export(npz npzWriter, name string, n int) error {
	if n < 1 {
		return fmt.Errorf("%d rows, want 1 or more: %w", n, ErrProblem)
	}
	n = min(n, w.total)
	projects := w.problem.Oracle != Dijkstra
	var cost, linear, theta, lambda, project []float64
	var sets []int64
	dst := make([]float64, w.d)
	for i := range n {
		row := i * w.total / n
		k := w.client(row)
		sets = append(sets, int64(k))
		cost = append(cost, w.row(w.costs, row)...)
		if _, err := w.linear[k].NewLinear().Solve(dst, w.row(w.costs, row)); err != nil {
			return err
		}
		linear = append(linear, dst...)
		if projects {
			theta, lambda = append(theta, w.row(w.theta, row)...), append(lambda, w.lambda[k])
			if _, err := w.sets[k].NewProjector().Project(dst, w.row(w.theta, row), w.lambda[k], nil); err != nil {
				return err
			}
			project = append(project, dst...)
		}
	}
	e := exporter{npz: npz, name: name}
	e.floats("cost", cost, n, w.d)
	e.floats("linear", linear, n, w.d)
	e.ints("set", sets, n)
	if projects {
		e.floats("theta", theta, n, w.d)
		e.floats("lambda", lambda, n)
		e.floats("project", project, n, w.d)
	}
	w.exportSets(&e)
	return e.err
}

// exporter writes arrays of a case until the first error.
type exporter struct {
	npz  npzWriter
	name string
	err  error
}

func (e *exporter) floats(name string, data []float64, shape ...int) {
	if e.err == nil {
		e.err = e.npz.floats(e.name+"."+name, data, shape...)
	}
}

func (e *exporter) ints(name string, data []int64, shape ...int) {
	if e.err == nil {
		e.err = e.npz.ints(e.name+"."+name, data, shape...)
	}
}

// exportSets writes what describes the sets.
func (w *workload) exportSets(e *exporter) {
	n := len(w.sets)
	switch w.problem.Oracle {
	case Knapsack:
		var a, b []float64
		for _, set := range w.sets {
			s := set.(*knapsack.Set)
			for _, x := range s.Weights() {
				a = append(a, x)
			}
			b = append(b, s.Capacity())
		}
		e.floats("a", a, n, w.d)
		e.floats("b", b, n)
	case TopK:
		var k []float64
		for _, set := range w.sets {
			k = append(k, set.(*knapsack.TopK).K())
		}
		e.floats("k", k, n)
	case Polyhedron:
		var a, b []float64
		m := 0
		for k := range w.sets {
			c := allocation(w.problem, k)
			m = len(c.AtMost)
			for _, row := range c.AtMost {
				dense := make([]float64, w.d)
				for t, i := range row.Index {
					dense[i] = row.Value[t]
				}
				a, b = append(a, dense...), append(b, row.RHS)
			}
		}
		e.floats("A", a, n, m, w.d)
		e.floats("b", b, n, m)
	default:
		var source, sink []int64
		for _, set := range w.linear {
			c := set.(*dijkstra.Grid).Config()
			source = append(source, int64(c.Source.Row*c.Width+c.Source.Col))
			sink = append(sink, int64(c.Sink.Row*c.Width+c.Sink.Col))
		}
		e.ints("source", source, n)
		e.ints("sink", sink, n)
	}
}
