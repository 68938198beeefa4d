package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fedrspo/internal/cli"
	"fedrspo/run"
)

// TestConfigErrors: a mistake in the file is a usage error that names the file
// and the key.
func TestConfigErrors(t *testing.T) {
	file := filepath.Join(t.TempDir(), "my.toml")
	for text, want := range map[string][]string{
		"etaobj = 1":                         {`"etaobj"`, `"eta-obj"`},
		"eta_obj = 1":                        {`"eta_obj"`, `"eta-obj"`},
		"round = 3":                          {`"round"`, `"rounds"`},
		"zzz = 3":                            {`"zzz"`},
		"config = \"a\"":                     {`"config"`},
		"eval = \"a\"":                       {`"eval"`},
		"version = true":                     {`"version"`},
		"rounds = \"3\"":                     {`"rounds"`, `the string "3"`, "a whole number"},
		"rounds = 3.0":                       {`"rounds"`, "a whole number"},
		"rounds = true":                      {`"rounds"`, "a whole number"},
		"rounds = [3]":                       {`"rounds"`, "a list"},
		"rounds = 9223372036854775808":       {"9223372036854775808"},
		"alpha = \"0.1\"":                    {`"alpha"`, "a number"},
		"alpha = nan":                        {`key "alpha" is NaN`},
		"tau = inf":                          {`key "tau" is +Inf`},
		"eta-obj = nan":                      {`key "eta-obj" is NaN`},
		"fraction = 1.5":                     {`key "fraction" is 1.5`},
		"loss = \"optnet\"\nmultipliers = 0": {`key "multipliers" has 0`},
		"device = \"tpu\"":                   {`key "device"`, `"tpu"`, "cpu"},
		"workers = -1":                       {`key "workers" is -1`},
		"progress = \"maybe\"":               {`key "progress" is "maybe"`},
		"json = 1":                           {`"json"`, "true or false"},
		"loss = 3":                           {`"loss"`, "a string"},
		"loss = [\"mse\", 1]":                {`"loss"`},
		"loss = [[\"mse\"]]":                 {`"loss"`, "list in a list"},
		"loss = []":                          {`"loss"`, "the list is empty"},
		"loss = \"\"":                        {`"loss"`, "at least one"},
		"multipliers = []":                   {`"multipliers"`, "the list is empty"},
		"seeds = [1, 1]":                     {"named twice"},
		"seeds = []":                         {`"seeds"`, "the list is empty"},
		"seeds = 1.5":                        {"1.5"},
		"seed = 1\nseeds = [2]":              {`"seed"`, `"seeds"`, "exclude"},
		"seed = 1979-05-27":                  {`"seed"`, "a date or time"},
		"out = 3":                            {`"out"`, "a string"},
		"model = [\"mlp\"]":                  {`"model"`, "a list"},
		"[train]\nrounds = 3":                {`"train"`, "a table"},
		"[rounds]\nfed = 3":                  {`"rounds"`, "a table"},
		"rounds = {fed = 3}":                 {`"rounds"`, "a table"},
		"rounds.fed = 3":                     {`"rounds"`, "a table"},
		"[[loss]]\nname = \"mse\"":           {`"loss"`, "a table"},
		"rounds = 1\nrounds = 2":             {"rounds", "line 2"},
		"rounds =":                           {"line 1"},
		"rounds = 3\nepochs : 4":             {"line 2"},
		"\x00":                               {"toml"},
		"loss = \"mse\"\nalpha = 0.1":        {`"alpha"`, "no effect"},
		"regime = \"solo\"":                  {`"solo"`},
		"regime = \"local\"\nfraction = 1":   {`"fraction"`, "no effect"},
		"ditto-mu = 1":                       {`"ditto-mu"`, "no effect"},
		"prox = \"1\"":                       {`"prox"`, "a number"},
		"personalizer = true":                {`"personalizer"`, "a string"},
		"personalizer = \"apfl\"":            {`"personalizer"`, `the string "apfl"`, "finetune, ditto or interp"},
		"variance-reduction = \"true\"":      {`"variance-reduction"`, "true or false"},
		"multipliers = [\"a\"]":              {`"multipliers"`, `"a"`},
		"multipliers = true":                 {`"multipliers"`, "a list"},
		"hold-out = 2":                       {`key "hold-out" is 2`},
		"lr = 0":                             {`"lr"`, "positive"},
		"std = \"all\"":                      {"std", `"all"`},
	} {
		t.Run(text, func(t *testing.T) {
			write(t, file, text)
			// A flag that wins does not excuse a key of the wrong type.
			o := program("-config", file, "-out", "none", "-rounds", "0")
			checkError(t, o, cli.Usage, want...)
			if !strings.Contains(o.stderr, file) {
				t.Errorf("the error does not name the file: %s", o.stderr)
			}
		})
	}
}

// TestConfigEqualsFlags: the same settings by file, by flags, and by a file
// that flags win over give the same run.
func TestConfigEqualsFlags(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	data := smallData(t)
	write(t, at("all.toml"), `# Every type a setting can have.
loss = ["rspo+", "mse"]
seeds = [1, 2]
rounds = 3
epochs = 1
alpha = 1          # a whole number for a float
lr = "matched"
workers = 1
json = true
data = "`+filepath.ToSlash(data)+`"
out = "`+filepath.ToSlash(at("file"))+`"
`)
	write(t, at("other.toml"), `loss = "spo+"
seeds = "5..6"
rounds = 1
epochs = 2
alpha = 0.5
json = false
data = "nowhere"
lr = 0.5
`)
	flags := []string{"-loss", "rspo+,mse", "-seeds", "1..2", "-rounds", "3", "-epochs", "1", "-alpha", "1", "-lr", "matched", "-data", data, "-json"}
	file := mustTrain(t, "-config", at("all.toml"))
	mustTrain(t, append(flags, "-out", at("flags"))...)
	mustTrain(t, append(flags, "-config", at("other.toml"), "-out", at("both"))...)
	sameRun(t, at("file"), at("flags"))
	sameRun(t, at("file"), at("both"))
	if !strings.HasPrefix(file.stdout, "{") {
		t.Errorf("json = true in the file has no effect: %s", file.stdout)
	}
	// A seed on the command line wins over seeds in the file, and the reverse.
	write(t, at("seeds.toml"), "seeds = [1, 2]")
	write(t, at("seed.toml"), "seed = 3")
	for _, c := range []struct {
		args []string
		want []int64
	}{
		{[]string{"-config", at("seeds.toml")}, []int64{1, 2}},
		{[]string{"-config", at("seeds.toml"), "-seed", "9"}, []int64{9}},
		{[]string{"-config", at("seed.toml"), "-seeds", "4..5"}, []int64{4, 5}},
		{[]string{"-config", at("seed.toml")}, []int64{3}},
	} {
		o, err := parse(c.args)
		if err != nil {
			t.Fatal(err)
		}
		s, err := o.setting()
		if err != nil || !slices.Equal(s.Seeds, c.want) {
			t.Errorf("%v: seeds %v, %v, want %v", c.args, s.Seeds, err, c.want)
		}
	}
}

// TestResolvedConfigRepeatsTheRun runs with flags, then with the config.toml
// that run wrote: every file but the clock's is the same.
func TestResolvedConfigRepeatsTheRun(t *testing.T) {
	data := smallData(t)
	for name, args := range map[string][]string{
		"defaults":     {"-data", data},
		"many":         {"-data", data, "-loss", "rspo+,mse", "-seeds", "-3..-2,9", "-lr", "matched", "-model", "linear", "-batch", "4", "-fraction", "2", "-alpha", "0.02", "-personal-alpha", "0.03", "-tau", "0.2", "-early-stop", "0", "-monitor", "2", "-kappa-lambda", "0.5", "-kappa-lr", "0", "-fed-kappa-lambda", "0.1", "-fed-kappa-lr", "0.2"},
		"fixed rate":   {"-data", data, "-lr", "0.01", "-seed", "7"},
		"no lambda":    {"-data", data, "-loss", "spo+"},
		"local":        {"-data", data, "-regime", "local", "-rounds", "3"},
		"centralized":  {"-data", data, "-regime", "centralized", "-rounds", "2"},
		"zero rounds":  {"-data", data, "-rounds", "0", "-personal-rounds", "0"},
		"generated":    append([]string{"-eta-obj", "0.5", "-eta-constr", "1", "-eta-data", "0.25", "-seed", "-9223372036854775808"}, short...),
		"small number": {"-data", data, "-tau", "1e-320"},
		"ditto":        {"-data", data, "-personalizer", "ditto", "-ditto-mu", "0.5", "-ditto-mode", "interleaved", "-rounds", "3", "-personal-rounds", "3", "-prox", "0.1", "-clip", "2", "-clip-mode", "global"},
		"interp":       {"-data", data, "-personalizer", "interp", "-rho-selector", "mse", "-hold-out", "0.3", "-output-bound", "5", "-seeds", "1,2"},
		"perturbed":    {"-data", data, "-loss", "dpo,pfyl", "-samples", "3", "-epsilon", "0.5", "-noise", "multiplicative", "-variance-reduction", "false", "-rounds", "2"},
		"optnet":       {"-data", data, "-loss", "optnet", "-multipliers", "0.5,2", "-personal-loss", "mse", "-rounds", "2"},
		"calibration":  {"-data", data, "-calibration", "averaged", "-calib-norm", "norm-of-mean", "-lr", "scaled:0.01", "-rounds", "2"},
		"robust":       {"-data", data, "-aggregator", "trimmed", "-byzantine", "1", "-fraction", "1", "-update-clip", "0.3", "-min-updates", "3", "-failed-round", "retry", "-rounds", "2"},
		"private":      {"-data", data, "-dp-noise", "1.5", "-dp-clip", "0.3", "-dp-delta", "0.01", "-rounds", "2"},
		"tuned":        {"-data", data, "-lr", "tuned", "-loss", "rspo+,mse", "-rounds", "2"},
		"pooled":       {"-data", data, "-regime", "centralized", "-centralized", "single-pooled", "-rounds", "2"},
		"sizes":        append([]string{"-clients", "3", "-train-samples", "30", "-validation-samples", "6", "-test-samples", "12", "-cost-scale", "train", "-eta-constr", "1", "-knapsack-weight-het", "off"}, short...),
	} {
		t.Run(name, func(t *testing.T) {
			a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
			mustTrain(t, append(args, "-out", a)...)
			mustTrain(t, "-config", filepath.Join(a, run.ConfigFile), "-out", b)
			sameRun(t, a, b)
		})
	}
}

// TestWorkersDoNotMatter: models, results and metrics are the same bytes for
// any number of workers, and with and without a progress bar.
func TestWorkersDoNotMatter(t *testing.T) {
	for name, args := range map[string][]string{
		"federated":   append([]string{"-loss", "rspo+,mse", "-seeds", "1,2"}, short...),
		"local":       {"-regime", "local", "-rounds", "3"},
		"centralized": {"-regime", "centralized", "-rounds", "2", "-data", smallData(t)},
		"pooled":      {"-regime", "centralized", "-centralized", "single-pooled", "-rounds", "3", "-data", smallData(t)},
		"ditto":       {"-personalizer", "ditto", "-personal-loss", "dpo", "-prox", "0.5", "-rounds", "3", "-data", smallData(t)},
		"interleaved": {"-personalizer", "ditto", "-ditto-mode", "interleaved", "-data", smallData(t)},
		"interp":      {"-personalizer", "interp", "-loss", "spo+,pfyl", "-hold-out", "0.2", "-rounds", "3", "-data", smallData(t)},
		"optnet":      {"-loss", "optnet", "-rounds", "3", "-data", smallData(t)},
		"tuned":       {"-lr", "tuned", "-loss", "rspo+,dpo", "-rounds", "2", "-data", smallData(t)},
	} {
		t.Run(name, func(t *testing.T) {
			one := filepath.Join(t.TempDir(), "run")
			mustTrain(t, append(args, "-out", one, "-workers", "1")...)
			for _, workers := range []string{"2", "3", "64"} {
				other := filepath.Join(t.TempDir(), "run")
				mustTrain(t, append(args, "-out", other, "-workers", workers, "-progress", "on")...)
				sameRun(t, one, other)
			}
		})
	}
}

// TestConfigAbsolute: a relative path of a dataset means the same in every
// working directory once a run has written it.
func TestConfigAbsolute(t *testing.T) {
	data := smallData(t)
	t.Chdir(filepath.Dir(data))
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	mustTrain(t, "-data", filepath.Base(data), "-rounds", "1", "-out", a)
	t.Chdir(t.TempDir())
	mustTrain(t, "-config", filepath.Join(a, run.ConfigFile), "-out", b)
	sameRun(t, a, b)
	mustTrain(t, "-eval", a)
}
