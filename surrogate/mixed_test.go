package surrogate_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"fedrspo/internal/stream"
	"fedrspo/oracle"
	"fedrspo/surrogate"
)

// mixedBatch is a batch of l over three sets with rows[k] rows in part k.
func mixedBatch(r *rand.Rand, l surrogate.Loss, d int, rows ...int) *surrogate.Mixed {
	m := &surrogate.Mixed{}
	for k, n := range rows {
		kind := []func(*rand.Rand, int) set{knapsackSet, topKSet, boxSet}[k%3]
		m.Parts = append(m.Parts, surrogate.Batch{Loss: l, Pool: oracle.NewPool(kind(r, d).polytope, 1),
			Targets: surrogate.NewTargets(normals(r, 9*d, 1), d), Rows: r.Perm(9)[:n], Lambda: 0.3 + float64(k),
			Noise: stream.NewFamily(stream.Key{}).Sub(k)})
	}
	return m
}

// TestMixedIsTheMeanOverAllRows: value and gradient are those of the parts,
// weighted with their shares of the rows; parts may be empty.
func TestMixedIsTheMeanOverAllRows(t *testing.T) {
	const d = 4
	for _, l := range everyLoss {
		for _, rows := range [][]int{{3, 1, 4}, {0, 5, 0}, {2, 0, 2, 7}, {1}} {
			r := rand.New(rand.NewPCG(71, 71))
			m := mixedBatch(r, l, d, rows...)
			n := m.Len()
			if want := sum(rows); n != want || m.Dim() != d {
				t.Fatalf("%d rows of %d costs, want %d of %d", n, m.Dim(), want, d)
			}
			// Longer than needed: what lies beyond must stay.
			chat, values, grad := normals(r, (n+1)*d, 1), make([]float64, n+1), make([]float64, (n+1)*d)
			values[n], grad[n*d] = -7, -7
			got, err := m.Eval(chat, values, grad)
			if err != nil {
				t.Fatal(err)
			}
			total, lo := 0.0, 0
			for k, count := range rows {
				if count == 0 {
					continue
				}
				v, g := make([]float64, count), make([]float64, count*d)
				if _, err := m.Parts[k].Eval(chat[lo*d:(lo+count)*d], v, g); err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(values[lo:lo+count], v) {
					t.Errorf("%s: losses %v of part %d, want %v", l.Name(), values[lo:lo+count], k, v)
				}
				for _, x := range v {
					total += x / float64(n)
				}
				want := scaled(float64(count)/float64(n), g)
				// Two products round.
				if gap := norm(sub(grad[lo*d:(lo+count)*d], want)); !(gap <= 1e-15*norm(want)) {
					t.Errorf("%s: gradient of part %d off by %v", l.Name(), k, gap)
				}
				lo += count
			}
			if gap := got - total; gap > 1e-14*(1+norm(values)) || gap < -1e-14*(1+norm(values)) {
				t.Errorf("%s: loss %v, want %v", l.Name(), got, total)
			}
			if values[n] != -7 || grad[n*d] != -7 {
				t.Errorf("%s: Eval wrote beyond its rows", l.Name())
			}
			if allocs := testing.AllocsPerRun(5, func() {
				if _, err := m.Eval(chat, values, grad); err != nil {
					t.Fatal(err)
				}
			}); allocs != 0 {
				t.Errorf("%s: %v allocations", l.Name(), allocs)
			}
		}
	}
}

func sum(v []int) int {
	s := 0
	for _, x := range v {
		s += x
	}
	return s
}

// TestMixedOfOnePart is the bits of its Batch.
func TestMixedOfOnePart(t *testing.T) {
	const d, n = 5, 7
	for _, l := range everyLoss {
		r := rand.New(rand.NewPCG(72, 72))
		m := mixedBatch(r, l, d, n)
		chat := normals(r, n*d, 1)
		v1, g1, v2, g2 := make([]float64, n), make([]float64, n*d), make([]float64, n), make([]float64, n*d)
		a, err := m.Eval(chat, v1, g1)
		if err != nil {
			t.Fatal(err)
		}
		b, err := m.Parts[0].Eval(chat, v2, g2)
		if err != nil {
			t.Fatal(err)
		}
		if a != b || !slices.Equal(v1, v2) || !slices.Equal(g1, g2) {
			t.Errorf("%s: other bits than the batch alone", l.Name())
		}
	}
}

// TestSwitchInGraph: a graph over a Switch follows it from a Batch to a Mixed
// one and back; loss and gradient are the bits of their Eval, and the rows
// beyond have gradient 0.
func TestSwitchInGraph(t *testing.T) {
	const capacity, d = 8, 3
	for _, l := range everyLoss {
		r := rand.New(rand.NewPCG(73, 73))
		mixed := mixedBatch(r, l, d, 2, 0, 3)
		single := &mixedBatch(r, l, d, 6).Parts[0]
		source := &surrogate.Switch{Source: single}
		g := newGraph[float64](t, source, capacity, d, 1)
		for _, s := range []surrogate.Source{single, mixed, single, mixed} {
			source.Source = s
			copy(g.chat, normals(r, capacity*d, 1))
			loss, grad, err := g.run()
			if err != nil {
				t.Fatal(err)
			}
			values, want := make([]float64, capacity), make([]float64, capacity*d)
			v, err := s.Eval(g.chat[:s.Len()*d], values, want)
			if err != nil {
				t.Fatal(err)
			}
			if loss != v || !slices.Equal(grad, want) {
				t.Errorf("%s: the graph gives loss %v and gradient %v, Eval %v and %v", l.Name(), loss, grad, v, want)
			}
		}
		mixed.Parts[2].Rows = []int{0, 1, 2, 3, 4, 5, 6}
		if _, _, err := g.run(); !errors.Is(err, oracle.ErrDimension) || !strings.Contains(err.Error(), "batch of 9 rows in a graph of 8") {
			t.Errorf("%s: 9 rows in a graph of 8: %v", l.Name(), err)
		}
	}
}

// TestMixedErrors name the part.
func TestMixedErrors(t *testing.T) {
	const d = 3
	m := mixedBatch(rand.New(rand.NewPCG(74, 74)), surrogate.OptNet{}, d, 2, 2)
	m.Parts[1].Lambda = 0
	_, err := m.Eval(make([]float64, 4*d), make([]float64, 4), make([]float64, 4*d))
	if !errors.Is(err, oracle.ErrLambda) || !strings.HasPrefix(err.Error(), "part 1: optnet: row 0: ") {
		t.Errorf("got error %v", err)
	}
}
