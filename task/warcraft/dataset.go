package warcraft

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"math"
	"slices"
)

// ErrData: maps that make no task.
var ErrData = errors.New("invalid Warcraft data")

// Dataset are the maps and how they are shared out. It is safe for concurrent
// reads.
type Dataset struct {
	cfg Config // resolved
	// maps are the pictures, [Maps, 8G, 8G, 3].
	maps []uint8
	// terrain indexes costs, [Maps, G, G].
	terrain []uint8
	// costs are those of the terrains, positive, ascending.
	costs []float64
	// origin is the folder they come from, empty for none.
	origin string
	// source is what generated them, nil for real maps.
	source *generator
}

// generator is what generated maps depend on: map i is the same for every number
// of maps.
type generator struct {
	Seed int64 `json:"seed"`
	Grid int   `json:"grid"`
}

// Config returns the resolved configuration; Maps is the number there are.
func (d *Dataset) Config() Config { return d.cfg }

// Generated says whether the maps are generated ones, read back or not.
func (d *Dataset) Generated() bool { return d.source != nil }

// Origin says where the maps come from, for people: "generated with seed 1",
// the folder, or both.
func (d *Dataset) Origin() string {
	if d.source == nil {
		return d.origin
	}
	text := fmt.Sprintf("generated with seed %d", d.source.Seed)
	if d.origin != "" {
		text = d.origin + ", " + text
	}
	return text
}

// Len is the number of maps, the test set's included.
func (d *Dataset) Len() int { return d.cfg.Maps }

// Grid is the side G of a map in cells.
func (d *Dataset) Grid() int { return d.cfg.Grid }

// Side is the side 8G of a picture in pixels.
func (d *Dataset) Side() int { return d.cfg.side() }

// RGB returns the picture of map i, [8G, 8G, 3], red first, without copying it.
func (d *Dataset) RGB(i int) []uint8 {
	n := d.cfg.mapBytes()
	return d.maps[i*n : (i+1)*n : (i+1)*n]
}

// Image returns the picture of map i.
func (d *Dataset) Image(i int) *image.RGBA {
	side := d.Side()
	img := image.NewRGBA(image.Rect(0, 0, side, side))
	for p, rgb := 0, d.RGB(i); len(rgb) > 0; p, rgb = p+1, rgb[colours:] {
		img.SetRGBA(p%side, p/side, color.RGBA{rgb[0], rgb[1], rgb[2], math.MaxUint8})
	}
	return img
}

// TerrainCosts returns the costs of the terrains in ascending order, K numbers.
// In the published maps they are those of grass, dirt, forest, water and rock.
func (d *Dataset) TerrainCosts() []float64 { return slices.Clone(d.costs) }

// Terrain returns the terrains of map i, [G, G], as indices of TerrainCosts,
// without copying them.
func (d *Dataset) Terrain(i int) []uint8 {
	n := d.cfg.cells()
	return d.terrain[i*n : (i+1)*n : (i+1)*n]
}

// Weights writes the costs of the cells of map i, [G, G], before any client's
// multipliers, to dst.
func (d *Dataset) Weights(dst []float64, i int) { spread(dst, d.Terrain(i), d.costs) }

// spread writes the cost of every cell's terrain to dst.
func spread(dst []float64, terrain []uint8, costs []float64) {
	for v, t := range terrain {
		dst[v] = costs[t]
	}
}

// maxTerrains bounds the number of different costs among the cells. The
// published maps have five terrains: with a sixth cost a cell is wrong, or the
// file holds something else. Taken for a terrain, one wrong cell would change
// what every client pays.
const maxTerrains = terrains

// classify fills terrain and costs from the costs of all cells, weights: the
// terrains are its distinct values in ascending order.
func (d *Dataset) classify(weights []float64) error {
	var costs []float64
	for i, w := range weights {
		k, known := slices.BinarySearch(costs, w)
		if known {
			continue
		}
		at := func() string {
			cell := i % d.cfg.cells()
			return fmt.Sprintf("map %d, row %d, column %d", i/d.cfg.cells(), cell/d.cfg.Grid, cell%d.cfg.Grid)
		}
		if !(w > 0) || math.IsInf(w, 1) {
			return fmt.Errorf("%s: the cost is %v, want a positive finite number", at(), w)
		}
		if len(costs) == maxTerrains {
			return fmt.Errorf("%s: the cost %v is one more than the %d before it, %v; want at most %d different ones, one for every terrain", at(), w, maxTerrains, costs, maxTerrains)
		}
		costs = slices.Insert(costs, k, w)
	}
	d.costs = costs
	d.terrain = make([]uint8, len(weights))
	for i, w := range weights {
		k, _ := slices.BinarySearch(costs, w)
		d.terrain[i] = uint8(k)
	}
	return nil
}
