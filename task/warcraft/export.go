package warcraft

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"fedrspo/internal/atomicfile"
	"fedrspo/internal/npy"
	"fedrspo/oracle/dijkstra"
)

// ErrFolder: Export will not write to a folder that holds something.
var ErrFolder = errors.New("the folder is not empty")

// Export writes the maps to a folder in the format of the published files, which
// Load reads back bit for bit: pictures, weights, shortest paths from the top
// left to the bottom right under these weights, and info.json. Grids beyond
// 12 x 12 are written in two parts, as published. The folder is created if need
// be and must be empty (ErrFolder).
//
// Each file is written atomically, and the pictures last: an export that was cut
// short is not taken for a dataset.
func (d *Dataset) Export(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if entries, err := os.ReadDir(dir); err != nil {
		return err
	} else if len(entries) > 0 {
		return fmt.Errorf("export to %s: %w: it holds %s; choose another folder", dir, ErrFolder, entries[0].Name())
	}
	if err := d.exportInfo(dir); err != nil {
		return err
	}
	type part struct{ number, from, to int }
	all := []part{{-1, 0, d.Len()}}
	if half := d.Len() / 2; d.Grid() > grids[0] {
		all = []part{{0, 0, half}, {1, half, d.Len()}}
	}
	for _, kind := range []string{pathsFile, weightsFile, mapsFile} {
		for _, p := range all {
			err := atomicfile.WriteFile(filepath.Join(dir, fileName(trainSplit, kind, p.number)), func(w io.Writer) error {
				return d.exportKind(w, kind, p.from, p.to)
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// exportKind writes a file of the maps from to to-1.
func (d *Dataset) exportKind(w io.Writer, kind string, from, to int) error {
	g, n, cells := d.Grid(), to-from, d.cfg.cells()
	switch kind {
	case mapsFile:
		return npy.WriteUint8(w, d.maps[from*d.cfg.mapBytes():to*d.cfg.mapBytes()], n, d.Side(), d.Side(), colours)
	case weightsFile:
		weights := make([]float64, n*cells)
		spread(weights, d.terrain[from*cells:to*cells], d.costs)
		return npy.WriteFloat64(w, npy.Narrowest(d.costs), weights, n, g, g)
	}
	paths, err := d.labels(from, to)
	if err != nil {
		return err
	}
	return npy.WriteUint8(w, paths, n, g, g)
}

// labels returns the shortest paths of the maps from to to-1 from the top left
// to the bottom right, [to-from, G, G].
func (d *Dataset) labels(from, to int) ([]uint8, error) {
	g, cells := d.Grid(), d.cfg.cells()
	grid, err := dijkstra.NewGrid(dijkstra.Config{Height: g, Width: g, Sink: dijkstra.Cell{Row: g - 1, Col: g - 1}})
	if err != nil {
		return nil, err
	}
	solver := grid.NewLinear()
	out := make([]uint8, 0, (to-from)*cells)
	theta, path := make([]float64, cells), make([]float64, cells)
	for i := from; i < to; i++ {
		d.Weights(theta, i)
		if _, err := solver.Solve(path, theta); err != nil {
			return nil, fmt.Errorf("map %d: %w", i, err)
		}
		for _, x := range path {
			out = append(out, uint8(x))
		}
	}
	return out, nil
}

// exportInfo writes info.json.
func (d *Dataset) exportInfo(dir string) error {
	none, i := 0, info{Generator: d.source}
	i.Params.PixelsPerCell = new(pixels)
	i.Params.Train, i.Params.Val, i.Params.Test = &setNum{&d.cfg.Maps}, &setNum{&none}, &setNum{&none}
	text, err := json.MarshalIndent(i, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.WriteFile(filepath.Join(dir, infoFile), func(w io.Writer) error {
		_, err := w.Write(append(text, '\n'))
		return err
	})
}
