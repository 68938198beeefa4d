package warcraft

import (
	"math/rand/v2"

	"fedrspo/internal/stream"
)

const (
	// variants is the number of tiles of a terrain.
	variants = 16
	// edges is the number of ragged edges.
	edges = 32
	// tilePixels is the number of pixels of a tile.
	tilePixels = pixels * pixels
)

type rgb [colours]int

// tile is the picture of a cell, [8, 8].
type tile [tilePixels]rgb

// edge displaces the pixels of a cell: where terrains meet, pixel (y, x) shows
// the terrain of the place (y, x) plus its displacement (dy, dx).
type edge [tilePixels][2]int8

// art is what pictures are made of. It is the same for every seed: all datasets
// show one world.
type art struct {
	tiles [terrains][variants]tile
	edges [edges]edge
}

// palette are the colours of the terrains away from their edges. With the
// neighbours that show at the edges the mean colours of their cells are those
// of the published maps: (51,80,10), (102,65,8), (17,80,8), (10,53,100) and
// (72,72,72).
var palette = [terrains]rgb{grass: {44, 83, 11}, dirt: {111, 66, 4}, forest: {14, 89, 9}, water: {2, 53, 111}, rock: {72, 77, 81}}

func newArt() *art {
	a := new(art)
	draw := [terrains]func(*tile, rgb, *rand.Rand){grass: speckle(7), dirt: speckle(5), forest: crowns, water: ripples, rock: boulders}
	for t := range a.tiles {
		for v := range a.tiles[t] {
			r := stream.New(stream.Key{Purpose: "warcraft/art", Round: t, Epoch: v})
			draw[t](&a.tiles[t][v], palette[t], r)
		}
	}
	for k := range a.edges {
		r := stream.New(stream.Key{Purpose: "warcraft/edge", Round: k})
		a.edges[k].draw(r)
	}
	return a
}

// paint sets pixel p to base times light percent, with grain of its own.
func (t *tile) paint(p int, base rgb, light, grain int, r *rand.Rand) {
	g := r.IntN(2*grain+1) - grain
	for c := range base {
		t[p][c] = base[c]*light/100 + g*base[c]/100
	}
}

// speckle draws ground with spots: pixels up to spread percent lighter or
// darker, in clumps.
func speckle(spread int) func(*tile, rgb, *rand.Rand) {
	return func(t *tile, base rgb, r *rand.Rand) {
		var clump [tilePixels / 4]int
		for i := range clump {
			clump[i] = r.IntN(2*spread+1) - spread
		}
		for p := range t {
			y, x := p/pixels, p%pixels
			t.paint(p, base, 100+clump[y/2*(pixels/2)+x/2], spread, r)
		}
	}
}

// crowns draws two rows of tree tops, lit from the left above, with dark ground
// between.
func crowns(t *tile, base rgb, r *rand.Rand) {
	shift := r.IntN(2)
	for p := range t {
		y, x := p/pixels, p%pixels
		row := y / 4
		// Place within a crown, in half pixels from its centre.
		dy, dx := 2*(y%4)-3, 2*((x+2*row+shift)%4)-3
		light := 105 - 9*dy - 7*dx
		if dy*dy+dx*dx > 13 {
			light = 45
		}
		t.paint(p, base, light, 14, r)
	}
}

// ripples draws waves, flat lines that start anywhere.
func ripples(t *tile, base rgb, r *rand.Rand) {
	phase := r.IntN(pixels)
	for p := range t {
		y, x := p/pixels, p%pixels
		light := 97
		if y%3 == phase%3 && (x+2*y+phase)%pixels < 5 {
			light = 106
		}
		t.paint(p, base, light, 3, r)
	}
}

// boulders draws rocks in a slanting row, light above and nearly black below.
func boulders(t *tile, base rgb, r *rand.Rand) {
	shift := r.IntN(pixels)
	for p := range t {
		y, x := p/pixels, p%pixels
		depth := (x + 2*y + shift) % pixels // across the slanting cracks
		light := 150 - 14*depth
		if (y+x/3+shift)%5 == 4 {
			light -= 25
		}
		t.paint(p, base, light, 16, r)
	}
}

// reachPixels is the largest displacement of an edge: less than half a cell, so
// that the middle of a cell shows its own terrain.
const reachPixels = 3

// draw makes displacements at the corners, the middles and the centre of a
// cell, and interpolates, with a pixel's noise.
func (e *edge) draw(r *rand.Rand) {
	var knots [9][2]int
	for k := range knots {
		for c := range knots[k] {
			knots[k][c] = 4 * (r.IntN(2*reachPixels+1) - reachPixels)
		}
	}
	for p := range e {
		y, x := p/pixels, p%pixels
		at := func(c int) int8 {
			k := y/4*3 + x/4
			fy, fx := y%4, x%4
			top := knots[k][c]*(4-fx) + knots[k+1][c]*fx
			bottom := knots[k+3][c]*(4-fx) + knots[k+4][c]*fx
			d := (top*(4-fy)+bottom*fy)/64 + r.IntN(3) - 1
			return int8(max(-reachPixels, min(reachPixels, d)))
		}
		e[p] = [2]int8{at(0), at(1)}
	}
}
