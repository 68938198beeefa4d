package train

import (
	"errors"
	"fmt"
	"slices"

	"fedrspo/federation"
	"fedrspo/nn"
	"fedrspo/oracle"
	"fedrspo/run"
)

// Names of the rules by which the server of the federated stage aggregates.
const (
	// AggregatorMean is federated averaging (federation.FedAvg).
	AggregatorMean = "mean"
	// AggregatorMedian is the coordinate-wise median (federation.Median).
	AggregatorMedian = "median"
	// AggregatorTrimmed is the coordinate-wise trimmed mean
	// (federation.TrimmedMean).
	AggregatorTrimmed = "trimmed"
	// AggregatorKrum is federation.Krum.
	AggregatorKrum = "krum"
	// AggregatorMultiKrum is federation.MultiKrum over as many updates as its
	// conditions allow.
	AggregatorMultiKrum = "multikrum"
)

// Aggregators lists the rules for checks and help texts.
var Aggregators = []string{AggregatorMean, AggregatorMedian, AggregatorTrimmed, AggregatorKrum, AggregatorMultiKrum}

// roundAttempts bounds the attempts at a round under federation.Retry: training
// that fails with ten sets of participants is not bad luck.
const roundAttempts = 10

// Coordinator is what the server of the federated stage does beside averaging
// what the participants of a round send. The zero value does no more than that,
// and lets a client whose training fails end the run.
//
// The package federation has more: deadlines and over-selection are for clients
// that answer late or never. In one process each of them answers, and the run
// waits for it, so that these settings would have no effect.
type Coordinator struct {
	// Aggregator is one of Aggregators; empty means AggregatorMean.
	Aggregator string
	// Byzantine is f, the number of adversarial clients that AggregatorTrimmed,
	// AggregatorKrum and AggregatorMultiKrum bear: 1 or more for these, 0 for
	// the others.
	Byzantine int
	// Clip, unless 0, bounds the norm of the change that a client's update makes
	// to the model; see federation.Settings.
	Clip float64
	// Privacy, unless its Noise is 0, makes the models of the federated stage
	// differentially private; it needs Clip. A participant whose training fails
	// then counts as one without a change.
	Privacy federation.Privacy
	// MinUpdates, unless 0, lets a round go on without participants whose
	// training fails with numbers that are not finite, as long as this many
	// updates are left.
	MinUpdates int
	// OnFailure is what becomes of a round that fewer are left in: end the run
	// (federation.Stop, also the zero value), go on from the same model with the
	// next round (federation.Skip), or with other participants (federation.Retry,
	// ten times at most). It belongs to MinUpdates.
	OnFailure federation.Policy
}

// rule returns the aggregation rule.
func (c Coordinator) rule(workers int) (federation.Aggregator, error) {
	switch c.Aggregator {
	case "", AggregatorMean:
		return federation.FedAvg{}, nil
	case AggregatorMedian:
		return federation.Median{Workers: workers}, nil
	case AggregatorTrimmed:
		return federation.TrimmedMean{Byzantine: c.Byzantine, Workers: workers}, nil
	case AggregatorKrum:
		return federation.Krum{Byzantine: c.Byzantine, Workers: workers}, nil
	case AggregatorMultiKrum:
		return federation.MultiKrum{Byzantine: c.Byzantine, Workers: workers}, nil
	}
	return nil, fmt.Errorf("aggregator %q, want one of %v", c.Aggregator, Aggregators)
}

// Robust says whether the rule bears a number of adversarial clients that must
// be told.
func (c Coordinator) Robust() bool {
	return slices.Contains([]string{AggregatorTrimmed, AggregatorKrum, AggregatorMultiKrum}, c.Aggregator)
}

// private says whether noise is added.
func (c Coordinator) private() bool { return c.Privacy.Noise != 0 }

// tolerates says whether a round goes on when a client's training ends with err.
func (c Coordinator) tolerates(err error) bool {
	if c.MinUpdates == 0 && !c.private() {
		return false
	}
	return errors.Is(err, nn.ErrNonFinite) || errors.Is(err, oracle.ErrNonFinite)
}

// settings returns the federation's settings.
func (c Coordinator) settings(seed int64, fraction float64) federation.Settings {
	s := federation.Settings{Seed: seed, Fraction: fraction, MinUpdates: c.MinUpdates, Clip: c.Clip, OnFailure: c.OnFailure, Privacy: c.Privacy}
	switch c.OnFailure {
	case federation.Wait:
		s.OnFailure = federation.Stop
	case federation.Retry:
		s.Attempts = roundAttempts
	}
	return s
}

// validate reports the first setting that has no meaning or no effect in cfg.
func (c Coordinator) validate(cfg *Config) error {
	if cfg.Regime != Federated {
		if c != (Coordinator{}) {
			return fmt.Errorf("aggregation, clipping, privacy and a least number of updates belong to the %s regime", Federated)
		}
		return nil
	}
	rule, err := c.rule(0)
	if err != nil {
		return err
	}
	switch {
	case !c.Robust() && c.Byzantine != 0:
		return fmt.Errorf("the aggregator %s takes no number of adversarial clients, got %d", rule.Name(), c.Byzantine)
	case c.MinUpdates == 0 && c.OnFailure != federation.Wait:
		return fmt.Errorf("policy %q without a least number of updates has no effect", c.OnFailure)
	}
	if err := errors.Join(rule.Validate(), c.settings(cfg.Seed, cfg.Fed.Fraction).Validate()); err != nil {
		return err
	}
	if cfg.SharedStatistics && (c.Clip > 0 || c.MinUpdates > 0) {
		return errors.New("shared statistics move with every client's training: its update cannot be clipped or left out")
	}
	if c.private() {
		return c.validatePrivacy(cfg, rule)
	}
	return nil
}

// validatePrivacy reports what else than the noisy models the federated stage
// would learn from the clients' data.
func (c Coordinator) validatePrivacy(cfg *Config, rule federation.Aggregator) error {
	switch {
	case c.Aggregator != "" && c.Aggregator != AggregatorMean:
		return fmt.Errorf("privacy needs the aggregator %s, got %s", AggregatorMean, rule.Name())
	case cfg.Calibration.Averaged || cfg.Rates == RateMatched || cfg.Rates == RateScaled:
		return errors.New("privacy: averages of λ or learning rates over clients would tell of their data")
	case cfg.Loss.Regularized() && (cfg.Fed.KappaLambda != 0 || cfg.Fed.KappaRate != 0):
		return errors.New("privacy: annealing in the federated stage stops by a statistic of the clients' validation samples")
	case isOptNet(cfg.Loss) && len(cfg.Multipliers) > 1:
		return fmt.Errorf("privacy: %d multipliers, the choice of one would tell of the clients' validation samples", len(cfg.Multipliers))
	}
	return nil
}

// newServer returns the server of the federated stage, at its start.
func (r *Run) newServer() (*federation.Server, error) {
	rule, err := r.cfg.Coordinator.rule(r.cfg.workers())
	if err != nil {
		return nil, err
	}
	return federation.New(r.fedSettings(), rule, r.serverClients(), r.state.Initial)
}

// gather hands the server the answers to a plan, in ascending client ID, and
// closes the round, whose metric it fills.
func (f *fedStage) gather(plan federation.Plan, answers []answer, m *run.Metric) (federation.Outcome, error) {
	weight := 0.0
	for k, a := range answers {
		id := plan.Participants[k]
		f.state.FedSteps += a.steps
		if a.failed {
			if err := f.server.Drop(plan.Round, id); err != nil {
				return "", err
			}
			continue
		}
		if err := f.server.Submit(federation.Update{Round: plan.Round, Client: id, Params: a.params}); err != nil {
			return "", err
		}
		n := float64(f.task.Clients[f.index[id]].Train.Len())
		m.TrainLoss += n * a.loss
		weight += n
	}
	if weight > 0 {
		m.TrainLoss /= weight
	}
	report, err := f.server.Close()
	m.LeftOut, m.Clipped, m.Epsilon = report.Missing, len(report.Clipped), report.Spent.Epsilon
	if report.Outcome != federation.Aggregated {
		m.Failed = string(report.Outcome)
	}
	switch report.Outcome {
	case federation.Retried, federation.Skipped:
		err = nil
	}
	return report.Outcome, err
}

// faults summarises what went wrong in the federated stage, and what privacy it
// cost.
func (r *Run) faults(s *run.SeedResult) {
	for _, m := range r.state.FedMetrics {
		s.LeftOut += len(m.LeftOut)
		if m.Failed != "" {
			s.FailedRounds++
		}
	}
	if r.state.Server == nil || !r.cfg.Coordinator.private() {
		return
	}
	spent := r.fedSettings().SpentAfter(r.state.Server.Releases, r.eligible())
	s.Privacy = &run.Privacy{Releases: spent.Releases, Epsilon: spent.Epsilon, Delta: spent.Delta}
}
