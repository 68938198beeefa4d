package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fedrspo/internal/cli"
	"fedrspo/run"
)

// tinyMaps are settings of a run on few maps.
const tinyMaps = "-task warcraft -clients 3 -test-samples 4 -rounds 1 -epochs 1 -batch 4 -personal-rounds 1 -personal-epochs 1 -seed 5"

// TestWarcraft: a run on generated maps says what it ran on and what no model
// gives, is repeated by its own config.toml, by any number of workers and on the
// exported maps, and its models are judged again with the same result.
func TestWarcraft(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	generated := append(strings.Fields(tinyMaps), "-data", "generated:20", "-loss", "spo+,rspo+", "-bn-stats", "shared", "-path-set", "dag")
	o := mustTrain(t, append(generated, "-workers", "1", "-out", at("one"))...)
	for _, want := range []string{"task warcraft (20 generated maps, 12 x 12 cells, 3 clients), federated, resnet, seed 5", "optimality", "gap %", "Without a model, at equal costs everywhere, the optimality gap is "} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("it does not say %q: %v", want, o)
		}
	}
	mustTrain(t, append(generated, "-workers", "3", "-out", at("three"))...)
	sameRun(t, at("one"), at("three"))
	mustTrain(t, "-config", filepath.Join(at("one"), run.ConfigFile), "-out", at("again"))
	sameRun(t, at("one"), at("again"))
	if o := mustTrain(t, "-eval", at("one")); !strings.Contains(o.stderr, "Computed again and equal to") {
		t.Errorf("evaluation: %v", o)
	}
	if a, b := read(t, at("one"), run.ResultFile), read(t, at("one"), "eval", run.ResultFile); a != b {
		t.Errorf("evaluation leaves\n%s\nwant\n%s", b, a)
	}
	mustTrain(t, "-task", "warcraft", "-data", "generated:20", "-seed", "5", "-export", at("maps"), "-test-samples", "4", "-clients", "3")
	loaded := slices.Clone(generated)
	loaded[slices.Index(loaded, "generated:20")] = at("maps")
	o = mustTrain(t, append(loaded, "-out", at("loaded"))...)
	if !strings.Contains(o.stdout, "maps of "+at("maps")) {
		t.Errorf("it does not name the folder: %v", o)
	}
	sameRegrets(t, results(t, at("loaded")), results(t, at("one")))
	// Where the time went is noted for every stage.
	timing := read(t, at("one"), run.TimingFile)
	for _, want := range []string{`"stage": "federated"`, `"round_seconds"`, `"oracle_seconds"`, `"network_seconds"`, `"projections"`} {
		if !strings.Contains(timing, want) {
			t.Errorf("timing.json lacks %s: %s", want, timing)
		}
	}
}

// TestWarcraftData: a folder without maps is an error that names it, before
// anything is written.
func TestWarcraftData(t *testing.T) {
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "out")
	checkError(t, program("-task", "warcraft", "-data", dir, "-out", out), cli.Failed, dir)
	checkError(t, program("-task", "warcraft", "-data", "generated:many", "-out", out), cli.Usage, "-data", "generated:")
	checkError(t, program("-data", "generated:9", "-out", out), cli.Usage, "-data", "-task warcraft")
}
