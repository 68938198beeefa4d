package warcraft

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math"
	"runtime"
	"slices"
	"testing"
)

// TestGenerateIsDeterministic: neither the number of processors nor that of maps
// changes a map, and another seed changes all.
func TestGenerateIsDeterministic(t *testing.T) {
	want := generate(t, small(5))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	for _, procs := range []int{1, 3} {
		runtime.GOMAXPROCS(procs)
		cfg := small(5)
		cfg.Maps += 7 * procs
		got := generate(t, cfg)
		if !bytes.Equal(got.maps[:len(want.maps)], want.maps) || !bytes.Equal(got.terrain[:len(want.terrain)], want.terrain) {
			t.Errorf("%d processors: other maps", procs)
		}
	}
	other := generate(t, small(6))
	for i := range want.Len() {
		if bytes.Equal(other.RGB(i), want.RGB(i)) || bytes.Equal(other.Terrain(i), want.Terrain(i)) {
			t.Errorf("map %d is the same with another seed", i)
		}
	}
}

// TestGenerateGolden: generated maps are part of published results; a change of
// the generator must be meant.
func TestGenerateGolden(t *testing.T) {
	d := generate(t, Config{Seed: 42, Clients: 1, Maps: 40, Test: 1})
	h := sha256.New()
	h.Write(d.maps)
	h.Write(d.terrain)
	const want = "53470820680c9a11b0860144de3d7daa57aa97dbb86124395e0222c7a8daeab3"
	if got := hex.EncodeToString(h.Sum(nil)); got != want {
		t.Errorf("maps %s, want %s", got, want)
	}
}

// statistics of maps that a network and a path meet.
type statistics struct {
	share  [terrains]float64
	colour [terrains]rgbMean
	// touch counts pairs of cells that share an edge, by their terrains.
	touch [terrains][terrains]int
	// same is the share of pairs of equal terrain; regions are those of equal
	// terrain joined along edges, a map.
	same, regions float64
	// pixels and cells are the shares whose colour, or mean colour, is nearest to
	// the published mean colour of their own terrain: how much of a map can be
	// told without looking at shapes.
	pixels, cells float64
}

type rgbMean [colours]float64

func measure(d *Dataset) (s statistics) {
	g, side := d.Grid(), d.Side()
	pairs, cells := 0.0, float64(d.Len()*g*g)
	for i := range d.Len() {
		terrain, picture := d.Terrain(i), d.RGB(i)
		for v, t := range terrain {
			s.share[t] += 1 / cells
			var whole rgbMean
			for y := range pixels {
				for x := range pixels {
					at := ((v/g*pixels+y)*side + v%g*pixels + x) * colours
					for c := range colours {
						s.colour[t][c] += float64(picture[at+c])
						whole[c] += float64(picture[at+c]) / tilePixels
					}
					if nearest(rgbMean{float64(picture[at]), float64(picture[at+1]), float64(picture[at+2])}) == t {
						s.pixels += 1 / (cells * tilePixels)
					}
				}
			}
			if nearest(whole) == t {
				s.cells += 1 / cells
			}
			for _, u := range []int{v + 1, v + g} {
				if u == v+1 && u%g == 0 || u >= g*g {
					continue
				}
				a, b := min(t, terrain[u]), max(t, terrain[u])
				s.touch[a][b]++
				pairs++
			}
		}
		s.regions += float64(countRegions(terrain, g)) / float64(d.Len())
	}
	for t := range terrains {
		s.same += float64(s.touch[t][t]) / pairs
		for c := range colours {
			s.colour[t][c] /= s.share[t] * cells * tilePixels
		}
	}
	return s
}

// nearest returns the terrain with the published mean colour nearest to x.
func nearest(x rgbMean) (best uint8) {
	least := math.Inf(1)
	for k, mean := range publishedColours {
		d := 0.0
		for c := range mean {
			d += (x[c] - mean[c]) * (x[c] - mean[c])
		}
		if d < least {
			least, best = d, uint8(k)
		}
	}
	return best
}

func countRegions(terrain []uint8, g int) int {
	seen := make([]bool, len(terrain))
	n := 0
	for from := range terrain {
		if seen[from] {
			continue
		}
		n++
		seen[from] = true
		for stack := []int{from}; len(stack) > 0; {
			v := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			for _, step := range []int{-g, -1, 1, g} {
				u := v + step
				if u < 0 || u >= len(terrain) || step*step == 1 && u/g != v/g || seen[u] || terrain[u] != terrain[from] {
					continue
				}
				seen[u] = true
				stack = append(stack, u)
			}
		}
	}
	return n
}

// publishedColours are the mean colours of the terrains' cells on published
// maps.
var publishedColours = [terrains]rgbMean{{51, 80, 10}, {102, 65, 8}, {17, 80, 8}, {10, 53, 100}, {72, 72, 72}}

// TestGeneratedColours: the mean colours of cells are the published ones up to
// four levels of 255, far less than the colours vary within a cell.
func TestGeneratedColours(t *testing.T) {
	s := measure(generate(t, Config{Seed: 1, Maps: 300, Test: 1}))
	for k, want := range publishedColours {
		for c := range want {
			if math.Abs(s.colour[k][c]-want[c]) > 4 {
				t.Errorf("terrain %d: mean colour %.1f, want about %v", k, s.colour[k], want)
				break
			}
		}
	}
}

// TestTexture: no two cells are the same, and the values of one colour do not tell
// any terrain from the others.
func TestTexture(t *testing.T) {
	d := generate(t, Config{Seed: 2, Maps: 60, Test: 1})
	seen := map[string]int{}
	for i := range d.Len() {
		for v := range d.Terrain(i) {
			seen[string(cellPixels(d, i, v))]++
		}
	}
	for cell, n := range seen {
		if n > 1 {
			t.Fatalf("%d cells have the same %d bytes", n, len(cell))
		}
	}
	// Every terrain's green overlaps with that of another.
	var low, high [terrains]uint8
	for k := range low {
		low[k] = math.MaxUint8
	}
	for i := range d.Len() {
		for v, k := range d.Terrain(i) {
			for p, x := range cellPixels(d, i, v) {
				if p%colours == 1 {
					low[k], high[k] = min(low[k], x), max(high[k], x)
				}
			}
		}
	}
	if slices.Max(low[:]) >= slices.Min(high[:]) {
		t.Errorf("green from %v to %v: a terrain stands apart", low, high)
	}
}

func cellPixels(d *Dataset, i, v int) []uint8 {
	g, side := d.Grid(), d.Side()
	var out []uint8
	for y := range pixels {
		at := ((v/g*pixels+y)*side + v%g*pixels) * colours
		out = append(out, d.RGB(i)[at:at+pixels*colours]...)
	}
	return out
}

func BenchmarkGenerate(b *testing.B) {
	for b.Loop() {
		generate(b, Config{Seed: 1, Maps: 1000, Test: 1})
	}
	b.ReportMetric(1000*float64(b.N)/b.Elapsed().Seconds(), "maps/s")
}
