package warcraft

import (
	"errors"
	"math"
	"strings"
	"testing"
)

// TestZeroConfigIsThePapers: appendix C: 44 clients, 12 x 12 cells, 10,000 maps
// with the last 2,000 as test set, terrain heterogeneity 0.6.
func TestZeroConfigIsThePapers(t *testing.T) {
	c, err := Config{}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	if c.Grid != 12 || c.Clients != 44 || c.Maps != 10000 || c.Test != 2000 || *c.Scale != 0.6 || c.PathSet != WithCycles || c.NegativeCosts != AsIs {
		t.Errorf("%+v, scale %v", c, *c.Scale)
	}
	again, err := c.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	if *again.Scale != *c.Scale {
		t.Errorf("resolved twice: scale %v", *again.Scale)
	}
	again.Scale = c.Scale
	if again != c {
		t.Errorf("resolved twice: %+v, want %+v", again, c)
	}
	if c, err := (Config{Grid: 30}).Resolve(); err != nil || c.Clients != 116 {
		t.Errorf("30 x 30: %d clients, error %v, want the 116 cells of the border", c.Clients, err)
	}
	if c, err := (Config{PathSet: DAG}).Resolve(); err != nil || c.NegativeCosts != Exact {
		t.Errorf("DAG: %q, error %v, want exact", c.NegativeCosts, err)
	}
	if c, err := (Config{Scale: new(0.0)}).Resolve(); err != nil || *c.Scale != 0 {
		t.Errorf("scale 0: %v, error %v", *c.Scale, err)
	}
}

func TestConfigIsChecked(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Grid: 13}, "grid is 13"},
		{Config{Clients: -1}, "clients is -1"},
		{Config{Clients: 45}, "clients is 45, want 1 to 44"},
		{Config{Scale: new(-0.1)}, "scale is -0.1"},
		{Config{Scale: new(math.NaN())}, "scale is NaN"},
		{Config{Scale: new(math.Inf(1))}, "scale is +Inf"},
		{Config{Maps: -1}, "maps is -1"},
		{Config{Maps: 310690}, "maps is 310690, want 1 to 310689"},
		{Config{Grid: 30, Maps: 100000}, "maps is 100000, want 1 to 49710"},
		{Config{Maps: 100, Test: 57}, "at least one map left for each of 44 clients"},
		{Config{Test: -2}, "test is -2"},
		{Config{PathSet: "tree"}, `path_set is "tree"`},
		{Config{NegativeCosts: "clip"}, `negative_costs is "clip"`},
		{Config{PathSet: DAG, NegativeCosts: AsIs}, "exact for costs of any sign"},
	} {
		_, err := Generate(c.cfg)
		if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want ErrConfig with %q", c.cfg, err, c.want)
		}
	}
}
