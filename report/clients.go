package report

import (
	"fmt"
	"math"
	"slices"

	"fedrspo/run"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// clientRegrets is a client's regret under every method: the mean over seeds, by
// stage and result; NaN where there is none.
type clientRegrets struct {
	client int
	regret [][]float64
}

// clientRegrets lists the clients of all results in ascending ID.
func (p *Page) clientRegrets() []clientRegrets {
	m := p.measure()
	var ids []int
	type cell struct{ client, stage, result int }
	numbers := map[cell][]float64{}
	for k, r := range p.Results {
		for _, seed := range r.Seeds {
			for s, stage := range p.Stages {
				st := stage.of(seed)
				if st == nil {
					continue
				}
				for _, c := range st.Clients {
					if at, found := slices.BinarySearch(ids, c.Client); !found {
						ids = slices.Insert(ids, at, c.Client)
					}
					at := cell{c.Client, s, k}
					numbers[at] = append(numbers[at], m.of(c.Regret))
				}
			}
		}
	}
	out := make([]clientRegrets, len(ids))
	for i, id := range ids {
		out[i] = clientRegrets{client: id, regret: make([][]float64, len(p.Stages))}
		for s := range p.Stages {
			for k := range p.Results {
				mean, _, _ := summary(numbers[cell{id, s, k}])
				out[i].regret[s] = append(out[i].regret[s], mean)
			}
		}
	}
	return out
}

// clientsFigure has a panel for each stage and in it a row for each client. It
// is nil without results.
func (p *Page) clientsFigure() *figure {
	clients := p.clientRegrets()
	n := len(clients)
	if n == 0 {
		return nil
	}
	m := p.measure()
	// Rows of many clients are narrower, and not all have a name then.
	row := min(max(vg.Length(900)/vg.Length(n), 3), 13)
	every := int(math.Ceil(float64(9 / row)))
	var names, blank plot.ConstantTicks
	for i, c := range clients {
		if i%every == 0 {
			at := float64(n - 1 - i)
			names = append(names, plot.Tick{Value: at, Label: p.client(c.client)})
			blank = append(blank, plot.Tick{Value: at})
		}
	}
	var plots []*plot.Plot
	var keys []key
	most := 0.0
	shown := make([]bool, len(p.Results))
	for s, stage := range p.Stages {
		pl := newPanel(stage.heading(), "")
		pl.X.Label.Text = m.label + ", test samples"
		pl.Add(rows{n})
		drawn := false
		for k := range p.Results {
			c, shape := methodStyle(k)
			var dots plotter.XYs
			for i, client := range clients {
				if x := client.regret[s][k]; !math.IsNaN(x) {
					dots = append(dots, plotter.XY{X: x, Y: float64(n - 1 - i)})
					most = max(most, x)
				}
			}
			if len(dots) > 0 {
				pl.Add(&plotter.Scatter{XYs: dots, GlyphStyle: draw.GlyphStyle{Color: c, Radius: 2.5, Shape: shape}})
				drawn, shown[k] = true, true
			}
		}
		if !drawn {
			continue
		}
		pl.Y.Tick.Marker = names
		if len(plots) > 0 {
			pl.Y.Tick.Marker = blank
		}
		plots = append(plots, pl)
	}
	for k, r := range p.Results {
		if c, shape := methodStyle(k); shown[k] {
			keys = append(keys, key{text: r.Loss, color: c, shape: shape})
		}
	}
	for _, pl := range plots {
		pl.X.Min, pl.X.Max = min(pl.X.Min, 0), max(most*1.03, 1e-6)
		pl.X.Tick.Marker = niceTicks{}
		pl.Y.Min, pl.Y.Max = -0.5, float64(n)-0.5
	}
	return panels(plots, 2, panelWidth+60, row*vg.Length(n)+55, keys)
}

// rows draws a faint line for each of n rows.
type rows struct{ n int }

func (r rows) Plot(c draw.Canvas, p *plot.Plot) {
	_, trY := p.Transforms(&c)
	for i := range r.n {
		y := trY(float64(i))
		c.StrokeLine2(draw.LineStyle{Color: faint, Width: 0.5}, c.Min.X, y, c.Max.X, y)
	}
}

// measure is the number in which the task is judged.
type measure struct {
	run.Measure
	// label is its name with its unit.
	label string
}

// measure of the page's results, which are of one task.
func (p *Page) measure() measure {
	m := measure{p.Results[0].Metric, p.Results[0].Metric.Title()}
	if !m.absolute() {
		m.label += " (%)"
	}
	return m
}

// absolute says that the number is in units of the objective, and not a
// fraction.
func (m measure) absolute() bool { return m.Measure == run.AbsoluteRegret }

// of returns the number as it is shown.
func (m measure) of(r run.Regret) float64 {
	if m.absolute() {
		return m.Of(r)
	}
	return 100 * m.Of(r)
}

// text is a number that of returned.
func (m measure) text(x float64) string {
	if m.absolute() {
		return short(x)
	}
	return fmt.Sprintf("%.2f", x)
}
