package report

import (
	"fmt"
	"image"
	"math"
	"slices"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// itemsLayout places the figure of a decision that is a list of entries, in
// pixels from the top left: the values of all entries above, and below a strip of
// cells for each decision.
type itemsLayout struct {
	// cell is the width of an entry, n their number, strips that of decisions.
	cell, n, strips int
}

const (
	itemsLeft   = 236 // of the cells
	itemsRight  = 260
	itemsTop    = 36
	itemsValues = 240 // height of the plot of values
	itemsGap    = 20
	itemsStrip  = 26
	itemsBottom = 96
)

func newItemsLayout(d *Decision) itemsLayout {
	l := itemsLayout{n: len(d.Cost), strips: len(strips(d))}
	l.cell = min(max(880/l.n, 1), 60)
	return l
}

func (l itemsLayout) size() (w, h int) {
	return itemsLeft + l.n*l.cell + itemsRight, itemsTop + itemsValues + itemsGap + l.strips*itemsStrip + itemsBottom
}

// strip is where the cell of the entry at a position in a strip is.
func (l itemsLayout) strip(row, at int) image.Rectangle {
	x, y := itemsLeft+at*l.cell, itemsTop+itemsValues+itemsGap+row*itemsStrip
	return image.Rect(x, y, x+l.cell, y+itemsStrip-4)
}

// strip is one row of amounts.
type strip struct {
	text, right string
	w           []float64
}

// strips lists the decisions to show: the best, then those of every method.
func strips(d *Decision) []strip {
	rows := []strip{{"optimal", d.objective(d.Optimum), d.Optimal}}
	if d.Regularized != nil {
		rows = append(rows, strip{fmt.Sprintf("regularised, λ = %s", short(d.Lambda)), d.objective(dot(d.Cost, d.Regularized)), d.Regularized})
	}
	for _, m := range d.Methods {
		rows = append(rows, strip{m.Loss, d.objective(m.Cost), m.W})
		if m.Regularized != nil {
			rows = append(rows, strip{fmt.Sprintf("%s, regularised, λ = %s", m.Loss, short(m.Lambda)), d.objective(m.RegularizedCost), m.Regularized})
		}
	}
	return rows
}

// objective is the true cost of a decision as people know it, and how it differs
// from the best.
func (d *Decision) objective(cost float64) string {
	sign := 1.0
	if d.View.Negated {
		sign = -1
	}
	return fmt.Sprintf("%s %s, %s", d.valueName(), short(sign*cost), difference(cost, d.Optimum, sign))
}

func (d *Decision) valueName() string {
	if d.View.Value != "" {
		return d.View.Value
	}
	return "cost"
}

func (d *Decision) entryName() string {
	if d.View.Entry != "" {
		return d.View.Entry
	}
	return "entry"
}

// order lists the entries as the figure shows them: with sizes, the best value
// or least cost per size first, else as they are numbered.
func (d *Decision) order() []int {
	out := make([]int, len(d.Cost))
	for i := range out {
		out[i] = i
	}
	if d.View.Size != nil {
		slices.SortStableFunc(out, func(a, b int) int {
			x, y := d.Cost[a]/d.View.Size[a], d.Cost[b]/d.View.Size[b]
			switch {
			case x < y:
				return -1
			case x > y:
				return 1
			}
			return 0
		})
	}
	return out
}

// itemsFigure draws a decision over a list of entries.
func (p *Page) itemsFigure(d *Decision) *figure {
	l := newItemsLayout(d)
	w, h := l.size()
	f := newFigure(vg.Length(w)/perPoint, vg.Length(h)/perPoint)
	order := d.order()
	sign := 1.0
	if d.View.Negated {
		sign = -1
	}
	value := func(v []float64, at int) float64 { return sign * v[order[at]] }

	// Values, true and predicted.
	lo, hi := 0.0, 0.0
	for at := range order {
		lo, hi = min(lo, value(d.Cost, at)), max(hi, value(d.Cost, at))
		for _, m := range d.Methods {
			lo, hi = min(lo, value(m.Chat, at)), max(hi, value(m.Chat, at))
		}
	}
	if hi == lo {
		hi = lo + 1
	}
	y := func(v float64) float64 { return itemsTop + itemsValues*(1-(v-lo)/(hi-lo)) }
	right := float64(itemsLeft + l.n*l.cell)
	for _, t := range (niceTicks{}).Ticks(lo, hi) {
		f.line(faint, 0.5, [2]float64{itemsLeft, y(t.Value)}, [2]float64{right, y(t.Value)})
		f.write(label(smallSize, text.XRight, text.YCenter), itemsLeft-8, y(t.Value), t.Label)
	}
	name := label(smallSize, text.XCenter, text.YCenter)
	name.Rotation = math.Pi / 2
	f.write(name, itemsLeft-76, itemsTop+itemsValues/2, fmt.Sprintf("%s of each %s", d.valueName(), d.entryName()))
	gap := min(2, l.cell/4)
	for at := range order {
		a, b := y(0), y(value(d.Cost, at))
		x := itemsLeft + at*l.cell
		f.fill(image.Rect(x+gap, int(math.Round(min(a, b))), x+l.cell-gap, int(math.Round(max(a, b)))), trueBar)
	}
	f.line(grey, 0.75, [2]float64{itemsLeft, y(0)}, [2]float64{right, y(0)})
	keys := []key{{text: "true", color: trueBar, shape: draw.BoxGlyph{}}}
	for _, m := range d.Methods {
		c, shape := p.style(m.Loss)
		keys = append(keys, key{text: "predicted by " + m.Loss, color: c, shape: shape})
		for at := range order {
			f.mark(c, 1.8, shape, float64(itemsLeft+at*l.cell)+float64(l.cell)/2, y(value(m.Chat, at)))
		}
	}
	legend(f, vg.Length(w)/perPoint, keys)

	// Decisions.
	rows := strips(d)
	amounts := scale{stops: blues, hi: 1}
	for _, s := range rows {
		amounts.hi = max(amounts.hi, slices.Max(s.w))
	}
	for k, s := range rows {
		first, last := l.strip(k, 0), l.strip(k, l.n-1)
		f.fill(image.Rectangle{first.Min, last.Max}.Inset(-1), grey)
		for at := range order {
			f.fill(l.strip(k, at), amounts.color(s.w[order[at]]))
		}
		middle := float64(first.Min.Y+first.Max.Y) / 2
		f.write(label(smallSize, text.XRight, text.YCenter), itemsLeft-10, middle, s.text)
		f.write(label(smallSize, text.XLeft, text.YCenter), float64(last.Max.X+10), middle, s.right)
	}
	below := l.strip(l.strips, 0).Min.Y
	caption := fmt.Sprintf("%ss in the order of their numbers", d.entryName())
	if d.View.Size != nil {
		caption = fmt.Sprintf("%ss, the best true %s per size first", d.entryName(), d.valueName())
	}
	f.write(label(smallSize, text.XLeft, text.YTop), itemsLeft, float64(below+2), caption)
	amount := d.View.Amount
	if amount == "" {
		amount = "amount"
	}
	const width, height = 160, 14
	x, top := itemsLeft, below+44
	for i := range width {
		f.fill(image.Rect(x+i, top, x+i+1, top+height), amounts.color(amounts.hi*float64(i)/(width-1)))
	}
	f.write(label(smallSize, text.XRight, text.YCenter), float64(x-10), float64(top+height/2), amount+"  0")
	f.write(label(smallSize, text.XLeft, text.YCenter), float64(x+width+10), float64(top+height/2), short(amounts.hi))
	return f
}

// trueBar is the colour of true values.
var trueBar = translucent(grey, 0.45)
