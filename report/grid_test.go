package report

import (
	"bytes"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"slices"
	"testing"

	"fedrspo/oracle"
	"fedrspo/task"
	"fedrspo/task/warcraft"
)

// mapDecision is a test sample of a generated Warcraft task with two made-up
// predictions, the second regularised.
func mapDecision(t *testing.T, grid int) *Decision {
	t.Helper()
	d, err := warcraft.Generate(warcraft.Config{Seed: 3, Grid: grid, Clients: 3, Maps: 15, Test: 3})
	if err != nil {
		t.Fatal(err)
	}
	k, err := d.Task()
	if err != nil {
		t.Fatal(err)
	}
	return decisionOf(t, k.Clients[2], 2, 1.5)
}

// decisionOf decides sample i of a client from two noisy predictions; the second
// has a λ.
func decisionOf(t *testing.T, c *task.Client, i int, lambda float64) *Decision {
	t.Helper()
	s := oracle.NewSolver(c.Polytope)
	n := c.Polytope.Dim()
	d := &Decision{Client: c.ID, Sample: i, Why: "made up", View: c.View, Cost: c.Test.C.Row(i), Optimal: make([]float64, n), Regularized: make([]float64, n), Lambda: lambda}
	var err error
	if d.Optimum, err = s.Minimize(d.Optimal, d.Cost); err != nil {
		t.Fatal(err)
	}
	if err := s.Regularize(d.Regularized, d.Cost, lambda, nil); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, loss := range []string{"mse", "rspo+"} {
		m := Decided{Loss: loss, Chat: make([]float64, n), W: make([]float64, n)}
		for k, x := range d.Cost {
			m.Chat[k] = x * (0.5 + r.Float64())
		}
		if _, err := s.Minimize(m.W, m.Chat); err != nil {
			t.Fatal(err)
		}
		m.Cost = dot(d.Cost, m.W)
		if loss == "rspo+" {
			m.Lambda, m.Regularized = lambda, make([]float64, n)
			if err := s.Regularize(m.Regularized, m.Chat, lambda, nil); err != nil {
				t.Fatal(err)
			}
			m.RegularizedCost = dot(d.Cost, m.Regularized)
		}
		d.Methods = append(d.Methods, m)
	}
	return d
}

// decode draws a figure and reads it back, as a viewer does.
func decode(t *testing.T, f *figure) image.Image {
	t.Helper()
	data, err := f.encode()
	if err != nil {
		t.Fatal(err)
	}
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// sameColor allows a step for rounding.
func sameColor(a, b color.Color) bool {
	p, q := color.NRGBAModel.Convert(a).(color.NRGBA), color.NRGBAModel.Convert(b).(color.NRGBA)
	near := func(x, y uint8) bool { return max(x, y)-min(x, y) <= 1 }
	return near(p.R, q.R) && near(p.G, q.G) && near(p.B, q.B)
}

// TestGridFigure looks at the middle of every cell of every panel: paths are
// where the decisions are, and nowhere else; all other cells have the colour of
// their number, or of the map.
func TestGridFigure(t *testing.T) {
	for _, side := range []int{12, 18} {
		d := mapDecision(t, side)
		for _, pictured := range []bool{true, false} {
			if !pictured {
				d.View.Picture = nil
			}
			l := newGridLayout(d)
			img := decode(t, gridFigure(d))
			if w, h := l.size(); img.Bounds() != image.Rect(0, 0, w, h) {
				t.Fatalf("the picture is %v, want %d x %d", img.Bounds(), w, h)
			}
			if l.rows != 3 || l.cols != 3 {
				t.Fatalf("%d rows and %d columns", l.rows, l.cols)
			}
			costs, amounts := scaleOver(viridis, d.Cost, d.Methods[0].Chat, d.Methods[1].Chat), scale{lo: 0, hi: 1, stops: blues}
			// nearEnd says that an endpoint's mark may reach the cell.
			nearEnd := func(cell int) bool {
				for _, end := range []int{d.View.Grid.Source, d.View.Grid.Sink} {
					if max(abs(cell%side-end%side), abs(cell/side-end/side)) <= 1 {
						return true
					}
				}
				return false
			}
			panel := func(row, col int, what string, want func(cell int) color.Color) {
				t.Helper()
				on := 0
				for cell := range d.Cost {
					if nearEnd(cell) {
						continue
					}
					at := l.center(row, col, cell)
					if got := img.At(int(at[0]), int(at[1])); !sameColor(got, want(cell)) {
						t.Errorf("side %d, %s: cell %d is %v, want %v", side, what, cell, got, want(cell))
						return
					}
					on++
				}
				if on < len(d.Cost)-18 {
					t.Errorf("%s: only %d cells seen", what, on)
				}
			}
			on := func(w []float64, style pathStyle, below func(int) color.Color) func(int) color.Color {
				return func(cell int) color.Color {
					if w[cell] == 1 {
						return style.core
					}
					return below(cell)
				}
			}
			heat := func(v []float64, s scale) func(int) color.Color {
				return func(cell int) color.Color { return s.color(v[cell]) }
			}
			ground := heat(d.Cost, costs)
			if pictured {
				m := d.View.Picture(d.Sample)
				ground = func(cell int) color.Color {
					at, p := l.center(1, 0, cell), l.panel(1, 0)
					return m.At((int(at[0])-p.Min.X)*m.Bounds().Dx()/p.Dx(), (int(at[1])-p.Min.Y)*m.Bounds().Dy()/p.Dy())
				}
				panel(0, 0, "map", on(d.Optimal, optimalPath, ground))
			}
			panel(0, 1, "true cost", on(d.Optimal, optimalPath, heat(d.Cost, costs)))
			panel(0, 2, "regularised at c", heat(d.Regularized, amounts))
			for k, m := range d.Methods {
				panel(k+1, 0, m.Loss+" on the map", on(m.W, predictedPath, on(d.Optimal, optimalPath, ground)))
				panel(k+1, 1, m.Loss+" prediction", on(m.W, predictedPath, heat(m.Chat, costs)))
			}
			panel(2, 2, "rspo+ regularised", heat(d.Methods[1].Regularized, amounts))
			panel(1, 2, "mse, not regularised", func(int) color.Color { return white })
		}
	}
}

func abs(x int) int { return max(x, -x) }

// TestTrace follows paths of the oracle cell by cell, and finds none where cells
// do not touch.
func TestTrace(t *testing.T) {
	d := mapDecision(t, 12)
	for _, w := range [][]float64{d.Optimal, d.Methods[0].W, d.Methods[1].W} {
		path := trace(d.View.Grid, w)
		sum := 0.0
		for _, x := range w {
			sum += x
		}
		if len(path) != int(sum) || path[0] != d.View.Grid.Source || path[len(path)-1] != d.View.Grid.Sink {
			t.Errorf("%d cells of %v: %v", len(path), sum, path)
		}
		for k := 1; k < len(path); k++ {
			if a, b := path[k-1], path[k]; w[b] != 1 || max(abs(a%12-b%12), abs(a/12-b/12)) != 1 {
				t.Errorf("a step from %d to %d", a, b)
			}
		}
	}
	g := &task.Grid{Height: 2, Width: 4, Source: 0, Sink: 3}
	// A cycle apart from the path is no part of it; a gap ends it.
	if got := trace(g, []float64{1, 1, 1, 1, 0, 0, 0, 1}); !slices.Equal(got, []int{0, 1, 2, 3}) {
		t.Errorf("got %v", got)
	}
	if got := trace(g, []float64{1, 1, 0, 1, 1, 0.2, 0.4, 0}); got != nil {
		t.Errorf("a path over a gap: %v", got)
	}
}

// TestNarrowGrids: any shape of grid gets panels that do not overlap.
func TestNarrowGrids(t *testing.T) {
	for _, shape := range [][2]int{{1, 2}, {1, 40}, {40, 1}, {3, 5}, {500, 2}} {
		n := shape[0] * shape[1]
		ones := slices.Repeat([]float64{1}, n)
		d := &Decision{View: task.View{Grid: &task.Grid{Height: shape[0], Width: shape[1], Sink: n - 1}}, Cost: ones, Optimal: ones, Optimum: float64(n),
			Methods: []Decided{{Loss: "a", Chat: make([]float64, n), W: ones, Cost: float64(n)}}}
		if err := d.check(); err != nil {
			t.Fatal(err)
		}
		l := newGridLayout(d)
		img := decode(t, gridFigure(d))
		for row := range l.rows {
			for col := range l.cols {
				if !l.panel(row, col).In(img.Bounds()) || col > 0 && l.panel(row, col).Overlaps(l.panel(row, col-1)) || row > 0 && l.panel(row, col).Overlaps(l.panel(row-1, col)) {
					t.Errorf("%v: panel %d, %d is %v in %v", shape, row, col, l.panel(row, col), img.Bounds())
				}
			}
		}
	}
}
