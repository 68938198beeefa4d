package report

import (
	"image/color"
	"math"
	"strconv"
	"strings"

	"fedrspo/run"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// roundAxis joins the rounds of all stages to one axis: round k, from 0, of
// stage s is at start[s]+k+1.
type roundAxis struct {
	stages        []Stage
	start, rounds []int
}

func (p *Page) roundAxis() roundAxis {
	a := roundAxis{stages: p.Stages}
	at := 0
	for _, s := range p.Stages {
		n := 0
		for _, m := range p.Metrics {
			if m.Stage == s.Metrics {
				n = max(n, m.Round+1)
			}
		}
		a.start, a.rounds = append(a.start, at), append(a.rounds, n)
		at += n
	}
	return a
}

// total is the number of rounds of all stages.
func (a roundAxis) total() int {
	n := 0
	for _, k := range a.rounds {
		n += k
	}
	return n
}

// apply gives a plot the axis: rounds count from 1 in every stage, and lines
// divide the stages.
func (a roundAxis) apply(p *plot.Plot) {
	var ticks plot.ConstantTicks
	var names []string
	for s, n := range a.rounds {
		if n == 0 {
			continue
		}
		names = append(names, a.stages[s].Axis)
		step := 1
		for _, m := range []int{2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000, 10000, 50000, 100000} {
			if a.total()/step > 10 {
				step = m
			}
		}
		for k := step; k <= n; k += step {
			ticks = append(ticks, plot.Tick{Value: float64(a.start[s] + k), Label: strconv.Itoa(k)})
		}
		if a.start[s] > 0 {
			at := float64(a.start[s]) + 0.5
			p.Add(vertical{at})
		}
	}
	p.X.Tick.Marker = ticks
	p.X.Label.Text = "round (" + strings.Join(names, " | ") + ")"
	p.X.Min, p.X.Max = 0.5, float64(max(1, a.total()))+0.5
}

// vertical is a dashed line from bottom to top.
type vertical struct{ x float64 }

func (v vertical) Plot(c draw.Canvas, p *plot.Plot) {
	trX, _ := p.Transforms(&c)
	x := trX(v.x)
	c.StrokeLine2(draw.LineStyle{Color: grey, Width: 0.75, Dashes: dashes}, x, c.Min.Y, x, c.Max.Y)
}

// add draws curves, one a stage, as a line with a band from the least to the
// greatest over seeds. It says whether there was anything to draw.
func (a roundAxis) add(p *plot.Plot, c color.NRGBA, width vg.Length, curves []curve) bool {
	drawn := false
	for s, k := range curves {
		var mean, band plotter.XYs
		single := true
		for round, y := range k.mean {
			if math.IsNaN(y) {
				continue
			}
			x := float64(a.start[s] + round + 1)
			mean = append(mean, plotter.XY{X: x, Y: y})
			band = append(band, plotter.XY{X: x, Y: k.hi[round]})
			single = single && k.lo[round] == k.hi[round]
		}
		if len(mean) == 0 {
			continue
		}
		drawn = true
		if !single {
			for round := len(k.mean) - 1; round >= 0; round-- {
				if !math.IsNaN(k.mean[round]) {
					band = append(band, plotter.XY{X: float64(a.start[s] + round + 1), Y: k.lo[round]})
				}
			}
			p.Add(&plotter.Polygon{XYs: []plotter.XYs{band}, Color: translucent(c, 0.2)})
		}
		p.Add(&plotter.Line{XYs: mean, LineStyle: draw.LineStyle{Color: c, Width: width}})
		if len(mean) == 1 {
			p.Add(&plotter.Scatter{XYs: mean, GlyphStyle: draw.GlyphStyle{Color: c, Radius: 1.5, Shape: draw.CircleGlyph{}}})
		}
	}
	return drawn
}

// stageCurves is curve for all stages.
func (p *Page) stageCurves(loss string, pick func(run.Metric) float64) []curve {
	out := make([]curve, len(p.Stages))
	for s := range p.Stages {
		out[s] = p.curve(loss, p.Stages[s].Metrics, pick)
	}
	return out
}

// panelSize is that of a plot among others.
const panelWidth, panelHeight = vg.Length(206), vg.Length(150)

// lossFigure has a panel for each method, since losses have units of their own.
// It is nil without rounds.
func (p *Page) lossFigure() *figure {
	a := p.roundAxis()
	var plots []*plot.Plot
	for k, r := range p.Results {
		c, _ := methodStyle(k)
		pl := newPanel(r.Loss, "training loss")
		if a.add(pl, c, lineWidth, p.stageCurves(r.Loss, func(m run.Metric) float64 { return m.TrainLoss })) {
			logarithmic(pl)
			a.apply(pl)
			plots = append(plots, pl)
		}
	}
	if len(plots) == 0 {
		return nil
	}
	return panels(plots, 3, panelWidth, panelHeight, nil)
}

// validationFigure shows the regret after every round on validation samples, and
// on test samples where a stage ends. It is nil where no round was measured.
func (p *Page) validationFigure() *figure {
	a := p.roundAxis()
	judged := p.measure()
	pl := newPanel("", judged.label)
	var keys []key
	drawn := false
	var marks []plot.Plotter
	for k, r := range p.Results {
		c, shape := methodStyle(k)
		curves := p.stageCurves(r.Loss, func(m run.Metric) float64 {
			if m.Validation == nil {
				return math.NaN()
			}
			return judged.of(*m.Validation)
		})
		drawn = a.add(pl, c, lineWidth, curves) || drawn
		for s, stage := range p.Stages {
			var test []float64
			for _, seed := range r.Seeds {
				if st := stage.of(seed); st != nil {
					test = append(test, judged.of(st.Regret))
				}
			}
			// A method may stop earlier than others.
			if mean, _, _ := summary(test); !math.IsNaN(mean) && len(curves[s].mean) > 0 {
				marks = append(marks, &plotter.Scatter{XYs: plotter.XYs{{X: float64(a.start[s] + len(curves[s].mean)), Y: mean}},
					GlyphStyle: draw.GlyphStyle{Color: c, Radius: 4, Shape: shape}})
			}
		}
		keys = append(keys, key{text: r.Loss, color: c, shape: shape, line: true})
	}
	if !drawn {
		return nil
	}
	pl.Add(marks...)
	if y := p.constantCosts(); !math.IsNaN(y) {
		pl.Y.Min, pl.Y.Max = min(pl.Y.Min, y), max(pl.Y.Max, y)
		pl.Add(horizontal{y})
		keys = append(keys, key{text: "test, equal costs everywhere", color: grey, line: true, dashed: true})
	}
	logarithmic(pl)
	a.apply(pl)
	keys = append(keys, key{text: "validation, after every round", color: ink, line: true}, key{text: "test, at the end of a stage", color: ink, shape: draw.CircleGlyph{}})
	return panels([]*plot.Plot{pl}, 1, 2*panelWidth+100, 230, keys)
}

// scheduleFigure shows λ, the learning rate, the freeze statistic and the share
// of frozen clients over rounds. It is nil where no method has a λ.
func (p *Page) scheduleFigure() *figure {
	a := p.roundAxis()
	number := func(x *float64) float64 {
		if x == nil {
			return math.NaN()
		}
		return *x
	}
	own := func(int) vg.Length { return lineWidth }
	// Methods often share a rate: later ones are drawn narrower, on top.
	shared := func(k int) vg.Length { return lineWidth * (1 + 0.4*vg.Length(len(p.Results)-1-k)) }
	var keys []key
	var plots []*plot.Plot
	regularized := false
	used := make([]bool, len(p.Results))
	for _, q := range []struct {
		title, unit string
		pick        func(run.Metric) float64
		width       func(k int) vg.Length
		needed      bool
	}{
		{"regularisation weight λ", "λ", func(m run.Metric) float64 { return number(m.Lambda) }, own, true},
		{"learning rate η", "η", func(m run.Metric) float64 { return m.Rate }, shared, false},
		{"freeze statistic", "Ũ", func(m run.Metric) float64 { return number(m.Freeze) }, own, true},
	} {
		pl := newPanel(q.title, q.unit)
		drawn := false
		for k, r := range p.Results {
			c, _ := methodStyle(k)
			if a.add(pl, c, q.width(k), p.stageCurves(r.Loss, q.pick)) {
				drawn, used[k] = true, true
			}
		}
		if !drawn {
			continue
		}
		regularized = regularized || q.needed
		if q.unit == "Ũ" && p.Tau > 0 {
			pl.Y.Min, pl.Y.Max = min(pl.Y.Min, p.Tau), max(pl.Y.Max, p.Tau)
			pl.Add(horizontal{p.Tau})
		}
		logarithmic(pl)
		a.apply(pl)
		plots = append(plots, pl)
	}
	if !regularized {
		return nil
	}
	pl, drawn := newPanel("clients with a frozen schedule", "clients (%)"), false
	for k, r := range p.Results {
		c, _ := methodStyle(k)
		curves := make([]curve, len(p.Stages))
		for s, stage := range p.Stages {
			// A federated stage has one schedule for all, and no such record.
			if stage.Personal || len(p.Stages) == 1 {
				curves[s] = p.frozen(r, stage, a.rounds[s])
			}
		}
		drawn = a.add(pl, c, lineWidth, curves) || drawn
	}
	if drawn {
		pl.Y.Min, pl.Y.Max = 0, 100
		a.apply(pl)
		plots = append(plots, pl)
	}
	for k, r := range p.Results {
		if c, _ := methodStyle(k); used[k] {
			keys = append(keys, key{text: r.Loss, color: c, line: true})
		}
	}
	if p.Tau > 0 {
		keys = append(keys, key{text: "τ: freeze at or below", color: grey, line: true, dashed: true})
	}
	return panels(plots, 2, panelWidth+60, panelHeight, keys)
}

// horizontal is a dashed line from left to right.
type horizontal struct{ y float64 }

func (h horizontal) Plot(c draw.Canvas, p *plot.Plot) {
	_, trY := p.Transforms(&c)
	y := trY(h.y)
	c.StrokeLine2(draw.LineStyle{Color: grey, Width: 0.75, Dashes: dashes}, c.Min.X, y, c.Max.X, y)
}

// constantCosts is what equal costs everywhere lead to on test samples, the mean
// over seeds; NaN where it was not measured.
func (p *Page) constantCosts() float64 {
	m := p.measure()
	var v []float64
	for _, seed := range p.Results[0].Seeds {
		if seed.Constant != nil {
			v = append(v, m.of(seed.Constant.Regret))
		}
	}
	mean, _, _ := summary(v)
	return mean
}
