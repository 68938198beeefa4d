package experiment

import (
	"fmt"
	"math"

	"fedrspo/run"
)

const (
	// JudgedSeeds is the least number of seeds whose spread is known well
	// enough to judge agreement with the paper.
	JudgedSeeds = 20
	// maxZ is the largest |z| that counts as agreement.
	maxZ = 3
)

// zScore compares the paper's number, the mean of n values, with the mean of
// our values of the same kind: their difference, less what rounding of the
// printed number explains, over its standard error s sqrt(1/n + 1/len(ours)).
// Both spreads are taken to be ours, s.
func zScore(t Target, ours []float64, n int) float64 {
	mean, std := run.MeanStd(ours)
	diff := t.Mean - mean
	rounding := 0.5 * math.Pow(10, -float64(t.Digits))
	if math.Abs(diff) <= rounding {
		return 0 // also where nothing varies
	}
	diff = math.Copysign(math.Abs(diff)-rounding, diff)
	return diff / (std * math.Sqrt(1/float64(n)+1/float64(len(ours))))
}

// judge returns the verdict on the cell or claim of that ID and, for a known
// difference, the reason.
func judge(id string, good bool, yes, no string) (verdict, reason string) {
	if good {
		return yes, ""
	}
	if reason, ok := knownDifferences()[id]; ok {
		return Known, reason
	}
	return no, ""
}

func (f *Finished) judgeClaims() {
	for _, c := range f.Claims {
		if c.AtPaperRates && f.Options.Rates != "paper" {
			continue
		}
		j := Judged{ID: f.Table.ID + "/claim/" + c.ID, Text: c.Text}
		j.Verdict, j.Reason = judge(j.ID, c.Holds(f), Holds, Fails)
		f.Judged = append(f.Judged, j)
	}
}

// Differs lists the cells that differ and the claims that do not hold, without
// a recorded reason.
func (f *Finished) Differs() []string {
	var out []string
	for _, e := range f.Entries {
		if e.Verdict == Differs {
			out = append(out, fmt.Sprintf("%s: ours %s, paper %s, z %s", e.ID, f.ours(e), paperText(e.Target), zText(e.Z)))
		}
	}
	for _, j := range f.Judged {
		if j.Verdict == Fails {
			out = append(out, fmt.Sprintf("%s: does not hold: %s", j.ID, j.Text))
		}
	}
	return out
}
