package warcraft

import (
	"math"
	"math/rand/v2"
)

// painter draws pictures. It works in integers, so that a picture has the same
// bytes on every machine.
type painter struct {
	g   int
	art *art
	// light is the brightness at the corners of the cells, [g+1, g+1], in parts of full.
	light []int
	tile  []uint8 // the variant of every cell
}

func newPainter(g int, a *art) *painter {
	return &painter{g: g, art: a, light: make([]int, (g+1)*(g+1)), tile: make([]uint8, g*g)}
}

const (
	// full is the light under which colours are those of the art.
	full = 256
	// lightSpread is how much brighter or darker, in parts of full, a corner of a cell
	// may be than the art.
	lightSpread = 36
	// tileSpread is the same for a whole cell.
	tileSpread = 12
)

// patchy multiplies the light's deviation: meadows have dark patches, in which
// they look like forest.
var patchy = [terrains]int{grass: 3, dirt: 1, forest: 1, water: 1, rock: 1}

// draw paints the picture [8g, 8g, 3] of terrain [g, g]: for every cell one of
// the terrain's tiles, under a light that varies smoothly, plus a little from
// cell to cell. Where terrains meet, the border is ragged, and soft: the mean of
// two ragged borders.
func (p *painter) draw(dst []uint8, terrain []uint8, r *rand.Rand) {
	for i := range p.light {
		p.light[i] = full + r.IntN(2*lightSpread+1) - lightSpread
	}
	for v := range p.tile {
		p.tile[v] = uint8(r.IntN(variants))
	}
	for v := range terrain {
		bits := r.Uint64()
		p.cell(dst, terrain, v, bits)
	}
}

// cell paints cell v; bits are random.
func (p *painter) cell(dst []uint8, terrain []uint8, v int, bits uint64) {
	g := p.g
	row, col := v/g, v%g
	own := terrain[v]
	texture := &p.art.tiles[own][p.tile[v]]
	first, second := &p.art.edges[bits%edges], &p.art.edges[bits>>8%edges]
	shade := int(bits>>16%(2*tileSpread+1)) - tileSpread
	inner, patch := p.inner(terrain, row, col), patchy[own]
	stride := g * pixels * colours
	for y := range pixels {
		at := (row*pixels+y)*stride + col*pixels*colours
		line := dst[at : at+pixels*colours : at+pixels*colours]
		// The light at this height, left and right of the cell.
		corner := row*(g+1) + col
		left := p.light[corner]*(pixels-y) + p.light[corner+g+1]*y
		right := p.light[corner+1]*(pixels-y) + p.light[corner+g+2]*y
		for x := range pixels {
			i := y*pixels + x
			light := full + patch*((left*(pixels-x)+right*x)/tilePixels-full) + shade
			colour := texture[i]
			if !inner {
				a := p.shown(terrain, row, col, i, first)
				b := p.shown(terrain, row, col, i, second)
				if a != own || b != own {
					ca, cb := &p.art.tiles[a][p.tile[v]][i], &p.art.tiles[b][p.tile[v]][i]
					for c := range colour {
						colour[c] = (ca[c] + cb[c]) / 2
					}
				}
			}
			for c := range colour {
				line[x*colours+c] = uint8(max(0, min(math.MaxUint8, colour[c]*light/full)))
			}
		}
	}
}

// inner says whether all cells around a cell are of its terrain.
func (p *painter) inner(terrain []uint8, row, col int) bool {
	own := terrain[row*p.g+col]
	for y := max(row-1, 0); y <= min(row+1, p.g-1); y++ {
		for x := max(col-1, 0); x <= min(col+1, p.g-1); x++ {
			if terrain[y*p.g+x] != own {
				return false
			}
		}
	}
	return true
}

// shown returns the terrain at pixel i of a cell, displaced by e.
func (p *painter) shown(terrain []uint8, row, col, i int, e *edge) uint8 {
	side := p.g * pixels
	y := max(0, min(side-1, row*pixels+i/pixels+int(e[i][0])))
	x := max(0, min(side-1, col*pixels+i%pixels+int(e[i][1])))
	return terrain[y/pixels*p.g+x/pixels]
}
