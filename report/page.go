// Package report shows a training run to people: one HTML file that holds all
// it shows, so that it needs neither a network nor other files, and the same
// pictures as PNG files.
//
// A [Page] says what to show. [Write] draws it and writes it to the run folder.
// The same page gives the same bytes. Colours follow Okabe and Ito (2008), which
// readers with any kind of colour vision can tell apart; a method has the same
// colour and mark in every picture.
package report

import (
	"fmt"
	"image/color"
	"slices"
	"strings"

	"fedrspo/run"
	"fedrspo/task"

	"gonum.org/v1/plot/vg/draw"
)

// Names below the run folder.
const (
	// File is the page.
	File = "report.html"
	// Dir holds its pictures.
	Dir = "report"
)

// Page is what a report shows.
type Page struct {
	// Title says what was run, Table is the results as they are printed.
	Title, Table string
	// Task and Data are the task's name and where its data come from.
	Task, Data string
	// Settings of the run, in the order of the page.
	Settings []Setting
	// Stages of the run in order.
	Stages []Stage
	// Tau is the freeze threshold τ; 0 draws none.
	Tau float64
	// Names are what people call the clients, by ID.
	Names map[int]string

	// Results, Metrics, Timing and Version are the content of the run folder.
	Results []run.Result
	Metrics []run.Metric
	Timing  run.Timing
	Version run.Version

	// Decisions are test samples to draw.
	Decisions []Decision
}

// Setting is a setting's name and value as text.
type Setting struct{ Name, Value string }

// Stage is one stage of a run.
type Stage struct {
	// Metrics is the stage's name in metrics.jsonl, Title on the page, Axis in
	// words below an axis.
	Metrics, Title, Axis string
	// Personal says that its result is SeedResult.Personal, and not Fed.
	Personal bool
}

// heading is the stage's name above a plot.
func (s Stage) heading() string {
	if strings.HasPrefix(s.Axis, s.Title) {
		return upper(s.Axis)
	}
	return upper(s.Axis) + " (" + s.Title + ")"
}

// of returns the stage's result, nil where it was not reached.
func (s Stage) of(r run.SeedResult) *run.StageResult {
	if s.Personal {
		return r.Personal
	}
	return r.Fed
}

// Decision is one test sample and what every method decides on it.
type Decision struct {
	// Client and Sample say which: the index is that of the client's test split.
	Client, Sample int
	// Why says how the sample was chosen.
	Why string
	// View of the client.
	View task.View
	// Cost is the true cost c, Optimal w*(c), Optimum c·w*(c).
	Cost, Optimal []float64
	Optimum       float64
	// Regularized is P_λ(c) at Lambda; nil where no method has a λ.
	Regularized []float64
	Lambda      float64
	// Methods in the order of Page.Results; a method without a model of its own
	// for the client is missing.
	Methods []Decided
}

// Decided is one method's answer to a sample.
type Decided struct {
	Loss string
	// Chat is the predicted cost ĉ, W the decision w*(ĉ), Cost its true cost
	// c·w*(ĉ).
	Chat, W []float64
	Cost    float64
	// Regularized is P_λ(ĉ) at Lambda, nil where the method has no λ, and
	// RegularizedCost its true cost.
	Regularized             []float64
	Lambda, RegularizedCost float64
}

// check reports a decision whose parts do not fit together.
func (d *Decision) check() error {
	n := len(d.Cost)
	bad := func(format string, args ...any) error {
		return fmt.Errorf("decision of client %d, sample %d: %s", d.Client, d.Sample, fmt.Sprintf(format, args...))
	}
	vectors := []struct {
		name     string
		v        []float64
		optional bool
	}{{"optimal decision", d.Optimal, false}, {"regularised decision", d.Regularized, true}, {"sizes", d.View.Size, true}}
	for _, m := range d.Methods {
		vectors = append(vectors, []struct {
			name     string
			v        []float64
			optional bool
		}{{"prediction of " + m.Loss, m.Chat, false}, {"decision of " + m.Loss, m.W, false}, {"regularised decision of " + m.Loss, m.Regularized, true}}...)
	}
	if n == 0 {
		return bad("no costs")
	}
	for _, v := range vectors {
		if len(v.v) != n && !(v.optional && v.v == nil) {
			return bad("%s of length %d, want %d", v.name, len(v.v), n)
		}
	}
	if g := d.View.Grid; g != nil {
		if g.Height < 1 || g.Width < 1 || g.Height*g.Width != n {
			return bad("a grid of %d x %d cells for %d costs", g.Height, g.Width, n)
		}
		if min(g.Source, g.Sink) < 0 || max(g.Source, g.Sink) >= n {
			return bad("endpoints %d and %d, want cells 0 to %d", g.Source, g.Sink, n-1)
		}
	}
	return nil
}

// client is what the page calls a client.
func (p *Page) client(id int) string {
	if name := p.Names[id]; name != "" {
		return name
	}
	return fmt.Sprintf("client %d", id)
}

// style is the colour and mark of the method of that name.
func (p *Page) style(loss string) (color.NRGBA, draw.GlyphDrawer) {
	return methodStyle(max(0, slices.IndexFunc(p.Results, func(r run.Result) bool { return r.Loss == loss })))
}
