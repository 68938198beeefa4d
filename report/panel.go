package report

import (
	"image/color"
	"math"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// newPanel returns an empty plot in the page's style.
func newPanel(title, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.Y.Label.Text = title, y
	// The alignments of plot.New are those its drawing expects.
	face := func(s *text.Style, size vg.Length) {
		s.Font, s.Color, s.Handler = label(size, s.XAlign, s.YAlign).Font, ink, plot.DefaultTextHandler
	}
	face(&p.Title.TextStyle, textSize)
	p.Title.TextStyle = bold(p.Title.TextStyle)
	p.Title.Padding = vg.Points(4)
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		face(&a.Label.TextStyle, smallSize)
		face(&a.Tick.Label, smallSize)
		a.LineStyle.Color, a.Tick.LineStyle.Color = grey, grey
		a.Tick.Length = vg.Points(4)
		a.Padding = vg.Points(3)
		a.Label.Padding = vg.Points(2)
	}
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = faint, color.Transparent
	p.Add(grid)
	return p
}

// key is an entry of the legend above a figure's panels.
type key struct {
	text  string
	color color.NRGBA
	// shape, unless nil, is a mark, line says that there is a line, and dashed
	// that it is.
	shape        draw.GlyphDrawer
	line, dashed bool
}

const (
	keyRow    = vg.Length(14)
	keyLine   = vg.Length(16)
	keyGap    = vg.Length(14)
	markSize  = vg.Length(2.5)
	lineWidth = vg.Length(1.5)
)

// dashes of lines that are not data.
var dashes = []vg.Length{vg.Points(3), vg.Points(2)}

// legend draws keys from the left at the top of f, in as many rows as they need,
// and returns the height; with f nil it only measures, for a width of w.
func legend(f *figure, w vg.Length, keys []key) vg.Length {
	style := label(textSize, text.XLeft, text.YCenter)
	x, row := vg.Length(4), 0
	for _, k := range keys {
		width := keyLine + 4 + style.Width(k.text) + keyGap
		if x+width > w && x > 4 {
			x, row = 4, row+1
		}
		if f != nil {
			y := f.Max.Y - keyRow*(vg.Length(row)+0.5)
			if k.line {
				s := draw.LineStyle{Color: k.color, Width: lineWidth}
				if k.dashed {
					s.Dashes, s.Width = dashes, 1
				}
				f.StrokeLine2(s, x, y, x+keyLine, y)
			}
			if k.shape != nil {
				f.DrawGlyphNoClip(draw.GlyphStyle{Color: k.color, Radius: markSize, Shape: k.shape}, vg.Point{X: x + keyLine/2, Y: y})
			}
			f.FillText(style, vg.Point{X: x + keyLine + 4, Y: y}, k.text)
		}
		x += width
	}
	return keyRow * vg.Length(row+1)
}

// panels draws plots of the given size in rows of cols, below a legend.
func panels(plots []*plot.Plot, cols int, w, h vg.Length, keys []key) *figure {
	cols = min(cols, len(plots))
	rows := (len(plots) + cols - 1) / cols
	width := w*vg.Length(cols) + 8
	top := vg.Length(0)
	if len(keys) > 0 {
		top = legend(nil, width, keys) + 4
	}
	f := newFigure(width, h*vg.Length(rows)+top)
	legend(f, width, keys)
	grid := make([][]*plot.Plot, rows)
	for r := range grid {
		grid[r] = make([]*plot.Plot, cols)
		copy(grid[r], plots[r*cols:min((r+1)*cols, len(plots))])
	}
	tiles := draw.Tiles{Rows: rows, Cols: cols, PadX: 14, PadY: 12, PadTop: 2, PadBottom: 4, PadLeft: 4, PadRight: 12}
	canvases := plot.Align(grid, tiles, draw.Crop(f.Canvas, 0, 0, 0, -top))
	for r := range grid {
		for c, p := range grid[r] {
			if p != nil {
				p.Draw(canvases[r][c])
			}
		}
	}
	return f
}

// logTicks labels 1, 2 and 5 of every decade, or only 1 of many decades.
type logTicks struct{}

func (logTicks) Ticks(lo, hi float64) []plot.Tick {
	var out []plot.Tick
	from, to := math.Floor(math.Log10(lo)), math.Ceil(math.Log10(hi))
	for e := from; e <= to; e++ {
		for _, m := range []float64{1, 2, 5} {
			v, text := m*math.Pow(10, e), ""
			if v < lo || v > hi {
				continue
			}
			if m == 1 || to-from <= 3 {
				text = short(v)
			}
			out = append(out, plot.Tick{Value: v, Label: text})
		}
	}
	return out
}

// short is a number for an axis or a label, with up to four digits.
func short(x float64) string { return strconv.FormatFloat(x, 'g', 4, 64) }

// logarithmic scales the Y axis so if all numbers are positive and span more
// than a factor of 20; otherwise it starts at 0 or below.
func logarithmic(p *plot.Plot) {
	lo, hi := p.Y.Min, p.Y.Max
	if lo > 0 && hi > 20*lo {
		p.Y.Scale, p.Y.Tick.Marker, p.Y.Max = plot.LogScale{}, logTicks{}, 1.1*hi
		return
	}
	p.Y.Min = min(lo, 0)
	if p.Y.Max == p.Y.Min {
		p.Y.Max = p.Y.Min + 1
	}
	p.Y.Max += 0.04 * (p.Y.Max - p.Y.Min)
	if _, ok := p.Y.Tick.Marker.(plot.DefaultTicks); ok {
		p.Y.Tick.Marker = niceTicks{}
	}
}

// niceTicks labels the multiples of 1, 2 or 5 times a power of ten, up to six.
type niceTicks struct{}

func (niceTicks) Ticks(lo, hi float64) []plot.Tick {
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/6)))
	for _, m := range []float64{2, 2.5, 2} { // to 2, 5, 10
		if (hi-lo)/step > 6 {
			step *= m
		}
	}
	var out []plot.Tick
	// Counting keeps rounding errors from adding up; + 0 turns -0 into 0.
	for k := math.Ceil(lo/step-1e-9) + 0; k*step <= hi+1e-9*step; k++ {
		out = append(out, plot.Tick{Value: k * step, Label: short(k * step)})
	}
	return out
}
