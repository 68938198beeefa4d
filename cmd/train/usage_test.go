package main

import (
	"encoding/json"
	"flag"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"fedrspo/experiment"
	"fedrspo/internal/cli"
	"fedrspo/run"
)

// TestUsageErrors goes through the rules of the flags: every mistake is one
// line and exit code 2, and nothing is written.
func TestUsageErrors(t *testing.T) {
	t.Chdir(t.TempDir())
	data := smallData(t)
	for args, want := range map[string]string{
		"-no-such-flag":        "no-such-flag",
		"extra":                `"extra"`,
		"-json extra":          `"extra"`,
		"-rounds":              "-rounds",
		"-rounds 2.5":          "-rounds",
		"-rounds many":         `"many"`,
		"-rounds 1e3":          "-rounds",
		"-task tsp":            `"tsp"`,
		"-loss hinge":          `"hinge"`,
		"-loss rspo+,":         `""`,
		"-loss mse,spo+,mse":   `"mse"`,
		"-regime solo":         `"solo"`,
		"-model cnn":           `"cnn"`,
		"-device tpu":          `"tpu"`,
		"-tf32":                "-tf32",
		"-progress maybe":      `"maybe"`,
		"-lr fast":             `"fast"`,
		"-lr -0.1":             `"-0.1"`,
		"-lr 0":                `"0"`,
		"-lr NaN":              `"NaN"`,
		"-lr Inf":              `"Inf"`,
		"-lr 1e999":            `"1e999"`,
		"-seed 1.5":            "-seed",
		"-seed 1 -seeds 2":     "exclude",
		"-seeds 1,x":           `"x"`,
		"-seeds 1,,2":          `""`,
		"-seeds 5..1":          `"5..1"`,
		"-seeds 1..2..3":       `"1..2..3"`,
		"-seeds 1..3,2":        "named twice",
		"-seeds 1..2000000000": "more than",
		"-seeds -9223372036854775808..9223372036854775807": "more than",
		"-seeds 1..90000,100001..200000":                   "more than",
		"-fraction 1.5":                                    "-fraction is 1.5, want a share of the clients, above 0 to 1, or their whole number",
		// Flags that would have no effect.
		"-data D -eta-obj 1":                                    "-eta-obj",
		"-data D -eta-constr 0":                                 "-eta-constr",
		"-data D -eta-data 1":                                   "-eta-data",
		"-loss mse -alpha 1":                                    "-alpha",
		"-loss spo+ -personal-alpha 1":                          "-personal-alpha",
		"-lr 0.1 -alpha 1":                                      "-alpha",
		"-lr 0.1 -personal-alpha 1":                             "-personal-alpha",
		"-loss mse -kappa-lambda 1":                             "-kappa-lambda",
		"-loss mse -kappa-lr 1":                                 "-kappa-lr",
		"-loss mse -fed-kappa-lambda 1":                         "-fed-kappa-lambda",
		"-loss mse -fed-kappa-lr 1":                             "-fed-kappa-lr",
		"-loss mse,spo+ -tau 1":                                 "-tau",
		"-loss mse -lr matched -early-stop 1":                   "-early-stop",
		"-loss mse -monitor 1":                                  "-monitor",
		"-regime local -fraction 1":                             "-fraction",
		"-regime local -personal-rounds 1":                      "-personal-rounds",
		"-regime local -personal-epochs 1":                      "-personal-epochs",
		"-regime centralized -personal-alpha 1":                 "-personal-alpha",
		"-regime centralized -fed-kappa-lr 1":                   "-fed-kappa-lr",
		"-regime local -fed-kappa-lambda 0":                     "-fed-kappa-lambda",
		"-export E -rounds 3":                                   "-rounds",
		"-export E -loss mse":                                   "-loss",
		"-export E -out none":                                   "-out",
		"-export E -json":                                       "-json",
		"-export E -workers 1":                                  "-workers",
		"-export E -seeds 1..2":                                 "one seed",
		"-export E -data D -seed 1":                             "-seed",
		"-export E -eval R":                                     "-export",
		"-eval R -rounds 1":                                     "-rounds",
		"-eval R -config C":                                     "-config",
		"-eval R -eta-obj 1":                                    "-eta-obj",
		"-config no-such-file.toml":                             "no-such-file.toml",
		"-config .":                                             "config",
		"-eval no-such-run":                                     "no-such-run",
		"-eta-obj 11":                                           "-eta-obj is 11, want 0 or a number from 1e-09 to 10",
		"-eta-obj NaN":                                          "-eta-obj is NaN",
		"-eta-constr -1":                                        "-eta-constr is -1",
		"-regime local -loss mse -seeds 1..2 -epochs 0 -json":   "-epochs",
		"-json -progress on -workers -1":                        "-workers",
		"-model linear -device cpu -loss rspo+,spo+ -batch -64": "-batch",
		// Methods beside rspo+'s.
		"-personal-loss hinge":                                  `"hinge"`,
		"-regime local -personal-loss mse":                      "-personal-loss",
		"-personalizer apfl":                                    `"apfl"`,
		"-regime local -personalizer finetune":                  "-personalizer",
		"-ditto-mu 1":                                           "-ditto-mu",
		"-personalizer interp -ditto-mode sequential":           "-ditto-mode",
		"-personalizer ditto -ditto-mode twice":                 `"twice"`,
		"-personalizer ditto -ditto-mode interleaved -rounds 3": "as many personal as federated",
		"-personalizer ditto -rho-selector mse":                 "-rho-selector",
		"-personalizer interp -rho-selector rspo+":              `"rspo+"`,
		"-regime centralized -prox 1":                           "-prox",
		"-loss pfyl -variance-reduction true":                   "-variance-reduction",
		"-loss dpo -variance-reduction maybe":                   `"maybe"`,
		"-loss dpo -samples 1 -variance-reduction false":        "-variance-reduction",
		"-loss spo+ -samples 3":                                 "-samples",
		"-loss rspo+,mse -epsilon 1":                            "-epsilon",
		"-loss optnet -noise additive":                          "-noise",
		"-loss pfyl -noise loud":                                `"loud"`,
		"-loss mse -multipliers 1":                              "-multipliers",
		"-loss optnet -multipliers 1,x":                         `"x"`,
		"-loss optnet -multipliers 1,-1":                        "multipliers",
		"-clip 0 -clip-mode global":                             "-clip-mode",
		"-clip-mode both":                                       `"both"`,
		"-loss mse -calib-norm norm-of-mean":                    "-calib-norm",
		"-loss mse,spo+ -calibration averaged":                  "-calibration",
		"-loss mse -lr matched -calibration averaged":           "-calibration",
		"-calibration mean":                                     `"mean"`,
		"-centralized single-pooled":                            "-centralized",
		"-regime local -centralized per-target-pooled":          "-centralized",
		"-regime centralized -centralized one":                  `"one"`,
		"-data D -clients 3":                                    "-clients",
		"-data D -train-samples 30":                             "-train-samples",
		"-data D -validation-samples 30":                        "-validation-samples",
		"-data D -test-samples 30":                              "-test-samples",
		"-data D -cost-scale train":                             "-cost-scale",
		"-data D -knapsack-weight-het off":                      "-knapsack-weight-het",
		"-knapsack-weight-het no":                               `"no"`,
		"-hold-out 0.2 -validation-samples 30":                  "-validation-samples",
		"-hold-out 1":                                           "-hold-out",
		"-clients 30 -train-samples 29":                         "29 training samples for 30 clients",
		"-lr tuned -alpha 1":                                    "-alpha",
		"-lr scaled:fast":                                       `"scaled:fast"`,
		"-lr scaled:":                                           `"scaled:"`,
		"-lr scaled:-1":                                         `"scaled:-1"`,
		"-std none":                                             `"none"`,
		"-json -std population":                                 "-std",
		"-export E -std population":                             "-std",
		"-personal-loss mse -kappa-lambda 1":                    "-kappa-lambda",
		"-personal-loss mse -early-stop 1":                      "-early-stop",
		"-personal-loss mse -personal-alpha 1":                  "-personal-alpha",
		"-loss mse -personal-loss rspo+ -alpha 1":               "-alpha",
		"-loss mse -personal-loss rspo+ -fed-kappa-lr 1":        "-fed-kappa-lr",
	} {
		list := strings.Fields(args)
		if i := slices.Index(list, "D"); i >= 0 {
			list[i] = data
		}
		t.Run(args, func(t *testing.T) { checkError(t, program(list...), cli.Usage, want) })
	}
	for _, name := range []string{"eval", "export", "config"} {
		checkError(t, program("-"+name, ""), cli.Usage, "-"+name+" has an empty value")
		checkError(t, program("-"+name+"=", "-seed", "1"), cli.Usage, "-"+name+" has an empty value")
	}
	checkError(t, program("-seeds", ""), cli.Usage, "-seeds", "at least one seed")
	checkError(t, program("-loss", " "), cli.Usage, "-loss", "at least one of rspo+")
	checkError(t, program("-loss", "optnet", "-multipliers", ""), cli.Usage, "-multipliers", "at least one number")
	if left := tree(t, "."); len(left) != 0 {
		t.Errorf("usage errors left files: %v", left)
	}
}

// TestNumbers gives every numeric flag values at and beyond its limits. Each
// ends soon, with a result where the value is allowed and else with a usage
// error that names the flag: never with a panic, a hang or an exhausted memory.
func TestNumbers(t *testing.T) {
	small := []string{"-data", smallData(t), "-out", "none", "-rounds", "1", "-epochs", "1", "-personal-rounds", "1"}
	values := []string{"NaN", "Inf", "-Inf", "-1", "0", "1", "1e-320", "1e300", "1e9999", "1000000000", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "", "0x"}
	allowed := map[string][]string{
		// A million rounds would be allowed, and take their time.
		"rounds":           {"0", "1"},
		"personal-rounds":  {"0", "1"},
		"epochs":           {"1"},
		"personal-epochs":  {"1"},
		"batch":            {"1"},
		"monitor":          {"1"},
		"early-stop":       {"-1", "0", "1"},
		"workers":          {"0", "1"},
		"fraction":         {"1", "1e-320"},
		"alpha":            {"1", "1000000000"},
		"personal-alpha":   {"1", "1000000000"},
		"kappa-lambda":     {"0", "1", "1e-320", "1000000000"},
		"kappa-lr":         {"0", "1", "1e-320", "1000000000"},
		"fed-kappa-lambda": {"0", "1", "1e-320", "1000000000"},
		"fed-kappa-lr":     {"0", "1", "1e-320", "1000000000"},
		"tau":              {"0", "1", "1e-320", "1000000000"},
		"seed":             {"-1", "0", "1", "1000000000", "9223372036854775807", "-9223372036854775808"},
		"eta-obj":          {"0", "1"},
		"eta-constr":       {"0", "1"},
		"eta-data":         {"0", "1"},
		"prox":             {"0", "1", "1e-320", "1000000000"},
		"clip":             {"0", "1", "1e-320", "1000000000"},
		"output-bound":     {"0", "1", "1e-320", "1000000000"},
		"ditto-mu":         {"1", "1e-320", "1000000000"},
		"epsilon":          {"1", "1e-320", "1000000000"},
		"samples":          {"1"},
		"hold-out":         {"0", "1e-320"},
		"clients":          {"0", "1"},
		"train-samples":    {"0", "1"},
		// The paper has 200 and 2000; a share of one client is enough here.
		"validation-samples": {"0", "1"},
		"track":              {"0", "1"},
		"test-samples":       {"0", "1"},
		"grid":               {"0"},
		"terrain-scale":      {"0", "1", "1e-320"},
		"days":               {"0"},
		"data-seed":          {"-1", "0", "1", "1000000000", "9223372036854775807", "-9223372036854775808"},
		"demand":             {"0", "1"},
		"train-days":         {"0", "1"},
		"late-client":        {"0", "1"},
		"byzantine":          {"1"},
		"min-updates":        {"0", "1"},
		"update-clip":        {"0", "1", "1000000000"},
		"dp-noise":           {"1"}, // 0 leaves -dp-clip without effect
		"dp-clip":            {"1", "1000000000"},
		"dp-delta":           {"1e-320"},
	}
	// What a flag needs beside it to have an effect.
	beside := map[string][]string{
		"ditto-mu": {"-personalizer", "ditto"},
		"epsilon":  {"-loss", "pfyl"},
		"samples":  {"-loss", "pfyl,dpo"},
		// Three clients are the fewest that bear one.
		"byzantine": {"-aggregator", "trimmed", "-fraction", "1"},
		"dp-noise":  {"-dp-clip", "1"},
		"dp-clip":   {"-dp-noise", "1"},
		"dp-delta":  {"-dp-noise", "1", "-dp-clip", "1"},
	}
	generated := []string{"eta-obj", "eta-constr", "eta-data", "clients", "train-samples", "validation-samples", "test-samples"}
	o, err := parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	o.fs.VisitAll(func(f *flag.Flag) {
		switch f.Value.(flag.Getter).Get().(type) {
		case string, bool, []int64, []float64:
			return
		}
		ok, listed := allowed[f.Name]
		if !listed {
			t.Errorf("the numeric flag -%s is not in this test", f.Name)
			return
		}
		for _, v := range values {
			t.Run(f.Name+"="+v, func(t *testing.T) {
				args := slices.Concat(small, beside[f.Name], []string{"-" + f.Name + "=" + v})
				if slices.Contains(generated, f.Name) {
					args = append(slices.Clone(short), "-out", "none", "-"+f.Name+"="+v)
				}
				if experiment.FlagTask(f.Name) == "pjm" {
					args = append(strings.Fields("-task pjm -days 12 -clients 2 -model linear -out none -rounds 1 -epochs 1 -personal-rounds 1"), "-"+f.Name+"="+v)
				}
				if experiment.FlagTask(f.Name) == "warcraft" {
					args = append(strings.Fields("-task warcraft -data generated:30 -clients 2 -test-samples 2 -model linear -out none -rounds 1 -epochs 1 -personal-rounds 1"), "-"+f.Name+"="+v)
				}
				if strings.HasSuffix(f.Name, "-samples") {
					args = append(args, "-clients", "1")
				}
				if f.Name == "track" { // it has no effect without a folder
					args = append(args, "-out", filepath.Join(t.TempDir(), "run"))
				}
				done := make(chan outcome, 1)
				go func() { done <- program(args...) }()
				var got outcome
				select {
				case got = <-done:
				case <-time.After(time.Minute):
					t.Fatal("still running after a minute")
				}
				if slices.Contains(ok, v) {
					if got.code != cli.OK {
						t.Errorf("an allowed value fails: %v", got)
					}
					return
				}
				if strings.HasSuffix(f.Name, "alpha") && v == "1e-320" {
					// Positive, but the learning rate it leads to may round to 0.
					if got.code != cli.OK {
						checkError(t, got, cli.Failed, "learning rate")
					}
					return
				}
				want := "-" + f.Name
				checkError(t, got, cli.Usage, want)
			})
		}
	})
	if t.Failed() {
		return
	}
	// A batch beyond all data is all data.
	args := append(slices.Clone(small), "-json")
	a, b := mustTrain(t, append(args, "-batch", "10")...), mustTrain(t, append(args, "-batch", "1000000")...)
	if x, y := regrets(t, a.stdout), regrets(t, b.stdout); x != y {
		t.Errorf("the batch of a client's 10 samples gives %s, a larger one %s", x, y)
	}
	// Early stopping never is as good as stopping after more rounds than there are.
	args = append(args, "-personal-rounds", "6", "-tau", "1")
	a, b = mustTrain(t, append(args, "-early-stop", "-1")...), mustTrain(t, append(args, "-early-stop", "1000000")...)
	if x, y := regrets(t, a.stdout), regrets(t, b.stdout); x != y {
		t.Errorf("without early stopping the regrets are %s, with a late one %s", x, y)
	}
}

// regrets is the JSON of the seeds' regrets, without clock values.
func regrets(t *testing.T, stdout string) string {
	t.Helper()
	var r run.Result
	if err := json.Unmarshal([]byte(stdout), &r); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(r.Seeds)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDiverging: training that overflows is an error of one line that says
// where, and not a result.
func TestDiverging(t *testing.T) {
	args := []string{"-data", smallData(t), "-out", "none", "-loss", "mse"}
	checkError(t, program(append(args, "-lr", "1e200")...), cli.Failed, "mse, seed 42", "round 0", "client 1", "epoch 1", "batch 0", "finite", "smaller learning rate (-lr)")
}

// TestFailingLoss: what other losses have finished is shown and kept when one
// fails, and the error comes last.
func TestFailingLoss(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	args := []string{"-data", smallData(t), "-loss", "spo+,mse", "-lr", "1e100"}
	o := program(append(args, "-out", dir)...)
	for _, want := range []string{"spo+", "Failed: only what was finished is shown.", dir} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("the output lacks %q: %v", want, o)
		}
	}
	if r := results(t, dir); !r[0].Complete || r[1].Complete || len(r[0].Seeds) != 1 || len(r[1].Seeds) != 0 {
		t.Errorf("kept: %+v", r)
	}
	o.stdout = ""
	checkError(t, o, cli.Failed, "mse, seed 42", "-lr")
	o = program(append(args, "-out", "none", "-json")...)
	var printed struct{ Runs []run.Result }
	if err := json.Unmarshal([]byte(o.stdout), &printed); err != nil || o.code != cli.Failed || len(printed.Runs) != 2 || !printed.Runs[0].Complete {
		t.Errorf("-json: %v, %v", err, o)
	}
	// What finished before can be judged.
	mustTrain(t, "-eval", dir)
}

// TestDataErrors: what lacks in the data is said of the data.
func TestDataErrors(t *testing.T) {
	without := func(split string) string {
		data := smallData(t)
		var kept strings.Builder
		for line := range strings.Lines(read(t, data, split)) {
			if !strings.HasPrefix(line, "2,") {
				kept.WriteString(line)
			}
		}
		write(t, filepath.Join(data, split), kept.String())
		return data
	}
	data := without("test.csv")
	checkError(t, program("-data", data, "-out", "none"), cli.Failed, "data "+data, "client 2 has no test samples")
	data = without("train.csv")
	checkError(t, program("-data", data, "-out", "none", "-regime", "local"), cli.Failed, "data "+data, "client 2 has no training samples")
	o := program("-clients", "30", "-train-samples", "40", "-test-samples", "20", "-out", "none")
	checkError(t, o, cli.Failed, "generated data", "client 21 has no test samples")
	if strings.Contains(o.stderr, "configuration") {
		t.Errorf("the data are called a configuration: %v", o)
	}
	// Without validation samples there is no freeze rule, and a line that says so.
	data = without("validation.csv")
	note := "1 of 3 clients have no validation samples: the freeze rule of rspo+ never fires there.\n"
	args := []string{"-out", "none", "-rounds", "1", "-data"}
	if o := mustTrain(t, append(args, data)...); strings.Count(o.stdout, note) != 1 {
		t.Errorf("some clients lack validation samples: %v", o)
	}
	header, _, _ := strings.Cut(read(t, data, "validation.csv"), "\n")
	write(t, filepath.Join(data, "validation.csv"), header+"\n")
	note = "There are no validation samples: the freeze rule of rspo+ never fires.\n"
	if o := mustTrain(t, append(args, data)...); strings.Count(o.stdout, note) != 1 {
		t.Errorf("no validation samples: %v", o)
	}
	for _, more := range [][]string{{data, "-loss", "mse,spo+"}, {data, "-personal-loss", "mse"}, {data, "-json"}, {smallData(t)}} {
		if o := mustTrain(t, append(args, more...)...); strings.Contains(o.stdout, "freeze rule") {
			t.Errorf("%v: a note on the freeze rule: %v", more, o)
		}
	}
}

func TestHelp(t *testing.T) {
	o := mustTrain(t, "-h")
	if o.stderr != "" {
		t.Errorf("-h writes to stderr: %s", o.stderr)
	}
	p, err := parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	p.fs.VisitAll(func(f *flag.Flag) {
		if n := strings.Count(o.stdout, "\n  -"+f.Name); n == 0 {
			t.Errorf("-h does not explain -%s", f.Name)
		}
		if _, usage := flag.UnquoteUsage(f); len(usage) < 8 {
			t.Errorf("-%s is explained by %q", f.Name, usage)
		}
	})
	for i, line := range strings.Split(o.stdout, "\n") {
		if len(line) > 80 {
			t.Errorf("line %d has %d characters: %s", i, len(line), line)
		}
	}
	for _, want := range append(experiment.LossNames(), "130", "config.toml", "train -eval runs/") {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("-h does not mention %s", want)
		}
	}
	// The defaults shown are those of the regime, wherever it stands.
	for _, args := range [][]string{{"-regime", "local", "-h"}, {"-h", "-regime", "local"}, {"-regime=local", "--help", "-json"}} {
		if o := mustTrain(t, args...); !strings.Contains(o.stdout, "-regime local") || !strings.Contains(strings.Join(strings.Fields(o.stdout), " "), "(default 60)") {
			t.Errorf("%v does not show the defaults of local training", args)
		}
	}
	// A flag of another regime says so, and only such a flag.
	o = mustTrain(t, "-h", "-regime", "local")
	for name, regime := range map[string]string{"fraction": "federated", "prox": "federated", "personal-rounds": "federated", "rho-selector": "federated", "centralized": "centralized", "rounds": "", "alpha": "", "kappa-lambda": ""} {
		_, text, _ := strings.Cut(o.stdout, "\n  -"+name+" ")
		text, _, _ = strings.Cut(text, "\n  -")
		if got := strings.Contains(text, "only with -regime "+regime+":"); got != (regime != "") {
			t.Errorf("-%s in the help of -regime local: %s", name, text)
		}
	}
	// Help helps with a mistake on the same line too.
	mustTrain(t, "-h", "-regime", "solo")
	mustTrain(t, "-h", "-no-such-flag")
}

func TestVersion(t *testing.T) {
	o := mustTrain(t, "-version")
	var v run.Version
	dec := json.NewDecoder(strings.NewReader(o.stdout))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("%v: %s", err, o.stdout)
	}
	if v.Version == "" || v.Kernel == "" || !strings.HasPrefix(v.Go, "go") || !strings.Contains(v.Platform, "/") {
		t.Errorf("incomplete version %+v", v)
	}
}
