package main

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fedrspo/experiment"
	"fedrspo/run"
)

// TestEvalLosses: models of every loss are judged again; -eval may ask for
// some of them although the file has keys of the others.
func TestEvalLosses(t *testing.T) {
	from := filepath.Join(t.TempDir(), "run")
	mustTrain(t, "-data", smallData(t), "-loss", strings.Join(experiment.LossNames(), ","), "-samples", "2", "-multipliers", "0.5,1", "-tau", "0.1", "-rounds", "2", "-out", from)
	for _, loss := range append(experiment.LossNames(), "mse,optnet") {
		if o := mustTrain(t, "-eval", from, "-loss", loss, "-out", "none"); !strings.Contains(o.stderr, "exactly") {
			t.Errorf("%s: %v", loss, o)
		}
	}
}

// regretsOf flattens the client regrets of a result.
func regretsOf(rs []run.Result) []run.Regret {
	var out []run.Regret
	for _, r := range rs {
		for _, s := range r.Seeds {
			for _, stage := range []*run.StageResult{s.Fed, s.Personal} {
				if stage == nil {
					out = append(out, run.Regret{})
					continue
				}
				out = append(out, stage.Regret)
				for _, c := range stage.Clients {
					out = append(out, c.Regret)
				}
			}
		}
	}
	return out
}

// sameRegrets compares results bit for bit.
func sameRegrets(t *testing.T, got, want []run.Result) {
	t.Helper()
	if !slices.Equal(regretsOf(got), regretsOf(want)) {
		t.Errorf("regrets %v, want %v", regretsOf(got), regretsOf(want))
	}
}

// TestEval: the saved models give the result again, exactly, and the tables of
// decisions add up to it.
func TestEval(t *testing.T) {
	for name, args := range map[string]string{
		"federated":   "-regime federated",
		"local":       "-regime local",
		"centralized": "-regime centralized",
		"pooled":      "-regime centralized -centralized single-pooled",
		"ditto":       "-personalizer ditto -prox 1",
		"interleaved": "-personalizer ditto -ditto-mode interleaved -personal-rounds 3",
		"interp":      "-personalizer interp -hold-out 0.2 -output-bound 4",
		"other loss":  "-personal-loss pfyl -samples 2 -noise multiplicative",
		"tuned":       "-lr tuned",
		"options":     "-clip 0.5 -clip-mode global -calibration averaged -calib-norm norm-of-mean -model linear",
	} {
		t.Run(name, func(t *testing.T) {
			from := filepath.Join(t.TempDir(), "run")
			mustTrain(t, append(strings.Fields(args), "-data", smallData(t), "-loss", "mse,rspo+", "-seeds", "1,2", "-rounds", "3", "-out", from)...)
			want := results(t, from)
			o := mustTrain(t, "-eval", from)
			if !strings.Contains(o.stderr, "exactly") {
				t.Errorf("it does not say that it reproduces: %v", o)
			}
			eval := filepath.Join(from, "eval")
			got := results(t, eval)
			sameRegrets(t, got, want)
			tables := 0
			for _, r := range got {
				for _, s := range r.Seeds {
					for name, stage := range map[string]*run.StageResult{"fed": s.Fed, "personal": s.Personal} {
						file := filepath.Join(eval, r.Loss, "seed-"+strconv.FormatInt(s.Seed, 10), name+".csv")
						if stage == nil {
							if _, err := os.Stat(file); err == nil {
								t.Errorf("%s: a table of no stage", file)
							}
							continue
						}
						tables++
						checkDecisions(t, file, stage)
					}
				}
			}
			if files := tree(t, eval); len(files) != tables+2 || files[run.ResultFile] == "" || files[run.VersionFile] == "" {
				t.Errorf("%d files, want %d tables, the result and the version", len(files), tables)
			}
			// The second time the folder is taken, and another one is not.
			checkError(t, program("-eval", from), exitFailed, "not empty")
			o = mustTrain(t, "-eval", from, "-out", "none", "-loss", "rspo+", "-seed", "2", "-json")
			if !strings.HasPrefix(o.stdout, "{") {
				t.Errorf("-eval -json: %v", o)
			}
		})
	}
}

// checkDecisions reads a table of decisions of the small dataset.
func checkDecisions(t *testing.T, file string, stage *run.StageResult) {
	t.Helper()
	records, err := csv.NewReader(strings.NewReader(read(t, file))).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	header := "client,sample,cost,optimum,regret,chat_0,chat_1,chat_2,chat_3,w_0,w_1,w_2,w_3"
	if got := strings.Join(records[0], ","); got != header {
		t.Errorf("header %s, want %s", got, header)
	}
	if len(records) != 1+12 {
		t.Errorf("%d rows, want the 12 test samples", len(records)-1)
	}
	sum, n := map[int]float64{}, map[int]int{}
	for _, record := range records[1:] {
		v := make([]float64, len(record))
		for i, text := range record {
			if v[i], err = strconv.ParseFloat(text, 64); err != nil {
				t.Fatal(err)
			}
		}
		client := int(v[0])
		if int(v[1]) != n[client] {
			t.Errorf("client %d: sample %v after %d others", client, v[1], n[client])
		}
		// At the end of a sum of four products both values round by 1e-15.
		if v[4] != v[2]-v[3] || v[4] < -1e-12 {
			t.Errorf("client %d: cost %v, optimum %v, regret %v", client, v[2], v[3], v[4])
		}
		for _, w := range v[9:] {
			if w < 0 || w > 1 {
				t.Errorf("client %d: decision %v is not in [0, 1]", client, w)
			}
		}
		sum[client] += v[4]
		n[client]++
	}
	mean := 0.0
	for _, c := range stage.Clients {
		// The same sum in the same order: the same bits.
		if got := sum[c.Client] / float64(n[c.Client]); got != c.Absolute {
			t.Errorf("%s: client %d has mean regret %v, the result says %v", file, c.Client, got, c.Absolute)
		}
		mean += sum[c.Client] / float64(n[c.Client])
	}
	if mean /= float64(len(stage.Clients)); mean != stage.Absolute {
		t.Errorf("%s: mean regret %v, the result says %v", file, mean, stage.Absolute)
	}
}

// TestExport: exported data give the result of the generated data of that
// seed, in training and in evaluation.
func TestExport(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	dials := []string{"-seed", "7", "-eta-obj", "0.5", "-eta-constr", "0.25", "-eta-data", "1"}
	o := mustTrain(t, append(dials, "-export", at("data"))...)
	if !strings.Contains(o.stdout, at("data")) {
		t.Errorf("-export does not name the folder: %v", o)
	}
	mustTrain(t, append(append(dials, short...), "-out", at("generated"))...)
	mustTrain(t, append(short, "-seed", "7", "-data", at("data"), "-out", at("loaded"))...)
	sameRun(t, at("generated"), at("loaded"), run.ConfigFile)

	mustTrain(t, "-eval", at("generated"), "-data", at("data"), "-out", at("judged"))
	sameRegrets(t, results(t, at("judged")), results(t, at("generated")))
	// Data of a run, by its configuration.
	mustTrain(t, "-config", filepath.Join(at("generated"), run.ConfigFile), "-export", at("again"))
	if a, b := tree(t, at("data")), tree(t, at("again")); len(a) != 5 || len(b) != 5 || a["train.csv"] != b["train.csv"] {
		t.Error("the data exported by flags and by a run's configuration differ")
	}
	// Another seed's data must not give the same.
	mustTrain(t, "-seed", "8", "-export", at("other"))
	mustTrain(t, "-eval", at("generated"), "-data", at("other"), "-out", at("judged on other"))
	if slices.Equal(regretsOf(results(t, at("judged on other"))), regretsOf(results(t, at("generated")))) {
		t.Error("-eval does not look at -data")
	}
	// Every flag that shapes data shapes the export.
	sized := []string{"-clients", "4", "-train-samples", "40", "-test-samples", "8", "-cost-scale", "train", "-eta-constr", "1", "-knapsack-weight-het", "off", "-hold-out", "0.25"}
	mustTrain(t, append(sized, "-export", at("sized"))...)
	mustTrain(t, slices.Concat(sized, short, []string{"-out", at("sized run")})...)
	mustTrain(t, append(short, "-data", at("sized"), "-out", at("sized loaded"))...)
	sameRun(t, at("sized run"), at("sized loaded"), run.ConfigFile)
	if n := strings.Count(read(t, at("sized"), "validation.csv"), "\n"); n != 1+4*3 {
		t.Errorf("%d lines of validation samples, want a header and 3 of 10 rows of 4 clients", n)
	}
	// Held-out rows of a dataset depend on the seed, so that it has a meaning.
	mustTrain(t, "-data", at("sized"), "-hold-out", "0.25", "-seed", "3", "-export", at("held out"))
	if read(t, at("sized"), "validation.csv") == read(t, at("held out"), "validation.csv") {
		t.Error("-hold-out does not shape the export of a dataset")
	}
	// A folder with something else in it is refused.
	write(t, filepath.Join(at("other"), "mine.txt"), "x")
	checkError(t, program("-export", at("other")), exitFailed, "mine.txt")
}

// TestEvalRefuses damages a run in many ways: each is one clear line.
func TestEvalRefuses(t *testing.T) {
	data := smallData(t)
	model := func(seed, stage string) string {
		return filepath.Join("models", "rspo+", "seed-"+seed, stage+".safetensors")
	}
	for name, c := range map[string]struct {
		damage func(dir string) error
		code   int
		want   string
	}{
		"no configuration":  {func(d string) error { return os.Remove(filepath.Join(d, run.ConfigFile)) }, exitUsage, run.ConfigFile},
		"bad configuration": {func(d string) error { return os.WriteFile(filepath.Join(d, run.ConfigFile), []byte("x"), 0o666) }, exitUsage, run.ConfigFile},
		"truncated model":   {func(d string) error { return os.Truncate(filepath.Join(d, model("1", "fed")), 100) }, exitFailed, model("1", "fed")},
		"empty model":       {func(d string) error { return os.Truncate(filepath.Join(d, model("2", "personal")), 0) }, exitFailed, model("2", "personal")},
		"missing model":     {func(d string) error { return os.Remove(filepath.Join(d, model("2", "fed"))) }, exitFailed, model("2", "fed")},
		"no models":         {func(d string) error { return os.RemoveAll(filepath.Join(d, "models")) }, exitFailed, model("1", "fed")},
		"model of another seed": {func(d string) error {
			return os.Rename(filepath.Join(d, model("1", "fed")), filepath.Join(d, model("2", "fed")))
		}, exitFailed, model("1", "fed")},
		"models swapped": {func(d string) error {
			text, err := os.ReadFile(filepath.Join(d, model("1", "personal")))
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(d, model("2", "personal")), text, 0o666)
		}, exitFailed, "do not reproduce"},
		"model of another network": {func(d string) error {
			path := filepath.Join(d, run.ConfigFile)
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, []byte(strings.ReplaceAll(string(text), `"mlp"`, `"linear"`)), 0o666)
		}, exitFailed, model("1", "fed")},
		"bad result":     {func(d string) error { return os.WriteFile(filepath.Join(d, run.ResultFile), []byte("{"), 0o666) }, exitFailed, run.ResultFile},
		"empty result":   {func(d string) error { return os.WriteFile(filepath.Join(d, run.ResultFile), []byte("{}"), 0o666) }, exitFailed, run.ResultFile},
		"data have gone": {func(string) error { return os.Remove(filepath.Join(data, "clients.csv")) }, exitFailed, "clients.csv"},
	} {
		t.Run(name, func(t *testing.T) {
			data = smallData(t)
			dir := filepath.Join(t.TempDir(), "run")
			mustTrain(t, "-data", data, "-seeds", "1,2", "-rounds", "2", "-out", dir)
			if err := c.damage(dir); err != nil {
				t.Fatal(err)
			}
			o := program("-eval", dir, "-out", "none")
			if c.want == "do not reproduce" {
				o.stdout = "" // the table is printed before the comparison
			}
			checkError(t, o, c.code, c.want)
		})
	}
	dir := filepath.Join(t.TempDir(), "run")
	data = smallData(t)
	mustTrain(t, "-data", data, "-rounds", "1", "-out", dir)
	checkError(t, program("-eval", dir, "-loss", "spo+", "-out", "none"), exitFailed, "no models")
	checkError(t, program("-eval", dir, "-seed", "7", "-out", "none"), exitFailed, "no models")
	// A run that was killed has no result: what there is, is judged.
	if err := os.Remove(filepath.Join(dir, run.ResultFile)); err != nil {
		t.Fatal(err)
	}
	if o := mustTrain(t, "-eval", dir, "-out", "none"); !strings.Contains(o.stderr, "killed") {
		t.Errorf("a run without a result: %v", o)
	}
}
