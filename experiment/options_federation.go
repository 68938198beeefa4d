package experiment

import (
	"cmp"
	"flag"
	"strings"

	"fedrspo/federation"
	"fedrspo/train"
)

// federationFlags are the settings flags of train.Coordinator.
var federationFlags = []string{"aggregator", "byzantine", "update-clip", "min-updates", "failed-round", "dp-noise", "dp-clip", "dp-delta"}

// coordinator is train.Coordinator as flags set it: with values for what has no
// effect.
type coordinator struct {
	aggregator  string
	byzantine   int
	updateClip  float64
	minUpdates  int
	failedRound federation.Policy
	noise       float64
	noiseClip   float64
	delta       float64
}

// newCoordinator returns the flags' values for c.
func newCoordinator(c train.Coordinator) coordinator {
	f := coordinator{
		aggregator:  cmp.Or(c.Aggregator, train.AggregatorMean),
		byzantine:   cmp.Or(c.Byzantine, 1),
		minUpdates:  c.MinUpdates,
		failedRound: cmp.Or(c.OnFailure, federation.Stop),
		noise:       c.Privacy.Noise,
		delta:       cmp.Or(c.Privacy.Delta, 1e-5),
	}
	if f.noise != 0 {
		f.noiseClip = c.Clip
	} else {
		f.updateClip = c.Clip
	}
	return f
}

func (c *coordinator) declare(fs *flag.FlagSet) {
	words(fs, &c.aggregator, "aggregator", "`rule` by which the server makes a model of the clients' models: "+strings.Join([]string{
		"mean (weighted by training samples)",
		"median (of each parameter)",
		"trimmed (mean of each parameter without the -byzantine largest and smallest)",
		"krum (the model with the nearest neighbours)",
		"multikrum (mean of those with the nearest neighbours)",
	}, ", "), train.Aggregators...)
	fs.IntVar(&c.byzantine, "byzantine", c.byzantine, "`number` f of participants of a round that may be adversarial: trimmed needs 2f+1 participants, krum and multikrum 2f+3")
	fs.Float64Var(&c.updateClip, "update-clip", c.updateClip, "scale the change that a client makes to the model down to at most this `norm`; 0 for no bound")
	fs.IntVar(&c.minUpdates, "min-updates", c.minUpdates, "go on without clients whose training overflows, as long as this `number` of updates is left in a round; 0 ends the run there")
	words(fs, &c.failedRound, "failed-round", "`what` follows a round with too few updates, which leaves the model as it was: stop, skip (the next round), or retry (with other clients, ten times at most)", federation.Stop, federation.Skip, federation.Retry)
	fs.Float64Var(&c.noise, "dp-noise", c.noise, "differential privacy of clients in the federated stage: noise of this `multiple` of -dp-clip on the sum of changes; 0 for none")
	fs.Float64Var(&c.noiseClip, "dp-clip", c.noiseClip, "`norm` that the change of a client is scaled down to before noise is added")
	fs.Float64Var(&c.delta, "dp-delta", c.delta, "`delta` at which the spent epsilon is reported")
}

// why says why a flag has no effect beside the others, or "".
func (c *coordinator) why(name string) string {
	private := c.noise != 0
	switch {
	case name == "byzantine" && !(train.Coordinator{Aggregator: c.aggregator}).Robust():
		return "it belongs to -aggregator trimmed, krum or multikrum"
	case name == "update-clip" && private:
		return "-dp-clip bounds the changes"
	case name == "min-updates" && private:
		return "with -dp-noise a round goes on with any number of updates"
	case name == "failed-round" && (private || c.minUpdates == 0):
		return "it belongs to -min-updates"
	case (name == "dp-clip" || name == "dp-delta") && !private:
		return "it belongs to -dp-noise"
	}
	return ""
}

// setting returns what the flags say in a regime, without what has no effect.
func (c *coordinator) setting(regime train.Regime) (train.Coordinator, error) {
	var out train.Coordinator
	if regime != train.Federated {
		return out, nil
	}
	if c.aggregator != train.AggregatorMean {
		out.Aggregator = c.aggregator
	}
	if c.why("byzantine") == "" {
		out.Byzantine = c.byzantine
	}
	if c.noise != 0 {
		if c.noiseClip == 0 {
			return out, &FlagError{"dp-clip", "is not given, want the norm that -dp-noise is a multiple of"}
		}
		out.Clip, out.Privacy = c.noiseClip, federation.Privacy{Noise: c.noise, Delta: c.delta}
		return out, nil
	}
	out.Clip = c.updateClip
	if out.MinUpdates = c.minUpdates; c.minUpdates > 0 && c.failedRound != federation.Stop {
		out.OnFailure = c.failedRound
	}
	return out, nil
}

// federationRanges are the values of federationFlags that are numbers.
var federationRanges = []flagRange{
	{flags: []string{"byzantine"}, lo: 1, hi: 1e5},
	{flags: []string{"min-updates"}, hi: 1e5},
	{flags: []string{"update-clip", "dp-clip"}, lo: 1e-12, hi: 1e12, orZero: true},
	{flags: []string{"dp-noise"}, lo: 1e-3, hi: 1e6, orZero: true},
	{flags: []string{"dp-delta"}, hi: 0.5, above: true},
}
