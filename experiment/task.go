// Package experiment knows every task by name, the paper's protocol for each,
// and how to run a setting over losses and seeds. It is the one place where
// hyper-parameters stand as data.
package experiment

import (
	"fmt"
	"slices"
	"strings"

	"fedrspo/nn"
	"fedrspo/surrogate"
	"fedrspo/task"
	"fedrspo/train"
)

// Kinds lists the tasks in the order help texts show them.
var Kinds = []Kind{knapsackKind, warcraftKind, pjmKind}

// Kind is a task the module knows.
type Kind struct {
	// Name on the command line, Summary for help texts.
	Name, Summary string
	// Data has the choices of the paper's data.
	Data Data
	// DataFlags are the settings flags that shape the task's data; the other
	// ones in DataFlags have no effect. DirFlags are those of them that also
	// shape data that are loaded.
	DataFlags, DirFlags []string
	// Models are the networks that fit the task; the first is the paper's.
	Models []string
	// Small, unless nil, is less data and a shorter protocol for a first look:
	// what runs when no data are named.
	Small *Small
	// Seeded: also data that are loaded depend on the seed.
	Seeded bool
	// Alignment: a table of the paper asks how far regularised and linear
	// decisions are apart on this task.
	Alignment bool
	// Check reports settings of the data that are out of range, without
	// generating or loading.
	Check func(Data) error
	// Describe says which data they are.
	Describe func(Data) string
	// Load generates or reads the data.
	Load func(Data) (*task.Task, error)
	// Export writes the data as files of the format that Data.Dir reads.
	Export func(d Data, dir string) error
	// Defaults is the paper's protocol (appendix C), for any regime. Loss,
	// model, seed and workers are left to the caller.
	Defaults func(train.Regime) train.Config
}

// Small is less data with a shorter protocol.
type Small struct {
	// Data has the sizes of the data.
	Data Data
	// Shorten makes the protocol fit them.
	Shorten func(*train.Config)
	// Note says what they are, and what there is instead.
	Note string
}

// isSmall says whether d are the kind's small data.
func (k Kind) isSmall(d Data) bool {
	return k.Small != nil && d.Dir == "" && (d.Maps == 0 || d.Maps == k.Small.Data.Maps)
}

// resolve returns d with the sizes it does not name.
func (k Kind) resolve(d Data) Data {
	switch {
	case k.isSmall(d):
		return d.orElse(k.Small.Data)
	case d.Maps > 0 && d.Test == 0:
		d.Test = max(1, d.Maps/testShare)
	}
	return d.orElse(k.Data)
}

// protocol is the paper's protocol for data d, or that of the small data.
func (k Kind) protocol(d Data, regime train.Regime) train.Config {
	c := k.Defaults(regime)
	if k.isSmall(d) {
		k.Small.Shorten(&c)
	}
	return c
}

// ByName returns the task of that name.
func ByName(name string) (Kind, error) {
	names := make([]string, len(Kinds))
	for i, k := range Kinds {
		if k.Name == name {
			return k, nil
		}
		names[i] = k.Name
	}
	return Kind{}, fmt.Errorf("unknown task %q, want one of %s", name, strings.Join(names, ", "))
}

// LossNames lists the losses for help texts.
func LossNames() []string { return surrogate.Names() }

// Regularized says whether one of the losses has a λ, so that calibration,
// annealing and freezing apply.
func Regularized(losses []surrogate.Loss) bool {
	return slices.ContainsFunc(losses, surrogate.Loss.Regularized)
}

// Losses parses a comma list of loss names.
func Losses(list string) ([]surrogate.Loss, error) {
	var out []surrogate.Loss
	for _, name := range strings.Split(list, ",") {
		l, err := surrogate.ByName(strings.TrimSpace(name))
		if err != nil {
			return nil, err
		}
		for _, o := range out {
			if o == l {
				return nil, fmt.Errorf("loss %q is named twice", l.Name())
			}
		}
		out = append(out, l)
	}
	return out, nil
}

// protocol is what the paper's protocols have in common (appendix C).
func protocol(regime train.Regime) train.Config {
	return train.Config{
		Regime:      regime,
		Batch:       64,
		Adam:        nn.Adam{Clip: 1},
		Rates:       train.RatePaper,
		Calibration: train.Calibration{Fallback: 1},
	}
}
