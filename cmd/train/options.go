package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"fedrspo/experiment"
	"fedrspo/train"

	"github.com/BurntSushi/toml"
)

// options is the parsed command line and configuration file.
type options struct {
	fs *flag.FlagSet
	// given are the flags on the command line itself.
	given map[string]bool

	// What to run.
	task, loss, regime, model, device, lr string
	seed                                  int64
	seeds, data                           string
	etaObj, etaConstr, etaData            float64
	rounds, epochs, batch                 int
	personalRounds, personalEpochs        int
	fraction                              float64
	alpha, personalAlpha                  float64
	fedKappaLambda, fedKappaLR            float64
	kappaLambda, kappaLR, tau             float64
	earlyStop, monitor                    int

	// How to run it.
	workers               int
	out, progress, config string
	eval, export          string
	json, version         bool
}

// usageError is a mistake on the command line or in the configuration file.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// group is a heading of the help text and the flags below it.
type group struct {
	title string
	flags []string
}

var groups = []group{
	{"What to train", []string{"task", "loss", "regime", "model", "device", "seed", "seeds"}},
	{"Data", []string{"data", "eta-obj", "eta-constr", "eta-data"}},
	{"Training", []string{"rounds", "epochs", "batch", "fraction", "lr", "personal-rounds", "personal-epochs"}},
	{"Regularisation of rspo+", []string{"alpha", "personal-alpha", "kappa-lambda", "kappa-lr", "fed-kappa-lambda", "fed-kappa-lr", "tau", "early-stop", "monitor"}},
	{"Running", []string{"config", "out", "workers", "progress", "json"}},
	{"Instead of training", []string{"eval", "export", "version"}},
}

// settings are the flags that say what is computed: those written to the
// resolved configuration. The others say how, and never change a result.
var settings = slices.Concat(groups[0].flags, groups[1].flags, groups[2].flags, groups[3].flags)

// newOptions declares the flags with the paper's protocol for a task and a
// regime as defaults.
func newOptions(kind experiment.Kind, regime train.Regime) *options {
	o := &options{fs: flag.NewFlagSet("train", flag.ContinueOnError)}
	o.fs.SetOutput(io.Discard)
	o.fs.Usage = func() {}
	d := kind.Defaults(regime)
	main := d.Fed
	if regime != train.Federated {
		main = d.Personal
	}
	fs := o.fs
	tasks := make([]string, len(experiment.Kinds))
	for i, k := range experiment.Kinds {
		tasks[i] = k.Name + " (" + k.Summary + ")"
	}
	fs.StringVar(&o.task, "task", kind.Name, "`task` to learn: "+strings.Join(tasks, "; "))
	fs.StringVar(&o.loss, "loss", "rspo+", "comma `list` of losses to train with, one after the other: "+strings.Join(experiment.LossNames(), ", "))
	fs.StringVar(&o.regime, "regime", string(regime), "`who` shares what: federated (one model by federated averaging, then personalised), local (each client alone), centralized (for each client, a model on everybody's data)")
	fs.StringVar(&o.model, "model", "mlp", "`network`: mlp (one hidden layer of 64 units) or linear (no bias)")
	fs.StringVar(&o.device, "device", "cpu", "where the network runs; cpu")
	fs.Int64Var(&o.seed, "seed", 42, "seed of data, initial model and training")
	fs.StringVar(&o.seeds, "seeds", "", "several seeds, run one after the other: a comma `list` of numbers and ranges such as 1..5; replaces -seed")
	fs.StringVar(&o.data, "data", "", "`folder` with a dataset of your own; empty generates one from the seed")
	fs.Float64Var(&o.etaObj, "eta-obj", 0, "heterogeneity of the clients' objectives, 0 to 1 in the paper")
	fs.Float64Var(&o.etaConstr, "eta-constr", 0, "heterogeneity of the clients' constraints")
	fs.Float64Var(&o.etaData, "eta-data", 0, "heterogeneity of the clients' features")
	fs.IntVar(&o.rounds, "rounds", main.Rounds, "rounds of federated training; of training, in the other regimes")
	fs.IntVar(&o.epochs, "epochs", main.Epochs, "passes over a client's data in each round")
	fs.IntVar(&o.batch, "batch", d.Batch, "samples of a gradient step")
	fs.Float64Var(&o.fraction, "fraction", main.Fraction, "share of the clients that take part in a round, above 0; above 1, their number")
	fs.StringVar(&o.lr, "lr", "paper", "learning `rate`: paper (calibrated for rspo+, 0.001 for others), matched (the others use the mean calibrated rate), or a number for all")
	fs.IntVar(&o.personalRounds, "personal-rounds", d.Personal.Rounds, "rounds of personalisation after federated training")
	fs.IntVar(&o.personalEpochs, "personal-epochs", d.Personal.Epochs, "passes over a client's data in each round of personalisation")
	fs.Float64Var(&o.alpha, "alpha", main.Alpha, "scale of the calibrated learning rate, eta = alpha lambda / 4")
	fs.Float64Var(&o.personalAlpha, "personal-alpha", d.Personal.Alpha, "the same in personalisation")
	fs.Float64Var(&o.kappaLambda, "kappa-lambda", d.Personal.KappaLambda, "annealing of lambda in personal training, lambda/(1+kappa t)")
	fs.Float64Var(&o.kappaLR, "kappa-lr", d.Personal.KappaRate, "annealing of the learning rate in personal training")
	fs.Float64Var(&o.fedKappaLambda, "fed-kappa-lambda", d.Fed.KappaLambda, "annealing of lambda in federated training")
	fs.Float64Var(&o.fedKappaLR, "fed-kappa-lr", d.Fed.KappaRate, "annealing of the learning rate in federated training")
	fs.Float64Var(&o.tau, "tau", d.Personal.Tau, "freeze annealing once the relative cost of regularisation is at most this")
	fs.IntVar(&o.earlyStop, "early-stop", d.Personal.EarlyStop, "personal rounds a client trains after the one it froze in; -1 for all")
	fs.IntVar(&o.monitor, "monitor", d.Personal.Monitor, "validation samples per client that the freeze rule looks at")
	fs.IntVar(&o.workers, "workers", 0, "goroutines that train clients; 0 means one per CPU; never changes a result")
	fs.StringVar(&o.out, "out", "", "`folder` to write, which must be empty or new; empty makes one below runs/, none writes nothing")
	fs.StringVar(&o.progress, "progress", "auto", "progress `bar`: auto (on a terminal), on, off")
	fs.StringVar(&o.config, "config", "", "TOML `file` of settings whose keys are these flags; flags win over it")
	fs.BoolVar(&o.json, "json", false, "print one JSON object instead of a table")
	fs.BoolVar(&o.version, "version", false, "print the version and exit")
	fs.StringVar(&o.eval, "eval", "", "judge the models saved in the run folder `RUN` again (on -data, if given) and write predictions and decisions as CSV, to -out or RUN/eval")
	fs.StringVar(&o.export, "export", "", "write the task's dataset to this `folder`, in the format -data reads, and exit")
	return o
}

// parse reads the command line and the configuration file it names. Defaults
// depend on task and regime, so it reads them first. With -h the error is
// flag.ErrHelp and the options are those to describe.
func parse(args []string) (*options, error) {
	kind, regime := experiment.Kinds[0], train.Federated
	for {
		o := newOptions(kind, regime)
		help, err := o.parseArgs(args)
		if help {
			wantKind, err := experiment.ByName(o.task)
			wantRegime := train.Regime(o.regime)
			if err != nil || !slices.Contains(train.Regimes, wantRegime) {
				return newOptions(kind, regime), flag.ErrHelp
			}
			return newOptions(wantKind, wantRegime), flag.ErrHelp
		}
		if err != nil {
			return nil, usageError{err}
		}
		if o.fs.NArg() > 0 {
			return nil, usagef("unexpected argument %q; settings are flags, as in -loss spo+", o.fs.Arg(0))
		}
		if o.eval != "" {
			if err := o.fromRun(); err != nil {
				return nil, err
			}
		}
		if o.config != "" {
			if err := o.read(o.config); err != nil {
				return nil, err
			}
		}
		wantKind, err := experiment.ByName(o.task)
		if err != nil {
			return nil, usageError{err}
		}
		wantRegime := train.Regime(o.regime)
		if !slices.Contains(train.Regimes, wantRegime) {
			return nil, usagef("unknown regime %q, want federated, local or centralized", o.regime)
		}
		if wantKind.Name == kind.Name && wantRegime == regime {
			return o, nil
		}
		kind, regime = wantKind, wantRegime
	}
}

// parseArgs parses the command line, reading on after -h.
func (o *options) parseArgs(args []string) (help bool, err error) {
	err = o.fs.Parse(args)
	for errors.Is(err, flag.ErrHelp) {
		help = true
		err = o.fs.Parse(o.fs.Args())
	}
	o.given = map[string]bool{}
	o.fs.Visit(func(f *flag.Flag) { o.given[f.Name] = true })
	return help, err
}

// isSet says whether a flag was given on the command line or in the file.
func (o *options) isSet(name string) bool {
	found := false
	o.fs.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// read sets, from a TOML file, the flags that the command line does not give.
func (o *options) read(path string) error {
	var keys map[string]any
	meta, err := toml.DecodeFile(path, &keys)
	if err != nil {
		return usagef("config: %s: %s", path, oneLine(err))
	}
	for _, key := range meta.Keys() {
		name := key[0]
		switch keys[name].(type) {
		case map[string]any, []map[string]any:
			return usagef("config: %s: %q is a table; settings are plain keys, named as the flags", path, name)
		}
		if !slices.Contains(fileKeys, name) {
			return usagef("config: %s: unknown key %q%s", path, name, suggest(name))
		}
		text, err := tomlText(keys[name], o.fs.Lookup(name))
		// -seed and -seeds say the same thing: either on the command line wins
		// over both in the file.
		wins := o.given[name] || (name == "seed" && o.given["seeds"]) || (name == "seeds" && o.given["seed"])
		if err == nil && !wins {
			err = o.fs.Set(name, text)
		}
		if err != nil {
			return usagef("config: %s: key %q: %s", path, name, oneLine(err))
		}
	}
	return nil
}

// fileKeys are the flags a configuration file may set.
var fileKeys = slices.Concat(settings, []string{"workers", "out", "progress", "json"})

// listFlags are the flags whose value in the file may be a list.
var listFlags = []string{"loss", "seeds"}

// tomlText turns a TOML value into the text of flag f; a list becomes a comma
// list. It refuses a value of another type than the flag's.
func tomlText(v any, f *flag.Flag) (string, error) {
	list := slices.Contains(listFlags, f.Name)
	number, want := false, ""
	switch f.Value.(flag.Getter).Get().(type) {
	case bool:
		want = "true or false"
		if v, ok := v.(bool); ok {
			return strconv.FormatBool(v), nil
		}
	case int, int64:
		want = "a whole number"
		if v, ok := v.(int64); ok {
			return strconv.FormatInt(v, 10), nil
		}
	case float64:
		want, number = "a number", true
	default:
		want = "a string"
		number = f.Name == "lr" || f.Name == "seeds"
		if number {
			want += " or a number"
		}
		if list {
			want += ", or a list"
		}
		if v, ok := v.(string); ok {
			return v, nil
		}
	}
	switch v := v.(type) {
	case int64:
		if number {
			return strconv.FormatInt(v, 10), nil
		}
	case float64:
		if number {
			return strconv.FormatFloat(v, 'g', -1, 64), nil
		}
	case []any:
		if !list {
			break
		}
		parts := make([]string, len(v))
		for i, e := range v {
			if _, nested := e.([]any); nested {
				return "", errors.New("a list in a list")
			}
			var err error
			if parts[i], err = tomlText(e, f); err != nil {
				return "", err
			}
		}
		return strings.Join(parts, ","), nil
	}
	return "", fmt.Errorf("got %s, want %s", tomlType(v), want)
}

// tomlType names the type of a TOML value.
func tomlType(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("the string %q", v)
	case bool, int64, float64:
		return fmt.Sprint(v)
	case []any:
		return "a list"
	}
	return "a date or time"
}

// suggest proposes the key nearest to a misspelt one, if it is near.
func suggest(name string) string {
	best, least := "", 2+len(name)/3
	for _, key := range fileKeys {
		if d := editDistance(name, key); d < least {
			best, least = key, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (do you mean %q?)", best)
}

// editDistance is the least number of bytes to insert, delete or replace to
// turn a into b (Levenshtein 1966).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// applies says why a flag has no effect in these settings, or "". regularized
// says that one of the losses has a lambda.
func (o *options) applies(name string, regularized bool) string {
	federated := train.Regime(o.regime) == train.Federated
	switch name {
	case "eta-obj", "eta-constr", "eta-data":
		if o.data != "" {
			return "it shapes generated data, and -data names a dataset"
		}
	case "fraction", "personal-rounds", "personal-epochs", "personal-alpha", "fed-kappa-lambda", "fed-kappa-lr":
		if !federated {
			return "it belongs to -regime federated"
		}
	}
	switch name {
	case "seed", "seeds":
		if o.export != "" && o.data != "" {
			return "-data names the dataset"
		}
	case "alpha", "personal-alpha":
		switch {
		case o.lr != "paper" && o.lr != "matched":
			return "-lr gives the learning rate"
		case !regularized && o.lr != "matched":
			return "it belongs to -loss rspo+ or -lr matched"
		}
	case "kappa-lambda", "kappa-lr", "fed-kappa-lambda", "fed-kappa-lr", "tau", "early-stop", "monitor":
		if !regularized {
			return "it belongs to -loss rspo+"
		}
	}
	return ""
}

// setting resolves the options into what to run. It refuses a flag that would
// have no effect.
func (o *options) setting() (experiment.Setting, error) {
	var s experiment.Setting
	kind, err := experiment.ByName(o.task)
	if err != nil {
		return s, usageError{err}
	}
	losses, err := experiment.Losses(o.loss)
	if err != nil {
		return s, usageError{err}
	}
	if o.isSet("seed") && o.isSet("seeds") {
		return s, usagef("-seed and -seeds exclude each other; give one of them")
	}
	seeds := []int64{o.seed}
	if o.isSet("seeds") {
		if seeds, err = parseSeeds(o.seeds); err != nil {
			return s, err
		}
	}
	var unused error
	o.fs.Visit(func(f *flag.Flag) {
		why := o.applies(f.Name, experiment.Regularized(losses))
		switch {
		case why == "" || unused != nil:
		case o.given[f.Name]:
			unused = usagef("-%s has no effect here: %s", f.Name, why)
		case o.eval == "": // -eval may ask for a part of what the file says
			unused = usagef("config: %s: key %q has no effect here: %s", o.config, f.Name, why)
		}
	})
	if unused != nil {
		return s, unused
	}
	if o.export != "" {
		if err := o.checkExport(seeds); err != nil {
			return s, err
		}
	}
	if err := o.checkRanges(); err != nil {
		return s, err
	}
	if o.device != "cpu" {
		return s, usagef("unknown device %q, want cpu", o.device)
	}
	if !slices.Contains([]string{"auto", "on", "off"}, o.progress) {
		return s, usagef("progress %q, want auto, on or off", o.progress)
	}
	if o.model != "mlp" && o.model != "linear" {
		return s, usagef("unknown model %q, want mlp or linear", o.model)
	}
	cfg := kind.Defaults(train.Regime(o.regime))
	cfg.Batch, cfg.Workers = o.batch, o.workers
	switch o.lr {
	case "paper":
		cfg.Rates = train.RatePaper
	case "matched":
		cfg.Rates = train.RateMatched
	default:
		rate, err := strconv.ParseFloat(o.lr, 64)
		if err != nil || !(rate > 0) || math.IsInf(rate, 1) {
			return s, usagef("-lr %q, want paper, matched or a positive number", o.lr)
		}
		cfg.Rates, cfg.FixedRate = train.RateFixed, rate
	}
	personal, main := &cfg.Personal, &cfg.Personal
	if cfg.Regime == train.Federated {
		main = &cfg.Fed
		personal.Rounds, personal.Epochs, personal.Alpha = o.personalRounds, o.personalEpochs, o.personalAlpha
		main.Fraction, main.KappaLambda, main.KappaRate = o.fraction, o.fedKappaLambda, o.fedKappaLR
	}
	main.Rounds, main.Epochs, main.Alpha = o.rounds, o.epochs, o.alpha
	personal.KappaLambda, personal.KappaRate, personal.EarlyStop = o.kappaLambda, o.kappaLR, o.earlyStop
	cfg.Fed.Tau, personal.Tau = o.tau, o.tau
	cfg.Fed.Monitor, personal.Monitor = o.monitor, o.monitor
	s = experiment.Setting{
		Kind: kind, Model: o.model, Losses: losses, Seeds: seeds, Config: cfg,
		Data: experiment.Data{Dir: o.data, EtaObj: o.etaObj, EtaConstr: o.etaConstr, EtaData: o.etaData},
	}
	if err := s.Validate(); err != nil {
		return s, usageError{err}
	}
	return s, nil
}

// ranges holds the flags that are numbers and the values they may have; above
// says that the lower end is not one of them. The upper ends are far beyond
// use, and keep sums and allocations within bounds.
var ranges = []struct {
	flags  []string
	lo, hi float64
	above  bool
}{
	{[]string{"rounds", "personal-rounds"}, 0, 1e6, false},
	{[]string{"epochs", "personal-epochs", "batch", "monitor"}, 1, 1e6, false},
	{[]string{"early-stop"}, -1, 1e6, false},
	{[]string{"workers"}, 0, 1024, false},
	{[]string{"fraction"}, 0, 1e6, true},
	{[]string{"alpha", "personal-alpha"}, 0, 1e12, true},
	{[]string{"kappa-lambda", "kappa-lr", "fed-kappa-lambda", "fed-kappa-lr", "tau"}, 0, 1e12, false},
}

// checkRanges reports the first number out of its range.
func (o *options) checkRanges() error {
	for _, r := range ranges {
		for _, name := range r.flags {
			value := o.fs.Lookup(name).Value.(flag.Getter).Get()
			x, isFloat := value.(float64)
			if n, ok := value.(int); ok {
				x = float64(n)
			}
			// Written so that NaN fails.
			if x >= r.lo && x <= r.hi && !(r.above && x == r.lo) {
				continue
			}
			kind, from := "whole number", "from"
			if isFloat {
				kind = "number"
			}
			if r.above {
				from = "above"
			}
			return usagef("-%s is %v, want a %s %s %.0f to %.7g", name, value, kind, from, r.lo, r.hi)
		}
	}
	return nil
}

// checkExport refuses flags of the command line that do not shape a dataset. A
// configuration file may hold them, so that a run's data can be exported.
func (o *options) checkExport(seeds []int64) error {
	for _, g := range groups {
		for _, name := range g.flags {
			if o.given[name] && !slices.Contains([]string{"export", "config", "task", "seed", "seeds", "data", "eta-obj", "eta-constr", "eta-data"}, name) {
				return usagef("-%s has no effect with -export", name)
			}
		}
	}
	if len(seeds) > 1 {
		return usagef("-export writes the dataset of one seed, got %d seeds; give -seed", len(seeds))
	}
	return nil
}

// maxSeeds bounds the list of seeds.
const maxSeeds = 100_000

// parseSeeds reads a comma list of seeds and ranges a..b.
func parseSeeds(list string) ([]int64, error) {
	var seeds []int64
	seen := map[int64]bool{}
	for _, part := range strings.Split(list, ",") {
		part = strings.TrimSpace(part)
		from, to, isRange := strings.Cut(part, "..")
		if !isRange {
			to = from
		}
		a, errA := strconv.ParseInt(from, 10, 64)
		b, errB := strconv.ParseInt(to, 10, 64)
		if errA != nil || errB != nil || b < a {
			return nil, usagef("-seeds %q: got %q, want a whole number or a range such as 1..5", list, part)
		}
		// The difference of two int64 fits a uint64.
		if uint64(b)-uint64(a) >= uint64(maxSeeds-len(seeds)) {
			return nil, usagef("-seeds %q: more than %d seeds", list, maxSeeds)
		}
		for s := a; ; s++ {
			if seen[s] {
				return nil, usagef("-seeds %q: seed %d is named twice", list, s)
			}
			seen[s] = true
			if seeds = append(seeds, s); s == b {
				break
			}
		}
	}
	return seeds, nil
}

// resolved is the configuration that repeats the run: every setting that
// applies, with its value.
func (o *options) resolved(s experiment.Setting) map[string]any {
	out := map[string]any{}
	for _, name := range settings {
		if o.applies(name, experiment.Regularized(s.Losses)) != "" {
			continue
		}
		out[name] = o.fs.Lookup(name).Value.(flag.Getter).Get()
	}
	if o.isSet("seeds") {
		delete(out, "seed")
		out["seeds"] = s.Seeds
	} else {
		delete(out, "seeds")
	}
	if o.data == "" {
		delete(out, "data")
	}
	return out
}

// writeConfig writes the resolved configuration as TOML.
func (o *options) writeConfig(w io.Writer, s experiment.Setting) error {
	enc := toml.NewEncoder(w)
	return enc.Encode(o.resolved(s))
}

// oneLine flattens a message of several lines.
func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}

// defaultWorkers is what -workers 0 stands for.
func defaultWorkers(n int) int {
	if n > 0 {
		return n
	}
	return runtime.GOMAXPROCS(0)
}

// help prints the flags by group with their defaults.
func (o *options) help(w io.Writer) {
	fmt.Fprintf(w, `Train a predictor for the quality of the decisions made from it, and report
the regret of those decisions.

    train                                  rspo+ on the generated knapsack task
    train -loss rspo+,spo+,mse             compare losses on the same data
    train -seeds 1..5 -lr matched          five seeds, equal learning rates
    train -regime local                    every client alone
    train -data FOLDER                     your own data
    train -eval runs/NAME                  judge saved models again

Defaults are the paper's protocol for -task %s -regime %s.
`, o.task, o.regime)
	for _, g := range groups {
		fmt.Fprintf(w, "\n%s:\n", g.title)
		for _, name := range g.flags {
			f := o.fs.Lookup(name)
			value, usage := flag.UnquoteUsage(f)
			if value != "" {
				value = " " + value
			}
			if f.DefValue != "" && f.DefValue != "false" {
				usage += " (default " + f.DefValue + ")"
			}
			fmt.Fprintf(w, "  -%s%s\n%s", f.Name, value, wrap(usage, "        ", 80))
		}
	}
	fmt.Fprint(w, `
A run folder holds config.toml (the resolved settings: train -config repeats
the run), result.json, metrics.jsonl (a line a round), models/LOSS/seed-N/ (in
safetensors format), version.json and timing.json.

Ctrl-C keeps what is finished. Exit codes: 0 done, 1 failed, 2 a mistake in the
flags or the configuration file, 130 interrupted.
`)
}

// wrap breaks text into lines of at most width characters.
func wrap(text, indent string, width int) string {
	var b strings.Builder
	col := 0
	for _, word := range strings.Fields(text) {
		switch {
		case col == 0:
			b.WriteString(indent)
			col = len(indent)
		case col+1+len(word) > width:
			b.WriteString("\n" + indent)
			col = len(indent)
		default:
			b.WriteByte(' ')
			col++
		}
		b.WriteString(word)
		col += len(word)
	}
	b.WriteByte('\n')
	return b.String()
}

// fromRun reads the configuration of the run -eval names.
func (o *options) fromRun() error {
	path := o.eval + string(os.PathSeparator) + "config.toml"
	var bad error
	o.fs.Visit(func(f *flag.Flag) {
		if !slices.Contains([]string{"eval", "data", "out", "workers", "progress", "json", "loss", "seed", "seeds"}, f.Name) && bad == nil {
			bad = usagef("-%s has no effect with -eval: the run's own settings are used", f.Name)
		}
	})
	if bad != nil {
		return bad
	}
	return o.read(path)
}
