// Package train fits predictors to tasks: centralised, in each client alone,
// or federated and then personalised (paper, section 3.2). It owns what
// happens around a loss: calibration of λ and η, their annealing, the freeze
// rule and early stopping, local training, and evaluation by decision regret.
//
// A [Config] is the table of hyper-parameters, [New] checks it against a task,
// [Run.Execute] trains, and [Run.Result] reports. Everything that changes
// during a run is in one plain struct, [State]. The result depends on config,
// task and seed only, bit for bit, never on the number of workers.
package train

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"

	"fedrspo/federation"
	"fedrspo/nn"
	"fedrspo/surrogate"
)

// Regime says who shares what.
type Regime string

const (
	// Federated trains one model by federated averaging, then personalises it
	// in every client.
	Federated Regime = "federated"
	// Local trains every client alone from the initial model, by the
	// personalisation procedure.
	Local Regime = "local"
	// Centralized trains, for each client, one model on the pooled training
	// data of all clients with that client's feasible set in the loss.
	Centralized Regime = "centralized"
)

// Regimes lists the regimes for help texts and checks.
var Regimes = []Regime{Federated, Local, Centralized}

// RateRule says where learning rates come from.
type RateRule string

const (
	// RatePaper uses η_j = αλ_j/4 for RSPO+ and Stage.Rate for other losses.
	RatePaper RateRule = "paper"
	// RateMatched uses η_j for RSPO+, and its mean over all clients for other
	// losses, so that methods move at the same pace.
	RateMatched RateRule = "matched"
	// RateFixed uses Config.FixedRate in place of η_j and of Stage.Rate.
	RateFixed RateRule = "fixed"
	// RateScaled uses Config.FixedRate times λ_j/mean λ for RSPO+, so that the
	// clients' rates keep the ratios of η_j, and Config.FixedRate for other
	// losses.
	RateScaled RateRule = "scaled"
)

// Stage is the hyper-parameters of one training stage.
type Stage struct {
	// Rounds of the stage, Epochs over the client's data in each.
	Rounds, Epochs int
	// Fraction of the clients that take part in a federated round; see
	// federation.Settings. Personalisation always takes all.
	Fraction float64
	// Alpha scales the calibrated learning rate η_j = αλ_j/4 (RSPO+).
	Alpha float64
	// Rate is the learning rate of losses that do not calibrate.
	Rate float64
	// KappaLambda and KappaRate anneal λ_t = λ_j/(1+κ^λ t) and
	// η_t = η_j/(1+κ^LR t) (RSPO+).
	KappaLambda, KappaRate float64
	// Tau is the freeze threshold τ on the statistic Ũ (RSPO+).
	Tau float64
	// Monitor is the number of validation samples per client that Ũ is
	// computed from; fewer where a client has fewer.
	Monitor int
	// MonitorFraction of the clients gives the samples of the federated
	// stage's pooled monitor; it counts like Fraction.
	MonitorFraction float64
	// EarlyStop is the number of rounds a client trains after the one it froze
	// in (RSPO+, personalisation only); negative means all of them.
	EarlyStop int
}

// Config is the hyper-parameters of a run. Fields have no defaults here: the
// paper's values stand with each task, in experiment.Kind.Defaults.
type Config struct {
	Seed int64
	Loss surrogate.Loss
	// PersonalLoss trains the personal stage of the federated regime; nil means
	// Loss.
	PersonalLoss surrogate.Loss
	Regime       Regime
	// SinglePooled makes the centralised regime train one model for all
	// clients, each sample judged over its owner's feasible set, instead of a
	// model per client.
	SinglePooled bool
	// Personalizer makes the clients' models of the federated regime; nil means
	// FineTune.
	Personalizer Personalizer
	// AnnealRates anneals by Personal.KappaRate the learning rates of losses
	// without λ too, in personal training.
	AnnealRates bool
	// SharedStatistics keeps one set of running statistics (batch normalisation)
	// that every client's every training batch moves in turn, as the authors'
	// program does, instead of a set for each client that federated rounds
	// average like parameters.
	SharedStatistics bool
	// Prox is FedProx's μ: local training in the federated stage adds
	// (μ/2)|θ-θ_t|², θ_t the global model of the round, to every batch loss.
	// 0 is FedAvg.
	Prox float64
	// Coordinator is what the server of the federated stage does beside FedAvg.
	Coordinator Coordinator
	// Multipliers are the candidates m for ε_j = m λ_j of the OptNet-style
	// loss; the best on validation data is taken.
	Multipliers []float64
	Model       nn.Model
	// Precision of the network.
	Precision nn.Precision
	// Device computes the network; nil is the processor. Every worker has a
	// queue of its own there, so that the oracles of one client run while the
	// device works for another.
	Device *nn.Device
	// Batch is the number of samples of a gradient step.
	Batch int
	// Adam holds clipping and the moments' decay.
	Adam nn.Adam
	// Rates and FixedRate choose the learning rates.
	Rates     RateRule
	FixedRate float64
	// Calibration options.
	Calibration Calibration
	// Fed is the federated stage; Personal is personalisation, and the whole
	// of the local and centralised regimes.
	Fed, Personal Stage
	// Alignment and Validation fill the result's fields of these names;
	// AlignmentMeanLambda measures the federated model's alignment at the mean
	// of the clients' λ.
	Alignment, AlignmentMeanLambda, Validation bool
	// Track is the number of validation samples of each client on which the
	// regret is measured after every round, for Metric.Validation: of the global
	// model over all clients in federated rounds, of a client's own model in its
	// rounds (with Interp, of the local one). 0 measures none. It never changes a
	// model.
	Track int
	// Clock, unless nil, returns nanoseconds since any moment, for Run.Spent. It
	// never changes a result.
	Clock func() int64
	// Workers is the number of goroutines that train clients; 0 means one per
	// CPU. It never changes a result.
	Workers int
}

// Calibration holds the options of the calibration of λ_j (paper, equation 11).
type Calibration struct {
	// Averaged gives every client the mean λ and the mean η over all clients.
	Averaged bool
	// NormOfMean divides |mean c| by R_j instead of the mean of |c|.
	NormOfMean bool
	// Fallback is λ of a client without training data.
	Fallback float64
}

// ErrConfig is wrapped by errors about a Config.
var ErrConfig = errors.New("invalid configuration")

// Validate reports the first field that has no meaning.
func (c *Config) Validate() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), ErrConfig)
	}
	if c.Loss == nil || c.Model == nil {
		return bad("loss and model are required")
	}
	switch c.Regime {
	case Federated, Local, Centralized:
	default:
		return bad("regime %q, want one of %v", c.Regime, Regimes)
	}
	if !(c.Prox >= 0) || math.IsInf(c.Prox, 1) {
		return bad("prox %v, want 0 or more", c.Prox)
	}
	if c.Regime != Federated && (c.PersonalLoss != nil || c.Personalizer != nil || c.Prox != 0) {
		return bad("a personal loss, a personalizer and prox belong to the %s regime", Federated)
	}
	if c.Regime != Centralized && c.SinglePooled {
		return bad("a single pooled model belongs to the %s regime", Centralized)
	}
	if c.Personalizer != nil {
		if err := c.Personalizer.validate(c); err != nil {
			return bad("%v", err)
		}
	}
	for _, l := range []surrogate.Loss{c.Loss, c.personalLoss()} {
		if v, ok := l.(interface{ Validate() error }); ok {
			if err := v.Validate(); err != nil {
				return bad("%s: %v", l.Name(), err)
			}
		}
	}
	if err := c.validateStatistics(); err != nil {
		return bad("%v", err)
	}
	if c.tunesEpsilon() {
		if len(c.Multipliers) == 0 || slices.ContainsFunc(c.Multipliers, func(m float64) bool { return !positive(m) }) {
			return bad("%s: multipliers %v, want positive numbers", surrogate.OptNet{}.Name(), c.Multipliers)
		}
	}
	if c.Batch < 1 {
		return bad("batch %d, want at least 1", c.Batch)
	}
	if c.Workers < 0 {
		return bad("workers %d, want 0 or more", c.Workers)
	}
	if c.Track < 0 {
		return bad("%d tracked validation samples, want 0 or more", c.Track)
	}
	if err := c.Adam.Validate(); err != nil {
		return bad("%v", err)
	}
	if err := c.Coordinator.validate(c); err != nil {
		return bad("%v", err)
	}
	switch c.Rates {
	case RatePaper, RateMatched:
	case RateFixed, RateScaled:
		if !positive(c.FixedRate) {
			return bad("learning rate %v, want a positive number", c.FixedRate)
		}
	default:
		return bad("learning rate rule %q", c.Rates)
	}
	for _, s := range []struct {
		name string
		Stage
	}{{"federated stage", c.Fed}, {"personal stage", c.Personal}} {
		if err := s.validate(); err != nil {
			return bad("%s: %v", s.name, err)
		}
	}
	return nil
}

func (s Stage) validate() error {
	switch {
	case s.Rounds < 0:
		return fmt.Errorf("%d rounds, want 0 or more", s.Rounds)
	case s.Epochs < 1:
		return fmt.Errorf("%d epochs, want at least 1", s.Epochs)
	case !positive(s.Alpha):
		return fmt.Errorf("alpha %v, want a positive number", s.Alpha)
	case !positive(s.Rate):
		return fmt.Errorf("learning rate %v, want a positive number", s.Rate)
	case !(s.KappaLambda >= 0) || math.IsInf(s.KappaLambda, 1):
		return fmt.Errorf("kappa-lambda %v, want 0 or more", s.KappaLambda)
	case !(s.KappaRate >= 0) || math.IsInf(s.KappaRate, 1):
		return fmt.Errorf("kappa-lr %v, want 0 or more", s.KappaRate)
	case !(s.Tau >= 0):
		return fmt.Errorf("tau %v, want 0 or more", s.Tau)
	case s.Monitor < 1:
		return fmt.Errorf("%d monitor samples, want at least 1", s.Monitor)
	}
	if err := (federation.Settings{Fraction: s.Fraction}).Validate(); err != nil {
		return err
	}
	if err := (federation.Settings{Fraction: s.MonitorFraction}).Validate(); err != nil {
		return fmt.Errorf("monitor: %w", err)
	}
	return nil
}

func positive(x float64) bool { return x > 0 && !math.IsInf(x, 1) }

func (c *Config) personalLoss() surrogate.Loss {
	if c.PersonalLoss != nil {
		return c.PersonalLoss
	}
	return c.Loss
}

// tunesEpsilon says whether a stage trains with the OptNet-style loss.
func (c *Config) tunesEpsilon() bool {
	return isOptNet(c.Loss) || isOptNet(c.personalLoss())
}

func isOptNet(l surrogate.Loss) bool {
	_, ok := l.(surrogate.OptNet)
	return ok
}

// personalizer returns the personalizer, FineTune by default.
func (c *Config) personalizer() Personalizer {
	if c.Personalizer != nil {
		return c.Personalizer
	}
	return FineTune{}
}

func (c *Config) workers() int {
	if c.Workers == 0 {
		return runtime.GOMAXPROCS(0)
	}
	return c.Workers
}
