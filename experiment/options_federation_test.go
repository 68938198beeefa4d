package experiment_test

import (
	"flag"
	"reflect"
	"slices"
	"strings"
	"testing"

	"fedrspo/experiment"
	"fedrspo/federation"
	"fedrspo/train"
)

// TestFederationFlags: every flag reaches its field; the arguments and the
// resolved settings of a setting give the setting again.
func TestFederationFlags(t *testing.T) {
	for args, want := range map[string]train.Coordinator{
		"":                                    {},
		"-aggregator mean":                    {},
		"-aggregator median -update-clip 0.5": {Aggregator: "median", Clip: 0.5},
		"-aggregator trimmed -byzantine 3":    {Aggregator: "trimmed", Byzantine: 3},
		"-aggregator krum":                    {Aggregator: "krum", Byzantine: 1},
		"-aggregator multikrum -byzantine 2 -min-updates 7":                {Aggregator: "multikrum", Byzantine: 2, MinUpdates: 7},
		"-min-updates 2 -failed-round stop":                                {MinUpdates: 2},
		"-min-updates 2 -failed-round skip":                                {MinUpdates: 2, OnFailure: federation.Skip},
		"-min-updates 2 -failed-round retry":                               {MinUpdates: 2, OnFailure: federation.Retry},
		"-dp-noise 1.5 -dp-clip 0.2":                                       {Clip: 0.2, Privacy: federation.Privacy{Noise: 1.5, Delta: 1e-5}},
		"-dp-noise 1.5 -dp-clip 0.2 -dp-delta 0.001":                       {Clip: 0.2, Privacy: federation.Privacy{Noise: 1.5, Delta: 1e-3}},
		"-task warcraft -aggregator trimmed -byzantine 1":                  {Aggregator: "trimmed", Byzantine: 1},
		"-loss mse -dp-noise 2 -dp-clip 3 -personalizer ditto -ditto-mu 2": {Clip: 3, Privacy: federation.Privacy{Noise: 2, Delta: 1e-5}},
	} {
		s := mustParse(t, args)
		if s.Config.Coordinator != want {
			t.Errorf("%s: %+v, want %+v", args, s.Config.Coordinator, want)
		}
		again := mustParse(t, strings.Join(s.Arguments(), " "))
		if again.Config.Coordinator != want || !reflect.DeepEqual(again.Resolved(), s.Resolved()) {
			t.Errorf("%s: the arguments %v give %+v", args, s.Arguments(), again.Config.Coordinator)
		}
	}
}

// TestFederationFlagsWithoutEffect: a flag that changes nothing is refused, and
// is not among the resolved settings.
func TestFederationFlagsWithoutEffect(t *testing.T) {
	for args, why := range map[string]string{
		"-byzantine 2":                                    "-byzantine has no effect here: it belongs to -aggregator",
		"-aggregator median -byzantine 2":                 "-byzantine has no effect here: it belongs to -aggregator",
		"-failed-round skip":                              "-failed-round has no effect here: it belongs to -min-updates",
		"-dp-clip 1":                                      "-dp-clip has no effect here: it belongs to -dp-noise",
		"-dp-delta 0.1":                                   "-dp-delta has no effect here: it belongs to -dp-noise",
		"-dp-noise 1 -dp-clip 1 -update-clip 2":           "-update-clip has no effect here: -dp-clip",
		"-dp-noise 1 -dp-clip 1 -min-updates 2":           "-min-updates has no effect here: with -dp-noise",
		"-regime local -aggregator median":                "-aggregator has no effect here: it belongs to -regime federated",
		"-regime centralized -dp-noise 1":                 "-dp-noise has no effect here: it belongs to -regime federated",
		"-dp-noise 1":                                     "-dp-clip is not given",
		"-dp-noise 1 -dp-clip 1 -aggregator median":       "privacy needs the aggregator mean",
		"-dp-noise 1 -dp-clip 1 -lr matched":              "averages of",
		"-dp-noise 1 -dp-clip 1 -lr tuned":                "averages of",
		"-dp-noise 1 -dp-clip 1 -fed-kappa-lr 1":          "annealing",
		"-dp-noise 1e9 -dp-clip 1":                        "-dp-noise is 1e+09",
		"-dp-noise NaN -dp-clip 1":                        "-dp-noise is NaN",
		"-dp-noise 1 -dp-clip 1 -dp-delta 1":              "-dp-delta is 1",
		"-update-clip -1":                                 "-update-clip is -1",
		"-min-updates -1":                                 "-min-updates is -1",
		"-aggregator krum -byzantine 0":                   "-byzantine is 0",
		"-aggregator mode":                                "want mean, median, trimmed, krum or multikrum",
		"-min-updates 2 -failed-round pray":               "want stop, skip or retry",
		"-dp-noise 1 -dp-clip 1 -calibration averaged":    "averages of",
		"-loss optnet -dp-noise 1 -dp-clip 1":             "multipliers",
		"-regime local -min-updates 1 -failed-round stop": "-regime federated",
	} {
		if _, err := experiment.ParseSettings(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: error %v, want one about %q", args, err, why)
		}
	}
	for args, there := range map[string][]string{
		"":                           {"aggregator", "update-clip", "min-updates", "dp-noise"},
		"-aggregator krum":           {"aggregator", "byzantine", "update-clip", "min-updates", "dp-noise"},
		"-min-updates 1":             {"aggregator", "update-clip", "min-updates", "failed-round", "dp-noise"},
		"-dp-noise 1.5 -dp-clip 0.2": {"aggregator", "dp-noise", "dp-clip", "dp-delta"},
		"-regime local":              nil,
	} {
		resolved := mustParse(t, args).Resolved()
		for _, g := range experiment.FlagGroups {
			if !slices.Contains(g.Names, "aggregator") {
				continue
			}
			for _, name := range g.Names {
				if _, ok := resolved[name]; ok != slices.Contains(there, name) {
					t.Errorf("%q: -%s among the resolved settings: %v", args, name, ok)
				}
			}
		}
	}
}

// TestFederationHelp: every flag says what it does.
func TestFederationHelp(t *testing.T) {
	fs := flag.NewFlagSet("", flag.ContinueOnError)
	experiment.NewFlags(fs, experiment.Kinds[0], train.Federated)
	for _, name := range []string{"aggregator", "byzantine", "update-clip", "min-updates", "failed-round", "dp-noise", "dp-clip", "dp-delta"} {
		if f := fs.Lookup(name); f == nil || len(f.Usage) < 30 || experiment.FlagRegime(name) != train.Federated {
			t.Errorf("-%s: %+v", name, f)
		}
	}
}
