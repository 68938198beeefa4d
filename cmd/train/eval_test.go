package main

import (
	"encoding/csv"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fedrspo/experiment"
	"fedrspo/internal/cli"
	"fedrspo/run"
)

// TestEvalLosses: models of every loss are judged again; -eval may ask for
// some of them although the file has keys of the others.
func TestEvalLosses(t *testing.T) {
	from := filepath.Join(t.TempDir(), "run")
	mustTrain(t, "-data", smallData(t), "-loss", strings.Join(experiment.LossNames(), ","), "-samples", "2", "-multipliers", "0.5,1", "-tau", "0.1", "-rounds", "2", "-out", from)
	for _, loss := range append(experiment.LossNames(), "mse,optnet") {
		if o := mustTrain(t, "-eval", from, "-loss", loss, "-out", "none"); !strings.Contains(o.stderr, "Computed again and equal to") {
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
			if !strings.Contains(o.stderr, "Computed again and equal to") {
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
			// All of it is the object that training left.
			if a, b := read(t, from, run.ResultFile), read(t, eval, run.ResultFile); a != b {
				t.Errorf("the result of evaluation is\n%s\nwant\n%s", b, a)
			}
			// A second evaluation replaces the first.
			mustTrain(t, "-eval", from, "-loss", "rspo+", "-seed", "2")
			if r := results(t, eval); len(r) != 1 || len(r[0].Seeds) != 1 || r[0].Seeds[0].Steps != want[1].Seeds[1].Steps {
				t.Errorf("a second evaluation leaves %+v", r)
			}
			if _, err := os.Stat(filepath.Join(eval, "mse")); err == nil {
				t.Error("tables of the first evaluation are still there")
			}
			onlyEntries(t, from, run.ConfigFile, "eval", run.MetricsFile, run.ModelsDir, run.ResultFile, run.TimingFile, run.VersionFile)
		})
	}
}

// onlyEntries checks what lies directly in a folder.
func onlyEntries(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s holds %v, want %v", dir, got, want)
	}
}

// TestEvalTable: the table and the JSON of an evaluation are those of training,
// but for clock values.
func TestEvalTable(t *testing.T) {
	var clock = regexp.MustCompile(`"wall_seconds":[^,}]*`)
	for _, args := range []string{"", "-loss rspo+,mse -lr tuned", "-loss spo+,optnet -personalizer interp", "-regime local", "-regime centralized"} {
		from := filepath.Join(t.TempDir(), "run")
		train := append(strings.Fields(args), "-data", smallData(t), "-seeds", "1,2", "-rounds", "2")
		table := mustTrain(t, append(train, "-out", from)...).stdout
		table, _, _ = strings.Cut(table, "\n\n"+from)
		if got := mustTrain(t, "-eval", from, "-out", "none").stdout; strings.TrimSpace(got) != strings.TrimSpace(table) {
			t.Errorf("%s: evaluation prints\n%s\ntraining\n%s", args, got, table)
		}
		a, b := mustTrain(t, append(train, "-out", "none", "-json")...).stdout, mustTrain(t, "-eval", from, "-out", "none", "-json").stdout
		if a, b := clock.ReplaceAllString(a, `"wall_seconds":0`), clock.ReplaceAllString(b, `"wall_seconds":0`); a != b {
			t.Errorf("%s: evaluation prints\n%s\ntraining\n%s", args, b, a)
		}
	}
}

// TestEvalFolder: what an evaluation did not write is never replaced, and one
// that fails leaves everything as it was.
func TestEvalFolder(t *testing.T) {
	dir := t.TempDir()
	from := filepath.Join(dir, "run")
	mustTrain(t, "-data", smallData(t), "-rounds", "1", "-seeds", "1,2", "-out", from)
	checkError(t, program("-eval", from, "-out", from), cli.Failed, from+" is not empty", run.ConfigFile, "-out")
	mustTrain(t, "-eval", from)
	eval := filepath.Join(from, "eval")
	before := tree(t, eval)
	model := filepath.Join(from, run.ModelFile("rspo+", 2, "personal"))
	whole := read(t, model)
	write(t, model, whole[:len(whole)/2])
	checkError(t, program("-eval", from), cli.Failed, model)
	if after := tree(t, eval); !maps.Equal(after, before) {
		t.Error("a failed evaluation changed the earlier one")
	}
	deep := filepath.Join(dir, "new", "deep", "eval")
	checkError(t, program("-eval", from, "-out", deep), cli.Failed, model)
	onlyEntries(t, dir, "run")
	write(t, model, whole)
	// It is named as the user wrote it.
	t.Chdir(dir)
	short := filepath.Join("new", "deep", "eval")
	if o := mustTrain(t, "-eval", from, "-out", short); !strings.Contains(o.stderr, " are in "+short+".\n") {
		t.Errorf("the folder is not named: %v", o)
	}
	onlyEntries(t, filepath.Dir(deep), "eval")
	// A file of the user's makes the folder theirs.
	write(t, filepath.Join(eval, "notes.txt"), "mine")
	checkError(t, program("-eval", from), cli.Failed, "not empty", "notes.txt", "-out")
	if read(t, eval, "notes.txt") != "mine" {
		t.Error("the user's file was touched")
	}
	onlyEntries(t, from, run.ConfigFile, "eval", run.MetricsFile, run.ModelsDir, run.ResultFile, run.TimingFile, run.VersionFile)
}

// TestEvalTampered: every number of the result that is recomputed is compared,
// and data that changed are named as the reason.
func TestEvalTampered(t *testing.T) {
	from, data := filepath.Join(t.TempDir(), "run"), smallData(t)
	mustTrain(t, "-data", data, "-rounds", "2", "-seeds", "1,2", "-loss", "spo+", "-personalizer", "interp", "-out", from)
	file := filepath.Join(from, run.ResultFile)
	whole := read(t, file)
	for name, change := range map[string]func(r *run.Result){
		"mean of federated":         func(r *run.Result) { r.Mean.Fed.Relative *= 1.5 },
		"last bit of a mean":        func(r *run.Result) { r.Mean.Personal.Absolute = math.Nextafter(r.Mean.Personal.Absolute, 9) },
		"no mean":                   func(r *run.Result) { r.Mean.Fed = nil },
		"steps":                     func(r *run.Result) { r.Steps++ },
		"mean of a stage":           func(r *run.Result) { r.Seeds[1].Fed.Absolute++ },
		"client":                    func(r *run.Result) { r.Seeds[0].Personal.Clients[2].Absolute++ },
		"local endpoint":            func(r *run.Result) { r.Seeds[0].LocalEndpoint.Clients[1].Relative++ },
		"a seed taken out":          func(r *run.Result) { r.Seeds = r.Seeds[1:] },
		"a client taken out":        func(r *run.Result) { s := r.Seeds[0].Fed; s.Clients = s.Clients[1:] },
		"a stage where there is no": func(r *run.Result) { r.Seeds[0].LocalEndpoint = nil },
	} {
		r := results(t, from)
		change(&r[0])
		text, err := json.Marshal(map[string]any{"runs": r})
		if err != nil {
			t.Fatal(err)
		}
		write(t, file, string(text))
		o := program("-eval", from, "-out", "none")
		o.stdout = "" // the table is printed before the comparison
		checkError(t, o, cli.Failed, "do not reproduce", file)
		if strings.Contains(o.stderr, "dataset has changed") {
			t.Errorf("%s: %v", name, o)
		}
		write(t, file, whole)
	}
	test := read(t, data, "test.csv")
	write(t, filepath.Join(data, "test.csv"), strings.Replace(test, ",-", ",-1", 1))
	o := program("-eval", from, "-out", "none")
	o.stdout = ""
	checkError(t, o, cli.Failed, "the dataset has changed", file, "SHA-256")
	// Data that -data names are compared where they are the run's.
	if o := mustTrain(t, "-eval", from, "-out", "none", "-data", data); !strings.Contains(o.stderr, "other data") {
		t.Errorf("other data: %v", o)
	}
	write(t, filepath.Join(data, "test.csv"), test)
	if o := mustTrain(t, "-eval", from, "-out", "none", "-data", data); !strings.Contains(o.stderr, "Computed again and equal to "+file+", bit for bit: 18 regrets of clients, 6 means of stages, and the means over seeds, of 2 training runs.") {
		t.Errorf("the run's own data by -data: %v", o)
	}
	// A result that does not know its data.
	write(t, file, regexp.MustCompile(`"data_sha256": "[0-9a-f]{64}",`).ReplaceAllString(whole, ""))
	mustTrain(t, "-eval", from, "-out", "none")
	if o := mustTrain(t, "-eval", from, "-out", "none", "-data", data); !strings.Contains(o.stderr, "nothing is compared") {
		t.Errorf("data of a run that did not note its own: %v", o)
	}
}

// TestEvalNewClient: federated models are judged on the data of a client the
// run did not have; that there is no personal model is a clear error.
func TestEvalNewClient(t *testing.T) {
	data, more := smallData(t), smallData(t)
	write(t, filepath.Join(more, "clients.csv"), read(t, more, "clients.csv")+"9,new,3,1,1,1,1\n")
	for _, split := range []string{"train.csv", "test.csv"} {
		write(t, filepath.Join(more, split), read(t, more, split)+"9,0.5,-0.5,-3,-2,-1,-2\n9,-0.5,0.25,-1,-2,-3,-2\n")
	}
	from := filepath.Join(t.TempDir(), "run")
	mustTrain(t, "-data", data, "-rounds", "2", "-loss", "mse,rspo+", "-out", from)
	o := program("-eval", from, "-data", more)
	if !strings.Contains(o.stdout, "Fed") || strings.Contains(o.stdout, "+P") || strings.Contains(o.stdout, "Interrupted") {
		t.Errorf("want the federated models only: %v", o)
	}
	r := results(t, filepath.Join(from, "eval"))
	for _, r := range r {
		if r.Complete || r.Seeds[0].Personal != nil || len(r.Seeds[0].Fed.Clients) != 4 {
			t.Errorf("kept %+v", r)
		}
	}
	o.stdout = ""
	checkError(t, o, cli.Failed, "client 9", "personal.safetensors", "leave the client out of the data", "train again")
	// Without a global model there is nothing to judge.
	local := filepath.Join(t.TempDir(), "run")
	mustTrain(t, "-data", data, "-rounds", "2", "-regime", "local", "-out", local)
	checkError(t, program("-eval", local, "-data", more), cli.Failed, "client 9", "leave the client out of the data")
	if _, err := os.Stat(filepath.Join(local, "eval")); err == nil {
		t.Error("nothing was judged, but there is a folder")
	}
	pooled := filepath.Join(t.TempDir(), "run")
	mustTrain(t, "-data", data, "-rounds", "2", "-regime", "centralized", "-centralized", "single-pooled", "-out", pooled)
	mustTrain(t, "-eval", pooled, "-data", more)
	// Fewer clients are no problem.
	mustTrain(t, "-data", more, "-rounds", "2", "-out", filepath.Join(local, "more"))
	mustTrain(t, "-eval", filepath.Join(local, "more"), "-data", data)
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
	checkError(t, program("-export", at("other")), cli.Failed, "mine.txt")
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
		"no configuration":  {func(d string) error { return os.Remove(filepath.Join(d, run.ConfigFile)) }, cli.Usage, run.ConfigFile},
		"bad configuration": {func(d string) error { return os.WriteFile(filepath.Join(d, run.ConfigFile), []byte("x"), 0o666) }, cli.Usage, run.ConfigFile},
		"truncated model":   {func(d string) error { return os.Truncate(filepath.Join(d, model("1", "fed")), 100) }, cli.Failed, model("1", "fed")},
		"empty model":       {func(d string) error { return os.Truncate(filepath.Join(d, model("2", "personal")), 0) }, cli.Failed, model("2", "personal")},
		"missing model":     {func(d string) error { return os.Remove(filepath.Join(d, model("2", "fed"))) }, cli.Failed, model("2", "fed")},
		"no models":         {func(d string) error { return os.RemoveAll(filepath.Join(d, "models")) }, cli.Failed, model("1", "fed")},
		"model of another seed": {func(d string) error {
			return os.Rename(filepath.Join(d, model("1", "fed")), filepath.Join(d, model("2", "fed")))
		}, cli.Failed, model("1", "fed")},
		"models swapped": {func(d string) error {
			text, err := os.ReadFile(filepath.Join(d, model("1", "personal")))
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(d, model("2", "personal")), text, 0o666)
		}, cli.Failed, "do not reproduce"},
		"model of another network": {func(d string) error {
			path := filepath.Join(d, run.ConfigFile)
			text, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, []byte(strings.ReplaceAll(string(text), `"mlp"`, `"linear"`)), 0o666)
		}, cli.Failed, model("1", "fed")},
		"bad result":     {func(d string) error { return os.WriteFile(filepath.Join(d, run.ResultFile), []byte("{"), 0o666) }, cli.Failed, run.ResultFile},
		"empty result":   {func(d string) error { return os.WriteFile(filepath.Join(d, run.ResultFile), []byte("{}"), 0o666) }, cli.Failed, run.ResultFile},
		"data have gone": {func(string) error { return os.Remove(filepath.Join(data, "clients.csv")) }, cli.Failed, "clients.csv"},
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
	checkError(t, program("-eval", dir, "-loss", "spo+"), cli.Usage, "-loss spo+", "it has rspo+")
	checkError(t, program("-eval", dir, "-loss", "rspo+,mse"), cli.Usage, "-loss mse", "it has rspo+")
	checkError(t, program("-eval", dir, "-seed", "7"), cli.Usage, "-seed 7", "it has seed 42")
	checkError(t, program("-eval", dir, "-seeds", "42,43"), cli.Usage, "-seeds 43", "it has seed 42")
	checkError(t, program("-eval", dir, "-loss", "rspo+", "-seeds", "1..3"), cli.Usage, "-seeds 1", "it has seed 42")
	// A run that was killed has no result: what there is, is judged.
	if err := os.Remove(filepath.Join(dir, run.ResultFile)); err != nil {
		t.Fatal(err)
	}
	if o := mustTrain(t, "-eval", dir, "-out", "none"); !strings.Contains(o.stderr, "killed") {
		t.Errorf("a run without a result: %v", o)
	}
}
