package warcraft

import (
	"math"
	"math/rand/v2"
)

const (
	// correlation is the standard deviation, in cells, of the kernel that smooths
	// the noise.
	correlation = 1.75
	// reach is the kernel's radius in cells; beyond it there is nothing left.
	reach = 6
)

// The levels at which smooth noise of mean 0 and variance 1 turns into another
// terrain. They are set so that the shares of terrains and the sizes of regions
// are like those of published maps.
const (
	waterAbove  = 0.9
	rockBelow   = -1.25
	grassAbove  = -0.35
	forestAbove = 0.4
)

// landscape draws terrains from two fields of smooth noise. The high places of
// the first are water and its low places are rock; the high places of the
// second are grass and its highest forest; the rest is dirt. As on the
// published maps, dirt lies between grass, water and rock, and grass around
// forest.
type landscape struct {
	g             int
	kernel        [2*reach + 1]float64
	white, rows   []float64
	relief, green []float64 // the two fields, [g,g]
	keep          []uint8
}

func newLandscape(g int) *landscape {
	wide := g + 2*reach
	l := &landscape{
		g: g, white: make([]float64, wide*wide), rows: make([]float64, wide*g),
		relief: make([]float64, g*g), green: make([]float64, g*g), keep: make([]uint8, g*g),
	}
	sum := 0.0
	for k := range l.kernel {
		x := float64(k-reach) / correlation
		l.kernel[k] = math.Exp(-x * x / 2)
		sum += float64(l.kernel[k] * l.kernel[k])
	}
	for k := range l.kernel { // white noise of variance 1 keeps it
		l.kernel[k] /= math.Sqrt(sum)
	}
	return l
}

// field fills dst [g,g] with smooth noise: white noise under a separable
// Gaussian kernel.
func (l *landscape) field(dst []float64, r *rand.Rand) {
	g, wide := l.g, l.g+2*reach
	for i := range l.white {
		l.white[i] = r.NormFloat64()
	}
	for y := range wide {
		for x := range g {
			l.rows[y*g+x] = l.smooth(l.white[y*wide+x:], 1)
		}
	}
	for y := range g {
		for x := range g {
			dst[y*g+x] = l.smooth(l.rows[y*g+x:], g)
		}
	}
}

// smooth returns the sum of kernel times from, one number in every step.
func (l *landscape) smooth(from []float64, step int) float64 {
	sum := 0.0
	for k, w := range l.kernel {
		sum += float64(w * from[k*step])
	}
	return sum
}

// draw fills terrain [g,g].
func (l *landscape) draw(terrain []uint8, r *rand.Rand) {
	l.field(l.relief, r)
	l.field(l.green, r)
	for v := range terrain {
		switch {
		case l.relief[v] > waterAbove:
			terrain[v] = water
		case l.relief[v] < rockBelow:
			terrain[v] = rock
		case l.green[v] > grassAbove:
			terrain[v] = grass
		default:
			terrain[v] = dirt
		}
	}
	// Dirt between what must not touch. What a cell becomes depends on what the
	// cells around it were before.
	l.each(terrain, func(v int, near func(...uint8) bool) uint8 {
		if t := terrain[v]; t == rock && near(water) || t == grass && near(water, rock) {
			return dirt
		}
		return terrain[v]
	})
	l.each(terrain, func(v int, near func(...uint8) bool) uint8 {
		if terrain[v] == grass && l.green[v] > forestAbove && !near(dirt) {
			return forest
		}
		return terrain[v]
	})
}

// each replaces the terrain of every cell by what rule returns for it; near
// says whether one of the up to eight cells around it was of one of some
// terrains.
func (l *landscape) each(terrain []uint8, rule func(v int, near func(...uint8) bool) uint8) {
	for v := range terrain {
		row, col := v/l.g, v%l.g
		l.keep[v] = rule(v, func(of ...uint8) bool {
			for y := max(row-1, 0); y <= min(row+1, l.g-1); y++ {
				for x := max(col-1, 0); x <= min(col+1, l.g-1); x++ {
					for _, t := range of {
						if terrain[y*l.g+x] == t {
							return true
						}
					}
				}
			}
			return false
		})
	}
	copy(terrain, l.keep)
}
