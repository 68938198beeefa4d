package experiment

import (
	"fmt"
	"math"
	"strings"

	"fedrspo/run"

	"gonum.org/v1/gonum/stat/distuv"
)

// Paired is a comparison of two methods on the same seeds and data.
type Paired struct {
	// Mean of the differences, and the ends of its 95 % confidence interval.
	Mean, Low, High float64
	// P is the two-sided p-value of the paired t-test of mean 0.
	P float64
	// N is the number of pairs.
	N int
}

// Compare tests a - b, pair by pair (Student 1908). It assumes that the
// differences are about normal. Fewer than two pairs tell nothing: the interval
// is the whole line and P is 1. Of differences that are all equal the interval
// is their value, and P is 1 if that is 0 and else 0. a and b are equally long.
func Compare(a, b []float64) Paired {
	if len(a) != len(b) {
		panic(fmt.Sprintf("experiment: Compare of %d with %d values", len(a), len(b)))
	}
	d := make([]float64, len(a))
	for i, x := range a {
		d[i] = x - b[i]
	}
	mean, std := run.MeanStd(d)
	p := Paired{Mean: mean, Low: mean, High: mean, N: len(d)}
	switch {
	case len(d) < 2:
		p.Low, p.High, p.P = math.Inf(-1), math.Inf(1), 1
		return p
	case math.IsNaN(std):
		p.P = math.NaN()
		return p
	case std == 0:
		if mean == 0 {
			p.P = 1
		}
		return p
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(len(d) - 1)}
	se := std / math.Sqrt(float64(len(d)))
	half := t.Quantile(0.975) * se
	p.Low, p.High = mean-half, mean+half
	p.P = 2 * t.Survival(math.Abs(mean)/se)
	return p
}

// significant says whether the 95 % interval excludes 0.
func (p Paired) significant() bool { return p.Low > 0 || p.High < 0 }

// interval is the difference with its interval in words.
func (p Paired) interval() string { return fmt.Sprintf("%+.2f (%.2f to %.2f)", p.Mean, p.Low, p.High) }

// comparison is an entry less the baseline's of the same setting and stage.
type comparison struct {
	e Entry
	Paired
}

// comparisons compares every method with the table's baseline.
func (f *Finished) comparisons() []comparison {
	if f.Baseline == "" || len(f.Options.Seeds) < 2 {
		return nil
	}
	var out []comparison
	for _, e := range f.Entries {
		if e.Method == f.Baseline || len(e.Values) == 0 {
			continue
		}
		for _, base := range f.Entries {
			if base.Setting == e.Setting && base.Stage == e.Stage && base.Method == f.Baseline {
				out = append(out, comparison{e, Compare(e.Values, base.Values)})
			}
		}
	}
	return out
}

// pairedMarkdown appends the comparisons.
func (f *Finished) pairedMarkdown(b *strings.Builder) {
	all := f.comparisons()
	if len(all) == 0 {
		return
	}
	fmt.Fprintf(b, "\nDifferences from %s on the same seeds and data (positive: %s is better), with 95 %% intervals of a paired t-test, not adjusted for their number:\n\n", f.Baseline, f.Baseline)
	fmt.Fprint(b, "| setting | method | stage | difference (interval) | p |\n|---|---|---|---|---|\n")
	for _, c := range all {
		fmt.Fprintf(b, "| %s | %s | %s | %s | %.2g |\n", c.e.Setting, c.e.Method, c.e.Stage, c.interval(), c.P)
	}
}
