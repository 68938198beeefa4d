package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"fedrspo/federation"
	"fedrspo/run"
	"fedrspo/train"
)

func TestServerTitle(t *testing.T) {
	for want, c := range map[string]train.Coordinator{
		"":                                    {},
		", aggregated by median":              {Aggregator: "median"},
		", aggregated by krum (f = 2)":        {Aggregator: "krum", Byzantine: 2},
		", changes clipped to norm 0.5":       {Clip: 0.5},
		", noise 1.5 on changes of norm 0.25": {Clip: 0.25, Privacy: federation.Privacy{Noise: 1.5, Delta: 1e-5}},
		", aggregated by trimmed (f = 1), changes clipped to norm 3": {Aggregator: "trimmed", Byzantine: 1, Clip: 3},
	} {
		if got := serverTitle(c); got != want {
			t.Errorf("%+v: %q, want %q", c, got, want)
		}
	}
}

func TestServerNotes(t *testing.T) {
	results := []run.Result{
		{Loss: "mse", Seeds: []run.SeedResult{{}, {}}},
		{Loss: "spo+", Seeds: []run.SeedResult{{LeftOut: 2}, {LeftOut: 1, FailedRounds: 1}}},
		{Loss: "rspo+", Seeds: []run.SeedResult{{Privacy: &run.Privacy{Releases: 9, Epsilon: 1, Delta: 1e-5}}, {Privacy: &run.Privacy{Releases: 10, Epsilon: 1.23456, Delta: 1e-5}}}},
	}
	want := []string{
		"spo+: federated rounds went on without 3 updates of clients; 1 rounds failed and left the model as it was.",
		"rspo+: the 10 models of federated training are (1.235, 1e-05)-differentially private for a client whose change is zeroed out.",
	}
	if got := serverNotes(results); !slices.Equal(got, want) {
		t.Errorf("notes %q, want %q", got, want)
	}
}

// TestServerFlags: a run with noise says what it cost in table and JSON, and its
// configuration repeats it.
func TestServerFlags(t *testing.T) {
	base := []string{"-out", "none", "-loss", "mse", "-rounds", "2", "-personal-rounds", "0", "-clients", "4", "-train-samples", "40", "-validation-samples", "8", "-test-samples", "8", "-dp-noise", "2", "-dp-clip", "0.5", "-dp-delta", "0.001"}
	o := mustTrain(t, base...)
	if !strings.Contains(o.stdout, "noise 2 on changes of norm 0.5") || !strings.Contains(o.stdout, "mse: the 2 models of federated training are (") {
		t.Fatal(o)
	}
	o = mustTrain(t, append(base, "-json")...)
	var report struct{ Seeds []run.SeedResult }
	if err := json.Unmarshal([]byte(o.stdout), &report); err != nil || len(report.Seeds) != 1 {
		t.Fatalf("error %v, %v", err, o)
	}
	want := federation.Settings{Fraction: 0.4, Clip: 0.5, Privacy: federation.Privacy{Noise: 2, Delta: 0.001}}.SpentAfter(2, 4)
	if p := report.Seeds[0].Privacy; p == nil || p.Releases != 2 || p.Epsilon != want.Epsilon || p.Delta != 0.001 {
		t.Errorf("privacy %+v, want %+v", p, want)
	}
}
