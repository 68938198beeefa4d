package experiment

import (
	"fmt"
	"iter"
	"maps"
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
	N int
}

// Compare tests a - b, pair by pair (Student 1908). It assumes that the
// differences are about normal; with fewer than two pairs, or equal
// differences, the interval is the mean alone and P is 0 or 1.
func Compare(a, b []float64) Paired {
	d := make([]float64, len(a))
	for i, x := range a {
		d[i] = x - b[i]
	}
	mean, std := run.MeanStd(d)
	p := Paired{Mean: mean, Low: mean, High: mean, N: len(d)}
	if !(std > 0) || len(d) < 2 {
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

// pairedMarkdown appends the comparisons of every method with the baseline.
func (f *Finished) pairedMarkdown(b *strings.Builder) {
	fmt.Fprintf(b, "\nDifferences from %s on the same seeds and data (positive: %s is better), with 95 %% intervals of a paired t-test:\n\n", f.Baseline, f.Baseline)
	fmt.Fprint(b, "| setting | method | stage | difference | 95 % interval | p |\n|---|---|---|---|---|---|\n")
	for _, e := range f.Entries {
		if e.Method == f.Baseline || len(e.Values) == 0 {
			continue
		}
		for _, base := range f.Entries {
			if base.Setting == e.Setting && base.Stage == e.Stage && base.Method == f.Baseline {
				p := Compare(e.Values, base.Values)
				fmt.Fprintf(b, "| %s | %s | %s | %+.2f | %.2f to %.2f | %.2g |\n", e.Setting, e.Method, e.Stage, p.Mean, p.Low, p.High, p.P)
			}
		}
	}
}

func mapKeys(m map[string]float64) iter.Seq[string] { return maps.Keys(m) }
