package warcraft

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrConfig: a Config that makes no task.
var ErrConfig = errors.New("invalid Warcraft configuration")

// PathSet says which relaxation of the paths is the feasible set.
type PathSet string

const (
	// WithCycles is the paper's set (section 3.4): unit flows from source to
	// sink, which may have cycles apart from the path.
	WithCycles PathSet = "with_cycles"
	// DAG has no cycles: its paths never turn back (dijkstra.Config.Acyclic).
	DAG PathSet = "dag"
)

// NegativeCosts says what the linear minimiser does with costs below zero, at
// which spo+, pfyl and dpo ask for decisions. True costs are positive.
type NegativeCosts string

const (
	// AsIs runs Dijkstra's algorithm regardless, as the paper does: the answer is
	// a path, though not always the best one. Only for WithCycles.
	AsIs NegativeCosts = "as_is"
	// Exact minimises over the whole feasible set. Under WithCycles the answer
	// includes every cycle that pays; under DAG every answer is exact anyway.
	Exact NegativeCosts = "exact"
)

const (
	// pixels is the side of a cell in the picture.
	pixels = 8
	// colours of a pixel: red, green, blue.
	colours = 3
	// maxBytes bounds the pictures of a dataset, so that a slip in the number of
	// maps is an error and not an attempt to reserve all memory.
	maxBytes int64 = 8 << 30
	// maxScale bounds the terrain heterogeneity: beyond it, exp(s z) says nothing
	// about maps any more.
	maxScale = 5
)

// grids are the sides of the published maps.
var grids = []int{12, 18, 24, 30}

// Config are the choices of the task. The zero value of every field but Seed
// stands for the paper's choice (appendix C).
type Config struct {
	// Seed seeds every draw: the clients' maps, their terrain costs and, where
	// they are generated, the maps.
	Seed int64 `json:"seed"`
	// Grid is the side G of a map in cells, 12, 18, 24 or 30; 0 means 12.
	Grid int `json:"grid"`
	// Clients is their number N. Client j goes from the j-th of the 4(G-1)
	// cells of the border, clockwise from the top left, to its antipode; 0 means
	// all of them, 44 for 12 x 12.
	Clients int `json:"clients"`
	// Scale is s of the clients' terrain costs, weight exp(s z): 0 gives all
	// clients the map's costs; at most 5; nil means 0.6.
	Scale *float64 `json:"scale"`
	// Maps is the number of maps: 0 means 10000 or, for loaded data, all there
	// are. Loaded data of more are cut after the first Maps.
	Maps int `json:"maps"`
	// Test is how many of the last maps are the benchmark test set, which no
	// client trains on; 0 means 2000.
	Test int `json:"test"`
	// PathSet is the feasible set; empty means WithCycles.
	PathSet PathSet `json:"path_set"`
	// NegativeCosts is the policy of the linear minimiser; empty means AsIs, or
	// Exact under DAG.
	NegativeCosts NegativeCosts `json:"negative_costs"`
}

// The paper's sizes.
const (
	defaultMaps  = 10_000
	defaultTest  = 2_000
	defaultScale = 0.6
)

// Resolve returns c with its zero values replaced by what they stand for. It
// returns an error wrapping ErrConfig if a field is out of its range.
func (c Config) Resolve() (Config, error) {
	fail := func(format string, args ...any) (Config, error) {
		return c, fmt.Errorf("%s: %w", fmt.Sprintf(format, args...), ErrConfig)
	}
	if c.Grid == 0 {
		c.Grid = grids[0]
	}
	if !slices.Contains(grids, c.Grid) {
		return fail("grid is %d, want one of %v", c.Grid, grids)
	}
	if c.Clients == 0 {
		c.Clients = border(c.Grid)
	}
	if c.Clients < 1 || c.Clients > border(c.Grid) {
		return fail("clients is %d, want 1 to %d, the cells of the border of a %d x %d grid", c.Clients, border(c.Grid), c.Grid, c.Grid)
	}
	scale := defaultScale
	if c.Scale != nil {
		scale = *c.Scale
	}
	if !(scale >= 0 && scale <= maxScale) { // NaN fails
		return fail("scale is %v, want a number in [0, %d]", scale, maxScale)
	}
	c.Scale = &scale
	if c.Maps == 0 {
		c.Maps = defaultMaps
	}
	if c.Test == 0 {
		c.Test = defaultTest
	}
	if c.Maps < 0 || c.Maps > c.maxMaps() {
		return fail("maps is %d, want 1 to %d", c.Maps, c.maxMaps())
	}
	if c.Test < 1 || c.Test > c.Maps-c.Clients {
		return fail("test is %d of %d maps, want at least 1 and at least one map left for each of %d clients", c.Test, c.Maps, c.Clients)
	}
	switch c.PathSet {
	case "":
		c.PathSet = WithCycles
	case WithCycles, DAG:
	default:
		return fail("path_set is %q, want %q or %q", c.PathSet, WithCycles, DAG)
	}
	switch c.NegativeCosts {
	case "":
		c.NegativeCosts = AsIs
		if c.PathSet == DAG {
			c.NegativeCosts = Exact
		}
	case AsIs:
		if c.PathSet == DAG {
			return fail("negative_costs is %q, but paths of the set %q are exact for costs of any sign; want %q or nothing", AsIs, DAG, Exact)
		}
	case Exact:
	default:
		return fail("negative_costs is %q, want %q or %q", c.NegativeCosts, AsIs, Exact)
	}
	return c, nil
}

// border is the number of cells on the border of a grid of side g.
func border(g int) int { return 4 * (g - 1) }

// side is the side of a picture in pixels.
func (c Config) side() int { return pixels * c.Grid }

// cells is the number of cells of a map.
func (c Config) cells() int { return c.Grid * c.Grid }

// mapBytes is the size of a picture.
func (c Config) mapBytes() int { return c.side() * c.side() * colours }

// maxMaps is the largest number of maps of the grid.
func (c Config) maxMaps() int { return int(min(maxBytes, math.MaxInt) / int64(c.mapBytes())) }
