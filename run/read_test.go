package run_test

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"fedrspo/run"
)

// TestMetrics: what was appended is read, in order; a broken line is named.
func TestMetrics(t *testing.T) {
	f := create(t)
	if _, err := f.Metrics(); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), run.MetricsFile) {
		t.Errorf("without a file: got error %v", err)
	}
	client, lambda := 3, 0.125
	want := []run.Metric{
		{Loss: "mse", Seed: 42, Stage: "federated", Round: 0, Active: []int{1, 4}, TrainLoss: 0.1, Rate: 0.001, Validation: &run.Regret{Relative: 0.3, Absolute: 7}},
		{Loss: "rspo+", Seed: -1, Stage: "personal", Round: 3, Client: &client, Lambda: &lambda, Rate: 0.002},
	}
	for i := range want {
		if err := f.AppendMetrics(want[i : i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := f.Metrics(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, error %v, want %+v", got, err, want)
	}
	whole, err := os.ReadFile(f.Path(run.MetricsFile))
	if err != nil {
		t.Fatal(err)
	}
	for name, tail := range map[string]string{
		"cut short":       string(whole[:40]) + "\n",
		"empty line":      "\n",
		"two values":      string(whole[:len(whole)-1]) + "{}\n",
		"no loss":         `{"stage":"a","round":1}` + "\n",
		"no stage":        `{"loss":"a","round":1}` + "\n",
		"negative round":  `{"loss":"a","stage":"b","round":-1}` + "\n",
		"text for number": `{"loss":"a","stage":"b","round":"1"}` + "\n",
	} {
		if name == "two values" {
			tail = strings.SplitAfter(tail, "\n")[1]
		}
		if err := os.WriteFile(f.Path(run.MetricsFile), append(whole[:len(whole):len(whole)], tail...), 0o644); err != nil {
			t.Fatal(err)
		}
		if got, err := f.Metrics(); !errors.Is(err, run.ErrFolder) || !strings.Contains(err.Error(), f.Path(run.MetricsFile)+": line 3") {
			t.Errorf("%s: got %+v, error %v", name, got, err)
		}
	}
}

// TestReadJSON: version and timing come back; a broken file is named.
func TestReadJSON(t *testing.T) {
	f := create(t)
	version := run.BuildVersion("avx2")
	timing := run.Timing{Started: "2026-11-30T00:00:00Z", WallSeconds: 1.5, Workers: 2, Runs: []run.SeedTiming{{Loss: "mse", Seed: 1, WallSeconds: 1}}}
	if err := errors.Join(f.WriteJSON(run.VersionFile, version), f.WriteJSON(run.TimingFile, timing)); err != nil {
		t.Fatal(err)
	}
	if got, err := f.Version(); err != nil || got != version {
		t.Errorf("got %+v, error %v", got, err)
	}
	if got, err := f.Timing(); err != nil || !reflect.DeepEqual(got, timing) {
		t.Errorf("got %+v, error %v", got, err)
	}
	for _, name := range []string{run.VersionFile, run.TimingFile} {
		if err := os.WriteFile(f.Path(name), []byte("{"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := f.Version(); !errors.Is(err, run.ErrFolder) || !strings.Contains(err.Error(), f.Path(run.VersionFile)) {
		t.Errorf("broken: %v", err)
	}
	if _, err := f.Timing(); !errors.Is(err, run.ErrFolder) || !strings.Contains(err.Error(), f.Path(run.TimingFile)) {
		t.Errorf("broken: %v", err)
	}
}
