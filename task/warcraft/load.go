package warcraft

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"fedrspo/internal/npy"
)

// Load reads the published files of Vlastelica et al. (2020), or those that
// Export wrote. dir holds train_maps.npy and train_vertex_weights.npy, whole or
// in two parts (train_maps_part0.npy and so on), or it is the folder above them:
// of the folders 12x12 and so on, or of the archive's
// warcraft_shortest_path_oneskin. The task is made of the train files only, as
// the paper's is; the archive's val and test files are not read.
//
// Pictures are uint8 [n, 8G, 8G, 3]; weights float16, float32 or float64
// [n, G, G], at most 5 different ones, positive; both in any order that npy
// has. The paths uint8 [n, G, G] and info.json may be missing; if they are there
// their sizes are checked. The error wraps ErrConfig, ErrFormat or
// npy.ErrFormat, unless the system refuses.
func Load(dir string, cfg Config) (*Dataset, error) {
	all := cfg.Maps == 0
	if all { // until the files say how many there are
		cfg.Maps = Config{Grid: grids[len(grids)-1]}.maxMaps()
	}
	resolved, err := cfg.Resolve()
	if err != nil {
		return nil, err
	}
	place, err := locate(dir, resolved.Grid)
	if err != nil {
		return nil, err
	}
	d, err := readSplit(place, trainSplit, resolved.Grid)
	if err != nil {
		return nil, err
	}
	d.origin = dir
	have := d.cfg.Maps
	if all {
		cfg.Maps = have
	}
	if cfg.Maps > have {
		return nil, fmt.Errorf("%s: %w: maps is %d, but there are %d", place, ErrConfig, cfg.Maps, have)
	}
	if d.cfg, err = cfg.Resolve(); err != nil {
		return nil, fmt.Errorf("%s: %w", place, err)
	}
	d.maps = d.maps[:d.cfg.Maps*d.cfg.mapBytes()]
	d.terrain = d.terrain[:d.cfg.Maps*d.cfg.cells()]
	return d, nil
}

// readSplit reads all maps of a split. Of the configuration only Grid and Maps
// are set.
func readSplit(dir, split string, g int) (*Dataset, error) {
	found, err := parts(dir, split)
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, badFile(dir, "no %s", fileName(split, mapsFile, -1))
	}
	s := &splitReader{dir: dir, split: split, cfg: Config{Grid: g}}
	defer s.close()
	for _, k := range found {
		if err := s.open(k); err != nil {
			return nil, err
		}
	}
	// No bytes are read before all headers and sizes are known to fit.
	description, err := readInfo(dir)
	if err != nil {
		return nil, err
	}
	if err := description.check(dir, split, s.cfg.Maps); err != nil {
		return nil, err
	}
	d := &Dataset{cfg: s.cfg, source: description.Generator, maps: make([]uint8, s.cfg.Maps*s.cfg.mapBytes())}
	weights := make([]float64, s.cfg.Maps*s.cfg.cells())
	from := 0
	for _, p := range s.parts {
		to := from + p.n
		if err := p.maps.ReadUint8(d.maps[from*s.cfg.mapBytes() : to*s.cfg.mapBytes()]); err != nil {
			return nil, err
		}
		if err := p.weights.ReadFloat64(weights[from*s.cfg.cells() : to*s.cfg.cells()]); err != nil {
			return nil, err
		}
		from = to
	}
	if err := d.classify(weights); err != nil {
		return nil, badFile(filepath.Join(dir, fileName(split, weightsFile, found[0])), "%v", err)
	}
	return d, nil
}

// splitReader opens the files of a split.
type splitReader struct {
	dir, split string
	cfg        Config // Grid, and the Maps of the parts so far
	parts      []splitPart
	files      []*npy.File
}

type splitPart struct {
	maps, weights *npy.File
	n             int
}

func (s *splitReader) close() {
	for _, f := range s.files {
		f.Close()
	}
}

// open opens part k and checks its headers.
func (s *splitReader) open(k int) error {
	side, g := s.cfg.side(), s.cfg.Grid
	maps, err := s.file(mapsFile, k, []npy.Type{npy.Uint8}, -1, side, side, colours)
	if err != nil {
		return err
	}
	n := maps.Header().Shape[0]
	weights, err := s.file(weightsFile, k, []npy.Type{npy.Float16, npy.Float32, npy.Float64}, n, g, g)
	if err != nil {
		return err
	}
	paths := fileName(s.split, pathsFile, k)
	if ok, err := exists(filepath.Join(s.dir, paths)); err != nil {
		return err
	} else if ok {
		if _, err := s.file(pathsFile, k, []npy.Type{npy.Uint8}, n, g, g); err != nil {
			return err
		}
	}
	s.parts = append(s.parts, splitPart{maps, weights, n})
	if s.cfg.Maps += n; s.cfg.Maps > s.cfg.maxMaps() {
		return badFile(filepath.Join(s.dir, fileName(s.split, mapsFile, k)), "%d maps, want at most %d", s.cfg.Maps, s.cfg.maxMaps())
	}
	return nil
}

// file opens a file that must hold one of some types, and n arrays of a shape;
// n < 0 is any number but none.
func (s *splitReader) file(kind string, part int, types []npy.Type, n int, shape ...int) (*npy.File, error) {
	path := filepath.Join(s.dir, fileName(s.split, kind, part))
	f, err := npy.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, badFile(path, "no such file, want it beside %s", fileName(s.split, mapsFile, part))
	}
	if err != nil {
		return nil, err
	}
	s.files = append(s.files, f)
	h := f.Header()
	if !slices.Contains(types, h.Type) {
		return nil, badFile(path, "entries of type %v, want one of %v", h.Type, types)
	}
	first, rest := "n", shape
	if n >= 0 {
		first = fmt.Sprint(n)
	}
	if len(h.Shape) != 1+len(rest) || !slices.Equal(h.Shape[1:], rest) || n >= 0 && h.Shape[0] != n || h.Shape[0] == 0 {
		return nil, badFile(path, "shape %v, want [%s %s for a grid of %d x %d%s", h.Shape, first, fmt.Sprint(rest)[1:], s.cfg.Grid, s.cfg.Grid, otherGrid(kind, h.Shape, s.cfg.Grid))
	}
	return f, nil
}

// otherGrid is a hint for an error about a file that holds maps of another grid.
func otherGrid(kind string, shape []int, g int) string {
	if len(shape) < 2 || shape[0] == 0 {
		return ""
	}
	is := shape[1]
	if kind == mapsFile {
		is /= pixels
	}
	if is == g || !slices.Contains(grids, is) {
		return ""
	}
	return fmt.Sprintf("; it seems to be of a grid of %d x %d", is, is)
}
