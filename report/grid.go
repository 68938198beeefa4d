package report

import (
	"fmt"
	"image"
	"image/color"
	"math"
	"strings"

	"fedrspo/task"

	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// gridLayout places the panels of a grid's figure, in pixels from the top left:
// a row for the truth and one for each method, a column for the map, one for
// costs and one for regularised decisions.
type gridLayout struct {
	grid *task.Grid
	// cell is the side of a cell.
	cell       int
	rows, cols int
}

const (
	gridSide   = 288 // of a panel, at most
	gridHead   = 54  // above a panel, for two lines of text
	gridGap    = 28
	gridMargin = 12
	gridLegend = 150 // below the panels
)

func newGridLayout(d *Decision) gridLayout {
	l := gridLayout{grid: d.View.Grid, rows: 1 + len(d.Methods), cols: 2}
	if d.regularizes() {
		l.cols = 3
	}
	l.cell = max(1, gridSide/max(l.grid.Height, l.grid.Width))
	return l
}

// regularizes says whether there is a regularised decision to show.
func (d *Decision) regularizes() bool {
	for _, m := range d.Methods {
		if m.Regularized != nil {
			return true
		}
	}
	return d.Regularized != nil
}

// size of the figure. Narrow grids leave room for the panels' texts.
func (l gridLayout) size() (w, h int) {
	return 2*gridMargin + l.cols*l.columnWidth(), gridMargin + l.rows*(gridHead+l.grid.Height*l.cell) + gridLegend
}

func (l gridLayout) columnWidth() int { return max(l.grid.Width*l.cell, gridSide) + gridGap }

// panel is where a panel's cells are.
func (l gridLayout) panel(row, col int) image.Rectangle {
	x := gridMargin + col*l.columnWidth()
	y := gridMargin + row*(gridHead+l.grid.Height*l.cell) + gridHead
	return image.Rect(x, y, x+l.grid.Width*l.cell, y+l.grid.Height*l.cell)
}

// center is the middle of a cell.
func (l gridLayout) center(row, col, cell int) [2]float64 {
	p := l.panel(row, col)
	half := float64(l.cell) / 2
	return [2]float64{float64(p.Min.X+cell%l.grid.Width*l.cell) + half, float64(p.Min.Y+cell/l.grid.Width*l.cell) + half}
}

// The colours of paths, each with a casing that sets it off.
var (
	optimalPath   = pathStyle{core: white, casing: ink, width: 2.6}
	predictedPath = pathStyle{core: color.NRGBA{0xd5, 0x5e, 0x00, 0xff}, casing: white, width: 1.5}
)

type pathStyle struct {
	core, casing color.NRGBA
	width        vg.Length
}

// gridFigure draws a decision on a grid.
func gridFigure(d *Decision) *figure {
	l := newGridLayout(d)
	w, h := l.size()
	f := newFigure(vg.Length(w)/perPoint, vg.Length(h)/perPoint)
	vectors := [][]float64{d.Cost}
	for _, m := range d.Methods {
		vectors = append(vectors, m.Chat)
	}
	costs, amounts := scaleOver(viridis, vectors...), scale{lo: 0, hi: 1, stops: blues}
	var picture image.Image
	if d.View.Picture != nil {
		picture = d.View.Picture(d.Sample)
	}

	// The truth.
	if picture != nil {
		f.head(l, 0, 0, "map", "with the optimal path")
		f.picture(l, 0, picture)
		f.path(l, 0, 0, d.Optimal, optimalPath)
		f.endpoints(l, 0, 0)
	}
	f.head(l, 0, 1, "true cost c", fmt.Sprintf("optimal path costs %s", short(d.Optimum)))
	f.heat(l, 0, 1, d.Cost, costs)
	f.path(l, 0, 1, d.Optimal, optimalPath)
	f.endpoints(l, 0, 1)
	if d.Regularized != nil {
		f.head(l, 0, 2, fmt.Sprintf("regularised at c, λ = %s", short(d.Lambda)), fmt.Sprintf("costs %s", short(dot(d.Cost, d.Regularized))))
		f.heat(l, 0, 2, d.Regularized, amounts)
		f.endpoints(l, 0, 2)
	}

	for k, m := range d.Methods {
		row := k + 1
		what := "paths on the true cost"
		if picture != nil {
			what = "paths on the map"
		}
		f.head(l, row, 0, m.Loss+": "+what, fmt.Sprintf("costs %s, %s", short(m.Cost), more(m.Cost, d.Optimum)))
		if picture != nil {
			f.picture(l, row, picture)
		} else {
			f.heat(l, row, 0, d.Cost, costs)
		}
		f.path(l, row, 0, d.Optimal, optimalPath)
		f.path(l, row, 0, m.W, predictedPath)
		f.endpoints(l, row, 0)
		f.head(l, row, 1, m.Loss+": predicted cost ĉ", fmt.Sprintf("path seems to cost %s", short(dot(m.Chat, m.W))))
		f.heat(l, row, 1, m.Chat, costs)
		f.path(l, row, 1, m.W, predictedPath)
		f.endpoints(l, row, 1)
		if m.Regularized != nil {
			f.head(l, row, 2, fmt.Sprintf("%s: regularised, λ = %s", m.Loss, short(m.Lambda)), fmt.Sprintf("costs %s, %s", short(m.RegularizedCost), more(m.RegularizedCost, d.Optimum)))
			f.heat(l, row, 2, m.Regularized, amounts)
			f.endpoints(l, row, 2)
		} else if l.cols > 2 {
			f.head(l, row, 2, m.Loss+": not regularised", "")
		}
	}
	f.gridLegend(l, costs, amounts)
	return f
}

// more says how much a cost exceeds the optimum.
func more(cost, optimum float64) string { return difference(cost, optimum, 1) }

// difference of a cost from the optimum, times sign, relative to the optimum's
// size.
func difference(cost, optimum, sign float64) string {
	switch {
	case optimum == 0:
		return "optimum 0"
	case math.Abs(cost-optimum) <= 1e-9*math.Abs(optimum):
		return "optimal"
	}
	return strings.Replace(fmt.Sprintf("%+.2f %%", sign*100*(cost-optimum)/math.Abs(optimum)), "-", "\u2212", 1)
}

// head writes the two lines above a panel.
func (f *figure) head(l gridLayout, row, col int, first, second string) {
	p := l.panel(row, col)
	f.write(bold(label(textSize, text.XLeft, text.YBottom)), float64(p.Min.X), float64(p.Min.Y-25), first)
	f.write(label(textSize, text.XLeft, text.YBottom), float64(p.Min.X), float64(p.Min.Y-6), second)
}

// heat colours the cells of a panel.
func (f *figure) heat(l gridLayout, row, col int, v []float64, s scale) {
	p := l.panel(row, col)
	f.fill(p.Inset(-1), grey)
	for i, x := range v {
		at := p.Min.Add(image.Pt(i%l.grid.Width*l.cell, i/l.grid.Width*l.cell))
		f.fill(image.Rectangle{at, at.Add(image.Pt(l.cell, l.cell))}, s.color(x))
	}
}

// picture draws the map in the first panel of a row, each pixel by its nearest.
func (f *figure) picture(l gridLayout, row int, m image.Image) {
	p, b := l.panel(row, 0), m.Bounds()
	f.fill(p.Inset(-1), grey)
	img := f.pixels()
	for y := range p.Dy() {
		for x := range p.Dx() {
			img.Set(p.Min.X+x, p.Min.Y+y, m.At(b.Min.X+x*b.Dx()/p.Dx(), b.Min.Y+y*b.Dy()/p.Dy()))
		}
	}
}

// visited is the least amount that counts as a visit of a cell: paths have 0
// or 1.
const visited = 0.5

// path draws the way from source to sink through the visited cells of w, and a
// dot on each of them.
func (f *figure) path(l gridLayout, row, col int, w []float64, s pathStyle) {
	var points [][2]float64
	for _, cell := range trace(l.grid, w) {
		points = append(points, l.center(row, col, cell))
	}
	// Lines stay narrower than small cells.
	width := s.width * vg.Length(min(1, float64(l.cell)/20))
	if len(points) > 1 {
		f.line(s.casing, width+1.4, points...)
		f.line(s.core, width, points...)
	}
	for cell, x := range w {
		if x >= visited {
			at := l.center(row, col, cell)
			f.mark(s.core, width/2+0.4, draw.CircleGlyph{}, at[0], at[1])
		}
	}
}

// trace is a shortest way, in steps to any of the eight neighbours, from source
// to sink through the visited cells of w; nil if there is none.
func trace(g *task.Grid, w []float64) []int {
	const unseen = -1
	from := make([]int, len(w))
	for i := range from {
		from[i] = unseen
	}
	from[g.Source] = g.Source
	queue := []int{g.Source}
	for len(queue) > 0 && from[g.Sink] == unseen {
		at := queue[0]
		queue = queue[1:]
		row, col := at/g.Width, at%g.Width
		for r := max(0, row-1); r <= min(g.Height-1, row+1); r++ {
			for c := max(0, col-1); c <= min(g.Width-1, col+1); c++ {
				if to := r*g.Width + c; w[to] >= visited && from[to] == unseen {
					from[to] = at
					queue = append(queue, to)
				}
			}
		}
	}
	if from[g.Sink] == unseen {
		return nil
	}
	var back []int
	for at := g.Sink; at != g.Source; at = from[at] {
		back = append(back, at)
	}
	path := []int{g.Source}
	for k := len(back) - 1; k >= 0; k-- {
		path = append(path, back[k])
	}
	return path
}

// endpoints marks source and sink.
func (f *figure) endpoints(l gridLayout, row, col int) {
	f.endpoint(l.center(row, col, l.grid.Source), draw.CircleGlyph{})
	f.endpoint(l.center(row, col, l.grid.Sink), draw.BoxGlyph{})
}

func (f *figure) endpoint(at [2]float64, shape draw.GlyphDrawer) {
	f.mark(ink, 4.2, shape, at[0], at[1])
	f.mark(white, 3.1, shape, at[0], at[1])
	f.mark(ink, 1.8, shape, at[0], at[1])
}

// gridLegend explains colours and lines below the panels.
func (f *figure) gridLegend(l gridLayout, costs, amounts scale) {
	_, h := l.size()
	y := h - gridLegend + 30
	style := label(textSize, text.XLeft, text.YCenter)
	bar := func(col int, s scale, title string) {
		x := l.panel(0, col).Min.X
		f.write(style, float64(x), float64(y), title)
		const width, height = 256, 16
		f.fill(image.Rect(x-1, y+13, x+width+1, y+15+height), grey)
		for i := range width {
			f.fill(image.Rect(x+i, y+14, x+i+1, y+14+height), s.color(s.at(float64(i)/(width-1))))
		}
		f.write(label(smallSize, text.XLeft, text.YTop), float64(x), float64(y+34), short(s.lo))
		f.write(label(smallSize, text.XCenter, text.YTop), float64(x+width/2), float64(y+34), short(s.at(0.5)))
		f.write(label(smallSize, text.XRight, text.YTop), float64(x+width), float64(y+34), short(s.hi))
	}
	title := "cost of a cell, true and predicted"
	if costs.root {
		title = "cost of a cell (square-root scale)"
	}
	bar(1, costs, title)
	if l.cols > 2 {
		bar(2, amounts, "share of a cell in the decision")
	}
	x := float64(l.panel(0, 0).Min.X)
	for k, item := range []struct {
		text string
		draw func(x, y float64)
	}{
		{"optimal path", func(x, y float64) {
			f.line(ink, optimalPath.width+1.6, [2]float64{x, y}, [2]float64{x + 34, y})
			f.line(white, optimalPath.width, [2]float64{x, y}, [2]float64{x + 34, y})
		}},
		{"path decided from ĉ", func(x, y float64) {
			f.line(predictedPath.core, predictedPath.width, [2]float64{x, y}, [2]float64{x + 34, y})
		}},
		{"source", func(x, y float64) { f.endpoint([2]float64{x + 17, y}, draw.CircleGlyph{}) }},
		{"sink", func(x, y float64) { f.endpoint([2]float64{x + 17, y}, draw.BoxGlyph{}) }},
	} {
		at := float64(y + 24*k)
		item.draw(x, at)
		f.write(style, x+46, at, item.text)
	}
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, x := range a {
		sum += x * b[i]
	}
	return sum
}
