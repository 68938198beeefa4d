package experiment

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"fedrspo/run"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// Plot draws one sweep of a figure: mean and deviation of its cells over X.
type Plot struct {
	// Sweep selects the cells; it is the plot's file name.
	Sweep string
	// Title says what is varied.
	Title string
	// Log scales the X axis.
	Log bool
}

// write draws the plot as PNG and SVG.
func (p Plot) write(f *Finished, folder *run.Folder, dir string) error {
	return p.writeFormats(f, folder, dir, "png", "svg")
}

func (p Plot) writeFormats(f *Finished, folder *run.Folder, dir string, formats ...string) error {
	pl := plot.New()
	pl.X.Label.Text, pl.Y.Label.Text = p.Title, "SPO+ less RSPO+ (points)"
	pl.X.Padding, pl.Y.Padding = vg.Points(5), vg.Points(5)
	pl.Add(plotter.NewGrid())
	var points errorPoints
	var ticks plot.ConstantTicks
	for _, e := range f.Entries {
		if e.Sweep == p.Sweep {
			ticks = append(ticks, plot.Tick{Value: e.X, Label: number(e.X)})
			points.XYs = append(points.XYs, plotter.XY{X: e.X, Y: e.Mean})
			std := e.Std
			if math.IsNaN(std) {
				std = 0
			}
			points.YErrors = append(points.YErrors, struct{ Low, High float64 }{std, std})
		}
	}
	if len(points.XYs) == 0 {
		return fmt.Errorf("plot %s: no points", p.Sweep)
	}
	line, scatter, err := plotter.NewLinePoints(points)
	if err != nil {
		return fmt.Errorf("plot %s: %w", p.Sweep, err)
	}
	bars, err := plotter.NewYErrorBars(points)
	if err != nil {
		return fmt.Errorf("plot %s: %w", p.Sweep, err)
	}
	pl.Add(line, scatter, bars)
	pl.Y.Min = min(0, pl.Y.Min) // so that a small effect looks small
	pl.Y.Max += 0.05 * (pl.Y.Max - pl.Y.Min)
	if p.Log {
		pl.X.Scale, pl.X.Tick.Marker = plot.LogScale{}, ticks
	}
	for _, format := range formats {
		canvas, err := pl.WriterTo(12*vg.Centimeter, 8*vg.Centimeter, format)
		if err != nil {
			return fmt.Errorf("plot %s: %w", p.Sweep, err)
		}
		err = folder.Write(filepath.Join(dir, p.Sweep+"."+format), func(w io.Writer) error {
			_, err := canvas.WriteTo(w)
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// errorPoints are points with deviations.
type errorPoints struct {
	plotter.XYs
	plotter.YErrors
}

// sweep adds the improvement at each value of a flag to t. Flags for both
// losses are shared, others go to RSPO+ alone, which is the only one to read
// them.
func (t *Table) sweep(name, title, flag string, shared, log bool, values []float64, always ...string) {
	t.Plots = append(t.Plots, Plot{Sweep: name, Title: title, Log: log})
	for _, v := range values {
		args := append([]string{flag, strconv.FormatFloat(v, 'g', -1, 64)}, always...)
		both, own := args, []string(nil)
		if !shared {
			both, own = always, args[:2]
		}
		c := improvement(fmt.Sprintf("%s=%g", name, v), eta{}, both, own)
		c.Target, c.Sweep, c.X = nil, name, v
		t.Cells = append(t.Cells, c)
	}
}

const figureNote = "Percentage points of +P relative regret, SPO+ minus RSPO+, at (0,0,0) unless said otherwise; the paper shows curves only and does not give the grids."

// sweepClaim is the paper's claim about all sweeps.
func sweepClaim(source string) Claim {
	return Claim{ID: "better", Text: "FedRSPO+ outperforms SPO+ at every point of every sweep (" + source + ")",
		Holds: func(f *Finished) bool {
			return !slices.ContainsFunc(f.Entries, func(e Entry) bool { return !(e.Mean > 0) })
		}}
}

func figure3(Options) *Table {
	t := &Table{ID: "figure 3", Title: "Figure 3: client fraction, number of clients, alpha", Seeds: knapsackSeeds, PaperRates: true, Claims: []Claim{sweepClaim("section 4.1")},
		Note: figureNote + " Totals of samples stay the same while the number of clients grows. Alpha is the personal one, averaged over the 27 settings."}
	t.sweep("fraction", "client fraction", "-fraction", true, false, []float64{0.1, 0.2, 0.4, 0.6, 0.8, 1})
	t.sweep("clients", "number of clients", "-clients", true, false, []float64{5, 10, 20, 30, 50})
	t.Plots = append(t.Plots, Plot{Sweep: "alpha", Title: "personal alpha, mean over 27 settings", Log: true})
	for _, a := range []string{"0.001", "0.003", "0.01", "0.03", "0.1"} {
		c := improvementOverGrid("alpha="+a, a)
		c.Target, c.Sweep = nil, "alpha"
		c.X, _ = strconv.ParseFloat(a, 64) // a literal above
		t.Cells = append(t.Cells, c)
	}
	return t
}

func figure4(Options) *Table {
	t := &Table{ID: "figure 4", Title: "Figure 4: annealing, threshold and monitor size", Seeds: knapsackSeeds, Note: figureNote, PaperRates: true, Claims: []Claim{sweepClaim("section 4.1")}}
	t.sweep("kappa-lambda", "kappa of lambda", "-kappa-lambda", false, false, []float64{0, 0.5, 1, 2, 4})
	t.sweep("kappa-lr", "kappa of the learning rate", "-kappa-lr", false, false, []float64{0, 0.05, 0.1, 0.3, 1})
	t.sweep("tau", "threshold tau", "-tau", false, true, []float64{0.003, 0.01, 0.03})
	// 32 monitored samples need as many validation samples per client.
	t.sweep("monitor", "validation samples of the freeze rule", "-monitor", false, true, monitorSizes, monitorData...)
	return t
}

// tables has every table of the module in the paper's order; long ones take
// minutes or hours and are made only when they are named.
var tables = []struct {
	id   string
	make func(Options) *Table
	long bool
}{
	{id: "3", make: table3}, {id: "4", make: table4}, {id: "4-pjm", make: table4PJM}, {id: "5", make: table5}, {id: "6", make: table6, long: true},
	{id: "9", make: table9}, {id: "11", make: table11, long: true}, {id: "12", make: table12, long: true}, {id: "13", make: table13},
	{id: "14", make: table14}, {id: "15", make: table15, long: true}, {id: "16", make: table16}, {id: "16-pjm", make: table16PJM},
	{id: "17", make: table17}, {id: "18", make: table18},
	{id: "figure 3", make: figure3}, {id: "figure 4", make: figure4}, {id: "text", make: textTable},
}

// TableNames lists the numbered tables.
func TableNames() []string {
	var names []string
	for _, t := range tables {
		if isNumber(t.id) {
			names = append(names, t.id)
		}
	}
	return names
}

// LongTables lists those that "all" leaves out, because they take long.
func LongTables() []string {
	var names []string
	for _, t := range tables {
		if t.long {
			names = append(names, t.id)
		}
	}
	return names
}

// Tables returns the table of that name, a number, "figure 3" or "text", or all
// numbered ones but LongTables for "all".
func Tables(name string, o Options) ([]*Table, error) {
	var out []*Table
	for _, t := range tables {
		if t.id == name || name == "all" && !t.long && slices.Contains(TableNames(), t.id) {
			out = append(out, t.make(o))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("unknown table %q, want %s, all, figure 3, figure 4 or text", name, strings.Join(TableNames(), ", "))
	}
	return out, nil
}
