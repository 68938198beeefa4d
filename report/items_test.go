package report

import (
	"fmt"
	"image"
	"image/color"
	"math"
	"slices"
	"strings"
	"testing"

	"fedrspo/run"
	"fedrspo/task/knapsack"
)

// itemsDecision is a test sample of a small knapsack.
func itemsDecision(t *testing.T) *Decision {
	t.Helper()
	d, err := knapsack.Generate(knapsack.Config{Seed: 2, Clients: 2, Train: 20, Val: 4, Test: 8, EtaConstr: 0.5})
	if err != nil {
		t.Fatal(err)
	}
	k, err := d.Task()
	if err != nil {
		t.Fatal(err)
	}
	return decisionOf(t, k.Clients[1], 1, 0.4)
}

// TestItemsFigure: the strips show, in the order of value per size, the amounts
// of every decision; the bars above reach the true values.
func TestItemsFigure(t *testing.T) {
	d := itemsDecision(t)
	p := &Page{Results: []run.Result{{Loss: "mse"}, {Loss: "rspo+"}}}
	l := newItemsLayout(d)
	img := decode(t, p.itemsFigure(d))
	if w, h := l.size(); img.Bounds() != image.Rect(0, 0, w, h) {
		t.Fatalf("the picture is %v, want %d x %d", img.Bounds(), w, h)
	}
	order := d.order()
	for k := 1; k < len(order); k++ {
		a, b := order[k-1], order[k]
		if d.Cost[a]*d.View.Size[b] > d.Cost[b]*d.View.Size[a]+1e-12 {
			t.Errorf("items %d and %d are in the wrong order", a, b)
		}
	}
	amounts := scale{lo: 0, hi: 1, stops: blues}
	want := [][]float64{d.Optimal, d.Regularized, d.Methods[0].W, d.Methods[1].W, d.Methods[1].Regularized}
	if len(strips(d)) != len(want) {
		t.Fatalf("%d strips, want %d", len(strips(d)), len(want))
	}
	for row, w := range want {
		for at, item := range order {
			r := l.strip(row, at)
			if got := img.At((r.Min.X+r.Max.X)/2, (r.Min.Y+r.Max.Y)/2); !sameColor(got, amounts.color(w[item])) {
				t.Fatalf("strip %d, item %d at %d: %v, want %v for %v", row, item, at, got, amounts.color(w[item]), w[item])
			}
		}
	}
	// The optimal amounts of a knapsack in this order are ones, at most one
	// fraction, and zeros.
	for at := 1; at < len(order); at++ {
		if a, b := d.Optimal[order[at-1]], d.Optimal[order[at]]; b > a {
			t.Errorf("amount %v after %v", b, a)
		}
	}
	// Nothing reaches beyond the picture: the border is white.
	for x := range img.Bounds().Dx() {
		for _, y := range []int{0, img.Bounds().Dy() - 1} {
			if !sameColor(img.At(x, y), color.White) {
				t.Fatalf("(%d, %d) is %v", x, y, img.At(x, y))
			}
		}
	}
}

// TestItemsValues: people see values, not negated costs, and how a decision
// differs from the best one.
func TestItemsValues(t *testing.T) {
	d := itemsDecision(t)
	for k, s := range strips(d) {
		cost := dot(d.Cost, s.w)
		if want := "value " + short(-cost) + ", "; !strings.HasPrefix(s.right, want) {
			t.Errorf("strip %d says %q, want %q", k, s.right, want)
		}
		if k > 0 && !strings.Contains(s.right, fmt.Sprintf("\u2212%.2f %%", 100*(cost-d.Optimum)/math.Abs(d.Optimum))) {
			t.Errorf("strip %d says %q for %v of %v", k, s.right, cost, d.Optimum)
		}
	}
	d.View.Negated, d.View.Value, d.View.Size = false, "", nil
	if got := strips(d)[2].right; !strings.HasPrefix(got, "cost "+short(d.Methods[0].Cost)) || !strings.Contains(got, "+") {
		t.Errorf("a plain cost: %q", got)
	}
	if !slices.IsSorted(d.order()) {
		t.Errorf("without sizes: %v", d.order())
	}
	for _, c := range []struct {
		cost, optimum float64
		want          string
	}{{11, 10, "+10.00 %"}, {-9, -10, "+10.00 %"}, {10, 10, "optimal"}, {1, 0, "optimum 0"}, {9, 10, "\u221210.00 %"}} {
		if got := more(c.cost, c.optimum); got != c.want {
			t.Errorf("%v against %v: %q, want %q", c.cost, c.optimum, got, c.want)
		}
	}
}

// TestManyItems: long lists fit, and so does a single entry.
func TestManyItems(t *testing.T) {
	for _, n := range []int{1, 2, 1000} {
		v := make([]float64, n)
		d := &Decision{Cost: v, Optimal: v, Methods: []Decided{{Loss: "a", Chat: v, W: v}}}
		if err := d.check(); err != nil {
			t.Fatal(err)
		}
		p := &Page{Results: []run.Result{{Loss: "a"}}}
		img := decode(t, p.itemsFigure(d))
		l := newItemsLayout(d)
		if r := l.strip(1, n-1); !r.In(img.Bounds()) || l.cell < 1 {
			t.Errorf("%d entries: the last is at %v in %v", n, r, img.Bounds())
		}
	}
}
