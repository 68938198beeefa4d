package main

import (
	"fmt"

	"fedrspo/run"
	"fedrspo/train"
)

// serverTitle says how the server of federated training differs from plain
// averaging, or "".
func serverTitle(c train.Coordinator) string {
	text := ""
	switch {
	case c.Robust():
		text = fmt.Sprintf(", aggregated by %s (f = %d)", c.Aggregator, c.Byzantine)
	case c.Aggregator != "" && c.Aggregator != train.AggregatorMean:
		text = ", aggregated by " + c.Aggregator
	}
	if c.Privacy.Noise != 0 {
		return text + fmt.Sprintf(", noise %g on changes of norm %g", c.Privacy.Noise, c.Clip)
	}
	if c.Clip > 0 {
		text += fmt.Sprintf(", changes clipped to norm %g", c.Clip)
	}
	return text
}

// serverNotes says what the federated models cost in privacy, and what the
// server went on without.
func serverNotes(results []run.Result) []string {
	var notes []string
	for _, r := range results {
		// Seeds differ in what they cost only if rounds failed: the most is what
		// can be promised.
		var most *run.Privacy
		left, failed := 0, 0
		for _, s := range r.Seeds {
			left, failed = left+s.LeftOut, failed+s.FailedRounds
			if s.Privacy != nil && (most == nil || s.Privacy.Epsilon > most.Epsilon) {
				most = s.Privacy
			}
		}
		if most != nil {
			notes = append(notes, fmt.Sprintf("%s: the %d models of federated training are (%.4g, %g)-differentially private for a client whose change is zeroed out.", r.Loss, most.Releases, most.Epsilon, most.Delta))
		}
		if left > 0 || failed > 0 {
			notes = append(notes, fmt.Sprintf("%s: federated rounds went on without %d updates of clients; %d rounds failed and left the model as it was.", r.Loss, left, failed))
		}
	}
	return notes
}
