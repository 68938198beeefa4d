package warcraft

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"fedrspo/internal/stream"
)

// The terrains, in the order of their costs.
const (
	grass = iota
	dirt
	forest
	water
	rock
	terrains
)

// publishedCosts are the costs of the published maps, which are stored in half
// precision: 0.8, 1.2, 5.3, 7.7 and 9.2, rounded to it.
var publishedCosts = [terrains]float64{0.7998046875, 1.2001953125, 5.30078125, 7.69921875, 9.203125}

// Generate draws maps like the published ones: their five terrains and costs,
// in regions of similar shares, sizes and neighbourhoods, and pictures in which
// every terrain has a texture and a mean colour like theirs. The textures are
// our own.
//
// Every map has a random stream of its own: map i is the same whatever the
// number of maps and of processors. The error wraps ErrConfig.
func Generate(cfg Config) (*Dataset, error) {
	cfg, err := cfg.Resolve()
	if err != nil {
		return nil, err
	}
	d := &Dataset{
		cfg:     cfg,
		maps:    make([]uint8, cfg.Maps*cfg.mapBytes()),
		terrain: make([]uint8, cfg.Maps*cfg.cells()),
		costs:   slices.Clone(publishedCosts[:]),
		source:  &generator{cfg.Seed, cfg.Grid},
	}
	family := stream.NewFamily(stream.Key{Seed: cfg.Seed, Purpose: "warcraft/map"})
	art := newArt()
	const chunk = 16
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), (cfg.Maps+chunk-1)/chunk) {
		wg.Go(func() {
			r := stream.NewStream()
			land := newLandscape(cfg.Grid)
			paint := newPainter(cfg.Grid, art)
			for {
				from := int(next.Add(chunk)) - chunk
				if from >= cfg.Maps {
					return
				}
				for i := from; i < min(from+chunk, cfg.Maps); i++ {
					family.Open(r, i)
					land.draw(d.Terrain(i), r.Rand)
					paint.draw(d.RGB(i), d.Terrain(i), r.Rand)
				}
			}
		})
	}
	wg.Wait()
	return d, nil
}
