package warcraft

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// ErrFormat: a file of a folder of maps that cannot be read as what it should
// be. Errors wrap it and name the file and what was expected.
var ErrFormat = errors.New("malformed Warcraft data")

// badFile returns an error about a file that wraps ErrFormat.
func badFile(path, format string, args ...any) error {
	return fmt.Errorf("%s: %w: %s", path, ErrFormat, fmt.Sprintf(format, args...))
}

const (
	// archiveFolder is the folder in the published archive that holds the folders
	// of the grids.
	archiveFolder = "warcraft_shortest_path_oneskin"
	// infoFile describes the files beside it.
	infoFile = "info.json"
	// trainSplit is the split of the published files that the task is made of.
	trainSplit = "train"
)

// The kinds of published files: pictures, costs of cells, and shortest paths
// from the top left to the bottom right.
const (
	mapsFile    = "maps"
	weightsFile = "vertex_weights"
	pathsFile   = "shortest_paths"
)

// fileName returns the name of a file: of part k of a split that is kept in
// parts, or with k < 0 of a whole one.
func fileName(split, kind string, k int) string {
	if k < 0 {
		return split + "_" + kind + ".npy"
	}
	return fmt.Sprintf("%s_%s_part%d.npy", split, kind, k)
}

// gridFolder is the name of the folder of a grid's files.
func gridFolder(g int) string { return fmt.Sprintf("%dx%d", g, g) }

// exists says whether there is a file.
func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// parts returns the numbers of the parts in which dir keeps the pictures of a
// split, {-1} for a whole file; none if there are no pictures. Parts count from 0
// without a gap, are two at least, and are not there beside a whole file, which
// may hold the same maps.
func parts(dir, split string) ([]int, error) {
	whole, err := exists(filepath.Join(dir, fileName(split, mapsFile, -1)))
	if err != nil {
		return nil, err
	}
	names, err := fs.Glob(os.DirFS(dir), split+"_"+mapsFile+"_part*.npy")
	if err != nil {
		return nil, err
	}
	var found []int
	for _, name := range names {
		var k int
		if _, err := fmt.Sscanf(name, split+"_"+mapsFile+"_part%d.npy", &k); err == nil && k >= 0 && name == fileName(split, mapsFile, k) {
			found = append(found, k)
		}
	}
	slices.Sort(found)
	switch {
	case whole && len(found) > 0:
		return nil, badFile(filepath.Join(dir, fileName(split, mapsFile, found[0])), "it is beside %s, want either a whole file or parts", fileName(split, mapsFile, -1))
	case whole:
		return []int{-1}, nil
	case len(found) == 0:
		return nil, nil
	}
	for k := range max(2, len(found)) {
		if !slices.Contains(found, k) {
			return nil, badFile(filepath.Join(dir, fileName(split, mapsFile, k)), "there is none, want it beside part %d", found[min(k, len(found)-1)])
		}
	}
	return found, nil
}

// locate returns the folder of the grid's files: dir, or the folder in it that
// the published archive has for them.
func locate(dir string, g int) (string, error) {
	places := []string{dir, filepath.Join(dir, gridFolder(g)), filepath.Join(dir, archiveFolder, gridFolder(g))}
	for _, place := range places {
		found, err := parts(place, trainSplit)
		if err != nil {
			return "", err
		}
		if len(found) > 0 {
			return place, nil
		}
	}
	return "", badFile(dir, "no %s, want it there or in %s (or in parts, %s): scripts/fetch_data.sh fetches the published files",
		fileName(trainSplit, mapsFile, -1), filepath.Join(archiveFolder, gridFolder(g)), fileName(trainSplit, mapsFile, 0))
}

// info is the content of info.json, as far as it concerns us.
type info struct {
	Params struct {
		PixelsPerCell *int    `json:"pixels_per_cell,omitempty"`
		Train         *setNum `json:"train_set_params,omitempty"`
		Val           *setNum `json:"val_set_params,omitempty"`
		Test          *setNum `json:"test_set_params,omitempty"`
	} `json:"dataset_params"`
	// Generator says what generated the maps; absent for real ones.
	Generator *generator `json:"fedrspo_generator,omitempty"`
}

// setNum is the number of maps in a split.
type setNum struct {
	Examples *int `json:"num_examples,omitempty"`
}

// maxInfo bounds the size of info.json.
const maxInfo = 1 << 20

// readInfo reads info.json of a folder; the zero info if there is none.
func readInfo(dir string) (out info, err error) {
	path := filepath.Join(dir, infoFile)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxInfo+1))
	if err != nil {
		return out, err
	}
	if len(text) > maxInfo {
		return out, badFile(path, "more than %d bytes, want a short description", maxInfo)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return out, badFile(path, "%v; want a JSON object with dataset_params", err)
	}
	return out, nil
}

// check compares the description with what there is.
func (i info) check(dir, split string, maps int) error {
	path := filepath.Join(dir, infoFile)
	if p := i.Params.PixelsPerCell; p != nil && *p != pixels {
		return badFile(path, "pixels_per_cell is %d, want %d", *p, pixels)
	}
	num := map[string]*setNum{"train": i.Params.Train, "val": i.Params.Val, "test": i.Params.Test}[split]
	if num != nil && num.Examples != nil && *num.Examples != maps {
		return badFile(path, "%s_set_params.num_examples is %d, but the files hold %d maps", split, *num.Examples, maps)
	}
	return nil
}
