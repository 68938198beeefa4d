package experiment

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"fedrspo/nn"
	"fedrspo/surrogate"
	"fedrspo/task/warcraft"
	"fedrspo/train"
)

// FlagGroup is a heading of a help text and the flags below it.
type FlagGroup struct {
	Title string
	Names []string
}

// DataFlags are the settings flags that shape the data, beside task and seeds.
var DataFlags = []string{"data", "eta-obj", "eta-constr", "eta-data", "knapsack-weight-het", "cost-scale",
	"clients", "train-samples", "validation-samples", "test-samples", "hold-out", "grid", "terrain-scale", "path-set", "negcost",
	"days", "data-seed", "demand", "train-days", "late-client"}

// FlagGroups lists the settings flags as help texts show them.
var FlagGroups = []FlagGroup{
	{"What to train", []string{"task", "loss", "regime", "centralized", "model", "output-bound", "device", "tf32", "seed", "seeds"}},
	{"Data", DataFlags},
	{"Training", []string{"rounds", "epochs", "batch", "fraction", "prox", "lr", "lr-anneal", "clip", "clip-mode", "bn-stats"}},
	{"The server of federated training", federationFlags},
	{"Personalisation after federated training", []string{"personal-rounds", "personal-epochs", "personal-loss", "personalizer", "ditto-mu", "ditto-mode", "rho-selector"}},
	{"Regularisation of rspo+", []string{"alpha", "personal-alpha", "calibration", "calib-norm", "kappa-lambda", "kappa-lr", "fed-kappa-lambda", "fed-kappa-lr", "tau", "early-stop", "monitor"}},
	{"Perturbation of pfyl and dpo, regularisation of optnet", []string{"samples", "epsilon", "noise", "variance-reduction", "multipliers"}},
}

// Flags are the settings of a run as flags of a command: what is computed, and
// not how. Most flags set a field of a Setting directly.
type Flags struct {
	fs *flag.FlagSet
	s  Setting

	task         string
	seed         int64
	seeds        []int64
	personalizer string
	ditto        train.Ditto
	interp       train.Interp
	perturbation surrogate.Perturbation
	noBaseline   bool
	coordinator  coordinator
	// unused is what the flags of personalisation set in other regimes, where
	// they have no effect.
	unused train.Stage
}

// DefaultSetting is the paper's protocol for a task and a regime, or that of
// its small data, with RSPO+ and one seed.
func DefaultSetting(kind Kind, regime train.Regime) Setting {
	return defaultSetting(kind, regime, Data{})
}

// defaultSetting is DefaultSetting for data of the same source as from.
func defaultSetting(kind Kind, regime train.Regime, from Data) Setting {
	d := kind.Data
	d.Clients, d.Train, d.Val, d.Test = 0, 0, 0, 0
	if kind.Small != nil {
		d.Dir, d.Maps = from.Dir, from.Maps
	}
	d = kind.resolve(d)
	return Setting{Kind: kind, Data: d, Model: kind.Models[0], Losses: []surrogate.Loss{surrogate.RSPOPlus{}}, Seeds: []int64{42}, Config: kind.protocol(d, regime)}
}

// NewFlags declares the settings flags on fs with DefaultSetting as defaults.
func NewFlags(fs *flag.FlagSet, kind Kind, regime train.Regime) *Flags {
	return newFlags(fs, DefaultSetting(kind, regime))
}

// newFlags declares flags whose defaults are the values of s.
func newFlags(fs *flag.FlagSet, s Setting) *Flags {
	s.Data = s.Kind.resolve(s.Data)
	f := &Flags{fs: fs, s: s, task: s.Kind.Name, personalizer: train.FineTune{}.Name(), ditto: train.Ditto{Mu: 1}, coordinator: newCoordinator(s.Config.Coordinator)}
	if len(s.Seeds) > 0 {
		f.seed = s.Seeds[0]
	}
	if len(s.Seeds) > 1 {
		f.seeds = s.Seeds
	}
	switch p := s.Config.Personalizer.(type) {
	case train.Ditto:
		f.personalizer, f.ditto = p.Name(), p
	case train.Interp:
		f.personalizer, f.interp = p.Name(), p
	}
	for _, l := range append(slices.Clone(s.Losses), s.Config.PersonalLoss) {
		switch l := l.(type) {
		case surrogate.PFYL:
			f.perturbation = l.Perturbation
		case surrogate.DPO:
			f.perturbation, f.noBaseline = l.Perturbation, l.NoBaseline
		}
	}
	// The zero values of these stand for others.
	f.perturbation.Samples = cmp.Or(f.perturbation.Samples, 10)
	f.perturbation.Epsilon = cmp.Or(f.perturbation.Epsilon, 1)
	f.declare()
	return f
}

func (f *Flags) declare() {
	fs, cfg, data := f.fs, &f.s.Config, &f.s.Data
	main, personal := &cfg.Personal, &f.unused
	if cfg.Regime == train.Federated {
		main, personal = &cfg.Fed, &cfg.Personal
	} else {
		f.unused = cfg.Personal
	}
	kinds, summaries := make([]string, len(Kinds)), make([]string, len(Kinds))
	for i, k := range Kinds {
		kinds[i], summaries[i] = k.Name, k.Name+" ("+k.Summary+")"
	}
	words(fs, &f.task, "task", "`task` to learn: "+strings.Join(summaries, "; "), kinds...)
	fs.Var(lossList{&f.s.Losses}, "loss", "comma `list` of losses to train with, one after the other: "+strings.Join(LossNames(), ", "))
	words(fs, &cfg.Regime, "regime", "`who` shares what: federated (one model by federated averaging, then personalised), local (each client alone), centralized (on everybody's data)", train.Regimes...)
	either(fs, &cfg.SinglePooled, "centralized", "`what` the centralized regime trains: per-target-pooled (for each client, a model on everybody's data over that client's feasible set) or single-pooled (one model, each sample over its owner's feasible set)", "per-target-pooled", "single-pooled")
	words(fs, &f.s.Model, "model", "`network`: mlp (one hidden layer of 64 units), linear (no bias), or for maps resnet (ResNet-18 cut off after two blocks) or resnet-conv1x1 (the same with a convolution in place of the mean over channels)", modelNames...)
	fs.Float64Var(&f.s.OutputBound, "output-bound", f.s.OutputBound, "scale a prediction down to at most this `norm`; 0 for no bound")
	fs.Var(deviceName{&f.s.Device}, "device", "`where` the network runs: cpu, cuda (the first CUDA device), cuda:N, or auto (cuda where it can be used, else cpu); -devices lists them. Losses and oracles always run on the CPU")
	fs.BoolVar(&f.s.TF32, "tf32", f.s.TF32, "let a CUDA device round float32 numbers to 10 bits of fraction in matrix products, which is faster")
	fs.Int64Var(&f.seed, "seed", f.seed, "seed of data, initial model and training")
	fs.Var(seedList{&f.seeds}, "seeds", "several seeds, run one after the other: a comma `list` of numbers and ranges such as 1..5; replaces -seed")

	fs.Var(dataSource{data}, "data", "`folder` with a dataset of your own, or with the published maps of warcraft, or for pjm a CSV file; kept in config.toml as an absolute path; generated:N for N generated maps (the paper has 10000); empty generates from the seed, for warcraft a small dataset with a short protocol")
	fs.Float64Var(&data.EtaObj, "eta-obj", data.EtaObj, "heterogeneity of the clients' objectives, 0 to 1 in the paper")
	fs.Float64Var(&data.EtaConstr, "eta-constr", data.EtaConstr, "heterogeneity of the clients' constraints")
	fs.Float64Var(&data.EtaData, "eta-data", data.EtaData, "heterogeneity of the clients' features")
	either(fs, &data.SharedWeights, "knapsack-weight-het", "`on|off`: whether -eta-constr moves item weights beside capacities", "on", "off")
	either(fs, &data.CostsByTrain, "cost-scale", "`unit` of generated costs: per-split (each split's own mean) or train (the training split's)", "per-split", "train")
	fs.IntVar(&data.Clients, "clients", data.Clients, "number of clients; 0 here and below for the number that belongs to the data")
	fs.IntVar(&data.Train, "train-samples", data.Train, "training samples over all clients")
	fs.IntVar(&data.Val, "validation-samples", data.Val, "validation samples over all clients")
	fs.IntVar(&data.Test, "test-samples", data.Test, "test samples over all clients; for warcraft, the last maps, which every client is tested on")
	fs.Float64Var(&data.HoldOut, "hold-out", data.HoldOut, "`share` of each client's training samples, drawn with the seed, that replaces its validation samples; 0 for none")

	fs.IntVar(&data.Grid, "grid", data.Grid, "side of a map in cells: 12, 18, 24 or 30")
	fs.Float64Var(&data.TerrainScale, "terrain-scale", data.TerrainScale, "heterogeneity of the clients' terrain costs, exp(scale z) times the map's")
	words(fs, &data.PathSet, "path-set", "relaxed `paths`: with_cycles (the paper's) or dag (paths that never turn back)", warcraft.WithCycles, warcraft.DAG)
	words(fs, &data.NegativeCosts, "negcost", "`decision` at negative costs, in training with spo+, pfyl and dpo: as_is (Dijkstra's algorithm regardless, as the paper does) or exact (cycles that pay included)", warcraft.AsIs, warcraft.Exact)

	fs.IntVar(&data.Days, "days", data.Days, "generated days of prices, from 2025-01-01 on; 10 to 20000")
	fs.Int64Var(&data.DataSeed, "data-seed", data.DataSeed, "seed of the generated prices: -seed and -seeds change initial model and training alone, as in the paper")
	fs.IntVar(&data.Demand, "demand", data.Demand, "`hours` of power that every client needs a day, up to 24; 0 for each client's own number")
	fs.IntVar(&data.TrainDays, "train-days", data.TrainDays, "train on the last of the training `days` only: every client, or -late-client alone; 0 for all of them")
	fs.IntVar(&data.LateClient, "late-client", data.LateClient, "`number` of a client that federated training leaves out, and that personalises its model afterwards; 0 for none")

	fs.IntVar(&main.Rounds, "rounds", main.Rounds, "rounds of federated training; of training, in the other regimes")
	fs.IntVar(&main.Epochs, "epochs", main.Epochs, "passes over a client's data in each round")
	fs.IntVar(&cfg.Batch, "batch", cfg.Batch, "samples of a gradient step")
	fs.Float64Var(&main.Fraction, "fraction", main.Fraction, "share of the clients that take part in a round, above 0; above 1, their number")
	fs.Float64Var(&cfg.Prox, "prox", cfg.Prox, "FedProx: `mu` of the pull of local training to the round's global model; 0 is FedAvg")
	fs.Var(rateRule{&f.s}, "lr", "learning `rate`: paper (calibrated for rspo+, 0.001 for others), matched (the others use the mean calibrated rate), tuned (for each loss the best on validation data of "+strings.ReplaceAll(numberList{&TuningRates}.String(), ",", ", ")+"), a number for all, or scaled:number (for rspo+ times lambda_j over its mean, as tuned rates are)")
	either(fs, &cfg.AnnealRates, "lr-anneal", "`on|off`: whether -kappa-lr anneals the learning rate of the other losses too, in personal training", "off", "on")
	fs.Float64Var(&cfg.Adam.Clip, "clip", cfg.Adam.Clip, "bound of a gradient's `norm`; 0 for none")
	either(fs, &cfg.Adam.ClipGlobal, "clip-mode", "`what` -clip bounds: the gradient of each parameter array (per-array), or the whole one (global)", "per-array", "global")
	either(fs, &cfg.SharedStatistics, "bn-stats", "`whose` running statistics of batch normalisation: each client's own, averaged like parameters in federated training (client), or one set that all clients move in turn (shared)", "client", "shared")

	f.coordinator.declare(fs)

	fs.IntVar(&personal.Rounds, "personal-rounds", personal.Rounds, "rounds of personalisation")
	fs.IntVar(&personal.Epochs, "personal-epochs", personal.Epochs, "passes over a client's data in each round of personalisation")
	fs.Var(oneLoss{&cfg.PersonalLoss}, "personal-loss", "`loss` of personalisation; empty means that of -loss")
	words(fs, &f.personalizer, "personalizer", "`method`: finetune (go on from the global model), ditto (pulled towards it), interp (a local model from scratch, its predictions interpolated with the global model's)", train.FineTune{}.Name(), train.Ditto{}.Name(), train.Interp{}.Name())
	fs.Float64Var(&f.ditto.Mu, "ditto-mu", f.ditto.Mu, "`mu` of ditto's pull")
	either(fs, &f.ditto.Interleaved, "ditto-mode", "`when` ditto trains: after federated training (sequential), or beside it from the initial model (interleaved)", "sequential", "interleaved")
	either(fs, &f.interp.ByPrediction, "rho-selector", "validation `loss` that chooses interp's weight of the global model: spo+ or mse", "spo+", "mse")

	fs.Float64Var(&main.Alpha, "alpha", main.Alpha, "scale of the calibrated learning rate, eta = alpha lambda / 4")
	fs.Float64Var(&personal.Alpha, "personal-alpha", personal.Alpha, "the same in personalisation")
	either(fs, &cfg.Calibration.Averaged, "calibration", "`whose` lambda and eta: per-client, or the clients' mean for all (averaged)", "per-client", "averaged")
	either(fs, &cfg.Calibration.NormOfMean, "calib-norm", "cost `scale` that lambda is calibrated to: mean-of-norms or norm-of-mean", "mean-of-norms", "norm-of-mean")
	fs.Float64Var(&cfg.Personal.KappaLambda, "kappa-lambda", cfg.Personal.KappaLambda, "annealing of lambda in personal training, lambda/(1+kappa t)")
	fs.Float64Var(&cfg.Personal.KappaRate, "kappa-lr", cfg.Personal.KappaRate, "annealing of the learning rate in personal training")
	fs.Float64Var(&cfg.Fed.KappaLambda, "fed-kappa-lambda", cfg.Fed.KappaLambda, "annealing of lambda in federated training")
	fs.Float64Var(&cfg.Fed.KappaRate, "fed-kappa-lr", cfg.Fed.KappaRate, "annealing of the learning rate in federated training")
	fs.Float64Var(&cfg.Personal.Tau, "tau", cfg.Personal.Tau, "freeze annealing once the relative cost of regularisation is at most this")
	fs.IntVar(&cfg.Personal.EarlyStop, "early-stop", cfg.Personal.EarlyStop, "personal rounds a client trains after the one it froze in; -1 for all")
	fs.IntVar(&cfg.Personal.Monitor, "monitor", cfg.Personal.Monitor, "validation samples per client that the freeze rule looks at")

	fs.IntVar(&f.perturbation.Samples, "samples", f.perturbation.Samples, "perturbed decisions per sample and visit")
	fs.Float64Var(&f.perturbation.Epsilon, "epsilon", f.perturbation.Epsilon, "scale of the perturbation")
	either(fs, &f.perturbation.Multiplicative, "noise", "`kind` of perturbation: additive, or multiplicative (keeps the signs of costs)", "additive", "multiplicative")
	fs.Var(negation{&f.noBaseline}, "variance-reduction", "`true|false`: whether dpo's gradient subtracts the mean of its samples")
	fs.Var(numberList{&cfg.Multipliers}, "multipliers", "comma `list` of optnet's candidates for its regularisation over lambda; the best on validation data is taken")
}

// Protocol says in words where the defaults come from.
func (f *Flags) Protocol() string {
	if f.s.Kind.isSmall(f.s.Data) {
		return "a small dataset and a short protocol (with -data, the paper's)"
	}
	return "the paper's protocol"
}

// ParseFlags makes flags whose defaults are those of the task and the regime
// that they name: it declares them on a new flag set and has parse set them,
// again until this agrees. parse may declare flags of its own. The flags come
// with parse's error; flag.ErrHelp among them lets the defaults settle.
func ParseFlags(parse func(*flag.FlagSet) error) (*Flags, error) {
	kind, regime, from := Kinds[0], train.Federated, Data{}
	for {
		fs := flag.NewFlagSet("train", flag.ContinueOnError)
		fs.SetOutput(io.Discard)
		fs.Usage = func() {}
		f := newFlags(fs, defaultSetting(kind, regime, from))
		err := parse(fs)
		if err != nil && !errors.Is(err, flag.ErrHelp) {
			return f, err
		}
		at := Data{Dir: f.s.Data.Dir, Maps: f.s.Data.Maps}
		same := kind.Small == nil || kind.isSmall(at) && kind.isSmall(from) || at == from
		if f.task == kind.Name && f.s.Config.Regime == regime && same {
			return f, err
		}
		regime, from = f.s.Config.Regime, at
		if f.task != kind.Name {
			from = Data{}
		}
		if kind, err = ByName(f.task); err != nil {
			return f, err
		}
	}
}

// ParseSettings turns settings flags of the train command, such as "-loss",
// "spo+", "-lr", "matched", into the setting they describe. It refuses a flag
// that has no effect.
func ParseSettings(args []string) (Setting, error) {
	f, err := ParseFlags(func(fs *flag.FlagSet) error {
		if err := fs.Parse(args); err != nil {
			return err
		}
		if fs.NArg() > 0 {
			return fmt.Errorf("unexpected argument %q; settings are flags, as in -loss spo+", fs.Arg(0))
		}
		return nil
	})
	if err != nil {
		return Setting{}, err
	}
	for _, u := range f.Unused() {
		return Setting{}, fmt.Errorf("-%s has no effect here: %s", u.Flag, u.Why)
	}
	return f.Setting()
}

// Unused is a flag that was set and has no effect.
type Unused struct{ Flag, Why string }

// Unused lists the settings flags that were set and have no effect beside the
// others, by name.
func (f *Flags) Unused() []Unused {
	var out []Unused
	f.fs.Visit(func(fl *flag.Flag) {
		if why := f.why(fl.Name); why != "" {
			out = append(out, Unused{fl.Name, why})
		}
	})
	return out
}

// trains says whether the federated, or only, stage trains with such a loss.
func (f *Flags) trains(such func(surrogate.Loss) bool) bool {
	return slices.ContainsFunc(f.s.Losses, such)
}

// personalizes says the same of personalisation, or of the only stage.
func (f *Flags) personalizes(such func(surrogate.Loss) bool) bool {
	if l := f.s.Config.PersonalLoss; l != nil {
		return such(l)
	}
	return f.trains(such)
}

func isPerturbed(l surrogate.Loss) bool {
	_, ok := l.(surrogate.PFYL)
	return ok || isDPO(l)
}

func isDPO(l surrogate.Loss) bool    { _, ok := l.(surrogate.DPO); return ok }
func isOptNet(l surrogate.Loss) bool { _, ok := l.(surrogate.OptNet); return ok }

// FlagRegime returns the one regime in which a settings flag has a meaning, or
// "" if it has one in several.
func FlagRegime(name string) train.Regime {
	if slices.Contains(federationFlags, name) {
		return train.Federated
	}
	switch name {
	case "fraction", "prox", "personal-rounds", "personal-epochs", "personal-loss", "personalizer",
		"personal-alpha", "fed-kappa-lambda", "fed-kappa-lr", "ditto-mu", "ditto-mode", "rho-selector", "late-client":
		return train.Federated
	case "centralized":
		return train.Centralized
	}
	return ""
}

// FlagTask returns the one task in which a settings flag has a meaning, or "" if
// it has one in several.
func FlagTask(name string) string {
	if !slices.Contains(DataFlags, name) {
		return ""
	}
	var tasks []string
	for _, k := range Kinds {
		if slices.Contains(k.DataFlags, name) {
			tasks = append(tasks, k.Name)
		}
	}
	if len(tasks) == 1 {
		return tasks[0]
	}
	return ""
}

// why says why a flag has no effect beside the others, or "".
func (f *Flags) why(name string) string {
	cfg := &f.s.Config
	anywhere := func(such func(surrogate.Loss) bool) bool { return f.trains(such) || f.personalizes(such) }
	regularized := surrogate.Loss.Regularized
	calibrated := cfg.Rates == train.RatePaper || cfg.Rates == train.RateMatched
	unless := func(ok bool, why string) string {
		if ok {
			return ""
		}
		return why
	}
	if r := FlagRegime(name); r != "" && r != cfg.Regime {
		return "it belongs to -regime " + string(r)
	}
	if why := f.coordinator.why(name); why != "" {
		return why
	}
	if slices.Contains(DataFlags, name) {
		switch kind := f.s.Kind; {
		case !slices.Contains(kind.DataFlags, name):
			return "it belongs to -task " + FlagTask(name)
		case f.s.Data.Dir != "" && !slices.Contains(kind.DirFlags, name):
			return "it shapes generated data, and -data names a dataset"
		case name == "validation-samples" && f.s.Data.HoldOut > 0:
			return "-hold-out replaces them"
		case name == "negcost" && f.s.Data.PathSet == warcraft.DAG:
			return "without cycles every decision is exact"
		}
		return ""
	}
	switch name {
	case "lr-anneal":
		return unless(f.personalizes(func(l surrogate.Loss) bool { return !l.Regularized() }), "rspo+ anneals its learning rate anyway")
	case "bn-stats":
		return unless(hasStatistics(f.s.Model), "-model "+f.s.Model+" has no batch normalisation")
	case "tf32":
		if modelPrecision(f.s.Model) != nn.Float32 {
			return "-model " + f.s.Model + " is computed in float64"
		}
		return unless(deviceName{&f.s.Device}.String() != "cpu", "it belongs to -device cuda")
	case "clip-mode":
		return unless(cfg.Adam.Clip != 0, "-clip 0 bounds nothing")
	case "ditto-mu", "ditto-mode":
		return unless(f.personalizer == f.ditto.Name(), "it belongs to -personalizer ditto")
	case "rho-selector":
		return unless(f.personalizer == f.interp.Name(), "it belongs to -personalizer interp")
	case "alpha", "personal-alpha":
		of := f.trains
		if name == "personal-alpha" {
			of = f.personalizes
		}
		if !calibrated {
			return "-lr gives the learning rate"
		}
		return unless(of(regularized) || cfg.Rates == train.RateMatched, "it belongs to -loss rspo+ or -lr matched")
	case "calibration":
		return unless(anywhere(regularized) || anywhere(isOptNet), "it belongs to -loss rspo+ or optnet")
	case "calib-norm":
		return unless(anywhere(regularized) || anywhere(isOptNet) || cfg.Rates == train.RateMatched, "it belongs to -loss rspo+ or optnet, or -lr matched")
	case "fed-kappa-lambda", "fed-kappa-lr":
		return unless(f.trains(regularized), "it belongs to -loss rspo+")
	case "kappa-lambda", "kappa-lr", "early-stop":
		if name == "kappa-lr" && cfg.AnnealRates {
			return ""
		}
		return unless(f.personalizes(regularized), "it belongs to rspo+ as the loss of personal training")
	case "tau", "monitor":
		return unless(anywhere(regularized), "it belongs to -loss rspo+")
	case "samples", "epsilon", "noise":
		return unless(anywhere(isPerturbed), "it belongs to -loss pfyl or dpo")
	case "variance-reduction":
		if f.perturbation.Samples == 1 {
			return "the mean of one sample is the sample"
		}
		return unless(anywhere(isDPO), "it belongs to -loss dpo")
	case "multipliers":
		return unless(anywhere(isOptNet), "it belongs to -loss optnet")
	}
	return ""
}

// Setting returns what the flags say, validated. Flags without effect are
// ignored. An error about one flag's value is a *FlagError.
func (f *Flags) Setting() (Setting, error) {
	s := f.s
	set := map[string]bool{}
	f.fs.Visit(func(fl *flag.Flag) { set[fl.Name] = true })
	switch {
	case set["seed"] && set["seeds"]:
		return s, errors.New("-seed and -seeds exclude each other; give one of them")
	case f.seeds != nil:
		s.Seeds = slices.Clone(f.seeds)
	default:
		s.Seeds = []int64{f.seed}
	}
	if err := f.checkRanges(); err != nil {
		return s, err
	}
	if s.Data.Maps > 0 && s.Kind.Small == nil {
		return s, &FlagError{"data", fmt.Sprintf("is %q, want a folder: numbers of generated maps belong to -task warcraft", dataSource{&s.Data})}
	}
	if !slices.Contains(s.Kind.Models, s.Model) {
		return s, &FlagError{"model", fmt.Sprintf("is %q, want %s for -task %s", s.Model, strings.Join(s.Kind.Models, " or "), s.Kind.Name)}
	}
	s.Data = s.Kind.resolve(s.Data)
	cfg := &s.Config
	// One flag for both stages.
	cfg.Fed.Tau, cfg.Fed.Monitor = cfg.Personal.Tau, cfg.Personal.Monitor
	cfg.Personalizer = nil
	switch f.personalizer {
	case f.ditto.Name():
		cfg.Personalizer = f.ditto
	case f.interp.Name():
		cfg.Personalizer = f.interp
	}
	var err error
	if cfg.Coordinator, err = f.coordinator.setting(cfg.Regime); err != nil {
		return s, err
	}
	cfg.Multipliers = slices.Clone(cfg.Multipliers)
	s.Losses = slices.Clone(s.Losses)
	for k := range s.Losses {
		s.Losses[k] = f.perturbed(s.Losses[k])
	}
	cfg.PersonalLoss = f.perturbed(cfg.PersonalLoss)
	return s, s.Validate()
}

// perturbed gives the perturbed losses their settings.
func (f *Flags) perturbed(l surrogate.Loss) surrogate.Loss {
	switch l.(type) {
	case surrogate.PFYL:
		return surrogate.PFYL{Perturbation: f.perturbation}
	case surrogate.DPO:
		return surrogate.DPO{Perturbation: f.perturbation, NoBaseline: f.noBaseline}
	}
	return l
}

// FlagError is a value that a flag must not have.
type FlagError struct {
	// Flag is the name without its dash.
	Flag string
	// Problem goes on where the flag's name stops: "is NaN, want ...".
	Problem string
}

// Error names the flag as the command line does.
func (e *FlagError) Error() string { return "-" + e.Flag + " " + e.Problem }

// flagRange is the values that some flags may have.
type flagRange struct {
	flags  []string
	lo, hi float64
	// above says that lo is not one of the values, orZero that 0 is one beside
	// those from lo.
	above, orZero bool
}

// flagRanges holds the flags that are numbers. The upper ends are far beyond
// use, and keep sums and allocations within bounds.
var flagRanges = []flagRange{
	{flags: []string{"rounds", "personal-rounds"}, hi: 1e6},
	{flags: []string{"epochs", "personal-epochs", "batch", "monitor", "samples"}, lo: 1, hi: 1e6},
	{flags: []string{"early-stop"}, lo: -1, hi: 1e6},
	{flags: []string{"clients"}, hi: 1e5},
	{flags: []string{"train-samples", "validation-samples", "test-samples"}, hi: 1e7},
	{flags: []string{"eta-obj", "eta-constr", "eta-data"}, lo: 1e-9, hi: 10, orZero: true},
	{flags: []string{"hold-out"}, hi: 0.99},
	{flags: []string{"grid"}, hi: 30},
	{flags: []string{"terrain-scale"}, hi: 5},
	{flags: []string{"days"}, lo: 10, hi: 20_000, orZero: true},
	{flags: []string{"demand"}, hi: 24},
	{flags: []string{"train-days", "late-client"}, hi: 1e6},
	{flags: []string{"fraction"}, hi: 1e6, above: true},
	{flags: []string{"alpha", "personal-alpha", "epsilon", "ditto-mu"}, hi: 1e12, above: true},
	{flags: []string{"kappa-lambda", "kappa-lr", "fed-kappa-lambda", "fed-kappa-lr", "tau", "prox", "clip", "output-bound"}, hi: 1e12},
}

// has says whether x is one of the values. Written so that NaN is not.
func (r flagRange) has(x float64) bool {
	return x >= r.lo && x <= r.hi && !(r.above && x == r.lo) || r.orZero && x == 0
}

// checkRanges reports the first number out of its range, as a *FlagError.
func (f *Flags) checkRanges() error {
	for _, r := range slices.Concat(flagRanges, federationRanges) {
		for _, name := range r.flags {
			value := f.fs.Lookup(name).Value.(flag.Getter).Get()
			x, isFloat := value.(float64)
			if n, ok := value.(int); ok {
				x = float64(n)
			}
			if r.has(x) {
				continue
			}
			kind, from := "a whole number", "from"
			if isFloat {
				kind = "a number"
			}
			if r.orZero {
				kind = "0 or " + kind
			}
			if r.above {
				from = "above"
			}
			return &FlagError{name, fmt.Sprintf("is %v, want %s %s %v to %.7g", value, kind, from, r.lo, r.hi)}
		}
	}
	if x := f.fs.Lookup("fraction").Value.(flag.Getter).Get().(float64); x > 1 && x != math.Trunc(x) {
		return &FlagError{"fraction", fmt.Sprintf("is %v, want a share of the clients, above 0 to 1, or their whole number", x)}
	}
	if g := f.s.Data.Grid; g != 0 && !slices.Contains(warcraftGrids, g) {
		return &FlagError{"grid", fmt.Sprintf("is %d, want one of %v, or 0 for the first", g, warcraftGrids)}
	}
	for _, m := range f.s.Config.Multipliers {
		if !(m > 0) {
			return &FlagError{"multipliers", fmt.Sprintf("has %v, want positive numbers", m)}
		}
	}
	return nil
}

// Resolved returns the settings flags that have an effect on s with their
// values: the content of a configuration file that repeats s. It is the same
// however the flags were written, and whether a default was spelt out. What
// changes no result (workers), and what only adds to it (Config.Alignment,
// Config.Validation), is not among them.
func (s Setting) Resolved() map[string]any {
	f := newFlags(flag.NewFlagSet("", flag.ContinueOnError), s)
	out := map[string]any{}
	for _, g := range FlagGroups {
		for _, name := range g.Names {
			if f.why(name) != "" {
				continue
			}
			if v := f.fs.Lookup(name).Value.(flag.Getter).Get(); v != "" {
				out[name] = v
			}
		}
	}
	if len(s.Seeds) == 1 {
		delete(out, "seeds")
	} else {
		delete(out, "seed")
	}
	return out
}

// Arguments returns the settings flags whose values differ from the defaults,
// as ParseSettings and the train command read them.
func (s Setting) Arguments() []string {
	values := func(s Setting) *flag.FlagSet {
		fs := flag.NewFlagSet("", flag.ContinueOnError)
		newFlags(fs, s)
		return fs
	}
	ours, defaults := values(s), values(defaultSetting(s.Kind, s.Config.Regime, s.Kind.resolve(s.Data)))
	first := DefaultSetting(Kinds[0], train.Federated)
	resolved := s.Resolved()
	var args []string
	for _, g := range FlagGroups {
		for _, name := range g.Names {
			if _, ok := resolved[name]; !ok {
				continue
			}
			value, standard := ours.Lookup(name).Value.String(), defaults.Lookup(name).Value.String()
			switch name {
			case "task":
				standard = first.Kind.Name
			case "regime":
				standard = string(first.Config.Regime)
			case "data":
				standard = dataSource{&first.Data}.String()
				if s.Kind.isSmall(s.Data) {
					continue
				}
			}
			if value != standard {
				args = append(args, "-"+name, value)
			}
		}
	}
	return args
}
