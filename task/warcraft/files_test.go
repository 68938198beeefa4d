package warcraft

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fedrspo/internal/npy"
)

// mini12 returns the folder of six real maps.
func mini12(t testing.TB) string {
	t.Helper()
	root := os.Getenv("FEDRSPO_DATA")
	if root == "" {
		t.Skip("FEDRSPO_DATA is not set: no published maps")
	}
	dir := filepath.Join(root, "warcraft", "mini12")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no published maps: %v", err)
	}
	return dir
}

// optimum returns the cost of a shortest path from the top left to the bottom
// right of every map.
func optimum(t testing.TB, d *Dataset) []float64 {
	t.Helper()
	paths, err := d.labels(0, d.Len())
	if err != nil {
		t.Fatal(err)
	}
	out, weights := make([]float64, d.Len()), make([]float64, d.cfg.cells())
	for i := range out {
		d.Weights(weights, i)
		for v, w := range weights {
			if paths[i*len(weights)+v] == 1 {
				out[i] += w
			}
		}
	}
	return out
}

// TestPublishedMaps reads six maps of Vlastelica et al. (2020) and finds the
// optimal costs published with them, exactly: sums of so few half-precision
// numbers have no rounding. Their terrains are the published five.
func TestPublishedMaps(t *testing.T) {
	dir := mini12(t)
	text, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var samples []struct {
		Name, Pixels string
		Cost         float64 `json:"optimal_cost"`
		Cells        int     `json:"path_cells"`
	}
	if err := json.Unmarshal(text, &samples); err != nil {
		t.Fatal(err)
	}
	d, err := readSplit(dir, "test", 12)
	if err != nil {
		t.Fatal(err)
	}
	if len(samples) != 6 || d.Len() != len(samples) {
		t.Fatalf("%d maps, %d in the manifest", d.Len(), len(samples))
	}
	if !slices.Equal(d.costs, publishedCosts[:]) {
		t.Errorf("costs %v, want %v", d.costs, publishedCosts)
	}
	for i, got := range optimum(t, d) {
		if got != samples[i].Cost {
			t.Errorf("%s: cost %v, want %v", samples[i].Name, got, samples[i].Cost)
		}
	}
	// The published paths cost the same under the weights, whichever of several
	// shortest ones they are.
	f, err := npy.Open(filepath.Join(dir, "test_shortest_paths.npy"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	paths, weights := make([]uint8, f.Header().Len()), make([]float64, 144)
	if err := f.ReadUint8(paths); err != nil {
		t.Fatal(err)
	}
	for i, s := range samples {
		d.Weights(weights, i)
		cost, cells := 0.0, 0
		for v, x := range paths[i*144 : (i+1)*144] {
			if x == 1 {
				cost += weights[v]
				cells++
			}
		}
		if cost != s.Cost || cells != s.Cells {
			t.Errorf("%s: the path costs %v in %d cells, want %v in %d", s.Name, cost, cells, s.Cost, s.Cells)
		}
	}
}

// TestGeneratedLikePublished compares generated maps with six real ones. Single
// maps vary a lot, so that the yardstick is how far the mean over six generated
// maps lies from that over all of them: the real six must be within three
// standard deviations, as nearly every generated six is. Colours hardly vary
// between maps; those of the textures are ours, and must be within 8 levels of
// 255, a quarter of the distance between the two nearest terrains, grass and
// forest.
func TestGeneratedLikePublished(t *testing.T) {
	real, err := readSplit(mini12(t), "test", 12)
	if err != nil {
		t.Fatal(err)
	}
	const six, sixes = 6, 80
	ours := generate(t, Config{Seed: 1, Maps: six * sixes, Test: 1})
	numbers := func(d *Dataset) map[string]float64 {
		s := measure(d)
		out := map[string]float64{"equal neighbours": s.same, "regions a map": s.regions, "optimal cost": mean(optimum(t, d))}
		for k, name := range terrainNames {
			out["share of "+name] = s.share[k]
		}
		return out
	}
	sum, square := map[string]float64{}, map[string]float64{}
	for k := range sixes {
		for name, x := range numbers(ours.part(k*six, (k+1)*six)) {
			sum[name] += x / sixes
			square[name] += x * x / sixes
		}
	}
	for name, got := range numbers(real) {
		std := math.Sqrt(square[name] - sum[name]*sum[name])
		t.Logf("%-18s real %7.3f, generated %7.3f, deviation of six %.3f", name, got, sum[name], std)
		if math.Abs(got-sum[name]) > 3*std {
			t.Errorf("%s: %.3f on real maps, %.3f on generated ones with a deviation of %.3f", name, got, sum[name], std)
		}
	}
	want, got := measure(real), measure(ours)
	for k, name := range terrainNames {
		for c := range colours {
			if math.Abs(got.colour[k][c]-want.colour[k][c]) > 8 {
				t.Errorf("mean colour of %s: %.1f, on real maps %.1f", name, got.colour[k], want.colour[k])
				break
			}
		}
	}
	// What can be told from colours alone must not be much more than on real maps.
	if got.pixels > want.pixels+0.04 || got.cells > want.cells+0.03 {
		t.Errorf("%.3f of the pixels and %.3f of the cells have the colour of their terrain, on real maps %.3f and %.3f", got.pixels, got.cells, want.pixels, want.cells)
	}
	for a := range want.touch {
		for b := range want.touch[a] {
			if (want.touch[a][b] == 0) != (got.touch[a][b] == 0) {
				t.Errorf("%s and %s touch %d times on generated maps, %d times on real ones", terrainNames[a], terrainNames[b], got.touch[a][b], want.touch[a][b])
			}
		}
	}
}

var terrainNames = [terrains]string{"grass", "dirt", "forest", "water", "rock"}

// part returns the maps from to to-1 as a dataset.
func (d *Dataset) part(from, to int) *Dataset {
	out := *d
	out.cfg.Maps = to - from
	out.maps = d.maps[from*d.cfg.mapBytes() : to*d.cfg.mapBytes()]
	out.terrain = d.terrain[from*d.cfg.cells() : to*d.cfg.cells()]
	return &out
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// export writes d to a new folder.
func export(t testing.TB, d *Dataset) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "maps")
	if err := d.Export(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// load reads cfg's maps from a folder.
func load(t testing.TB, dir string, cfg Config) *Dataset {
	t.Helper()
	d, err := Load(dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestRoundTrip: what Export writes, Load reads bit for bit, from the folder
// itself and from those above it, whole and in the two parts of larger grids.
func TestRoundTrip(t *testing.T) {
	for _, g := range grids {
		cfg := Config{Seed: 4, Grid: g, Clients: 3, Maps: 9, Test: 2}
		d := generate(t, cfg)
		root := t.TempDir()
		place := filepath.Join(root, archiveFolder, gridFolder(g))
		if err := d.Export(place); err != nil {
			t.Fatal(err)
		}
		var names []string
		entries, err := os.ReadDir(place)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			names = append(names, e.Name())
		}
		want := []string{"info.json", "train_maps.npy", "train_shortest_paths.npy", "train_vertex_weights.npy"}
		if g > 12 {
			want = []string{"info.json", "train_maps_part0.npy", "train_maps_part1.npy", "train_shortest_paths_part0.npy", "train_shortest_paths_part1.npy", "train_vertex_weights_part0.npy", "train_vertex_weights_part1.npy"}
		}
		if !slices.Equal(names, want) {
			t.Errorf("%d x %d: files %v, want %v", g, g, names, want)
		}
		cfg.Maps = 0
		for _, dir := range []string{place, filepath.Dir(place), root} {
			got := load(t, dir, cfg)
			if !bytes.Equal(got.maps, d.maps) || !bytes.Equal(got.terrain, d.terrain) || !slices.Equal(got.costs, d.costs) {
				t.Errorf("%s: other maps", dir)
			}
			if got.Len() != 9 || got.Grid() != g || got.Origin() != dir+", generated with seed 4" || !got.Generated() || d.Origin() != "generated with seed 4" || !d.Generated() {
				t.Errorf("%s: %d maps of %d from %s", dir, got.Len(), got.Grid(), got.Origin())
			}
			if g > 12 {
				continue // the radii of large grids take time
			}
			a, b := buildTask(t, d), buildTask(t, got)
			for k := range a.Clients {
				if !slices.Equal(a.Clients[k].Train.C.Data, b.Clients[k].Train.C.Data) || !slices.Equal(a.Clients[k].Test.C.Data, b.Clients[k].Test.C.Data) {
					t.Errorf("%s: client %d has other costs", dir, a.Clients[k].ID)
				}
			}
		}
		if err := d.Export(place); !errors.Is(err, ErrFolder) {
			t.Errorf("export over an export: error %v", err)
		}
	}
}

// TestLoadTakesTheFirst: Maps cuts what is loaded, and Test are the last of what
// is left.
func TestLoadTakesTheFirst(t *testing.T) {
	d := generate(t, Config{Seed: 4, Clients: 3, Maps: 20, Test: 2})
	dir := export(t, d)
	got := load(t, dir, Config{Clients: 3, Maps: 12, Test: 4})
	if got.Len() != 12 || !bytes.Equal(got.maps, d.maps[:12*27648]) || !bytes.Equal(got.terrain, d.terrain[:12*144]) {
		t.Errorf("%d maps, or others", got.Len())
	}
	if x := buildTask(t, got).Clients[0].Test.X.(*Images); x.Len() != 4 || x.Map(0) != 8 {
		t.Errorf("%d test maps from %d", x.Len(), x.Map(0))
	}
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Clients: 3, Maps: 21, Test: 2}, "maps is 21, but there are 20"},
		{Config{}, "test is 2000 of 20 maps"},
		{Config{Grid: 11}, "grid is 11"},
	} {
		if _, err := Load(dir, c.cfg); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want ErrConfig with %q", c.cfg, err, c.want)
		}
	}
}

// TestLoadForms: float32 and float64 weights are read, the paths and the
// description may be missing, and costs need not be the published ones.
func TestLoadForms(t *testing.T) {
	d := generate(t, Config{Seed: 4, Clients: 3, Maps: 9, Test: 2})
	for _, costs := range [][]float64{publishedCosts[:], {1, 2, 3, 4, float64(float32(0.1)) * 50}, {0.1, 0.2, 0.3, 0.4, 0.7}} {
		d.costs = costs
		dir := export(t, d)
		for _, name := range []string{"train_shortest_paths.npy", "info.json"} {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		got := load(t, dir, Config{Clients: 3, Test: 2})
		if got.Generated() || got.Origin() != dir {
			t.Errorf("without description: from %s", got.Origin())
		}
		if !slices.Equal(got.costs, costs) || !bytes.Equal(got.terrain, d.terrain) {
			t.Errorf("costs %v, want %v", got.costs, costs)
		}
	}
}

// TestMalformedFiles: every inconsistency is one error that names the file and
// what was expected.
func TestMalformedFiles(t *testing.T) {
	const maps, weights, paths = "train_maps.npy", "train_vertex_weights.npy", "train_shortest_paths.npy"
	d := generate(t, Config{Seed: 4, Clients: 3, Maps: 9, Test: 2})
	good := export(t, d)
	edit := func(file, text string) func(string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644) }
	}
	write := func(file string, put func(io.Writer) error) func(string) error {
		return func(dir string) error {
			var b bytes.Buffer
			if err := put(&b); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, file), b.Bytes(), 0o644)
		}
	}
	change := func(file string, f func([]byte) []byte) func(string) error {
		return func(dir string) error {
			text, err := os.ReadFile(filepath.Join(dir, file))
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, file), f(text), 0o644)
		}
	}
	floats := func(t npy.Type, x float64, shape ...int) func(io.Writer) error {
		v := make([]float64, npy.Header{Shape: shape}.Len())
		for i := range v {
			v[i] = 1
		}
		v[len(v)-1] = x
		return func(w io.Writer) error { return npy.WriteFloat64(w, t, v, shape...) }
	}
	uints := func(shape ...int) func(io.Writer) error {
		return func(w io.Writer) error {
			return npy.WriteUint8(w, make([]uint8, npy.Header{Shape: shape}.Len()), shape...)
		}
	}
	many := func(w io.Writer) error {
		v := make([]float64, 9*144)
		for i := range v {
			v[i] = float64(1 + i%6)
		}
		return npy.WriteFloat64(w, npy.Float16, v, 9, 12, 12)
	}
	for _, c := range []struct {
		name, file, want string
		break_           func(dir string) error
	}{
		{"no maps", "", "no train_maps.npy, want it there or in", func(dir string) error { return os.Remove(filepath.Join(dir, maps)) }},
		{"no weights", weights, "no such file, want it beside train_maps.npy", func(dir string) error { return os.Remove(filepath.Join(dir, weights)) }},
		{"maps cut short", maps, "it is cut short", change(maps, func(b []byte) []byte { return b[:len(b)-1] })},
		{"bytes behind the maps", maps, "bytes follow", change(maps, func(b []byte) []byte { return append(b, 0) })},
		{"bytes behind the paths", paths, "bytes follow", change(paths, func(b []byte) []byte { return append(b, 0) })},
		{"maps that are text", maps, "magic number", edit(maps, "not an array")},
		{"maps as floats", maps, "entries of type float32, want one of [uint8]", write(maps, floats(npy.Float32, 1, 9, 96, 96, 3))},
		{"maps channels first", maps, "shape [9 3 96 96], want [n 96 96 3] for a grid of 12 x 12", write(maps, uints(9, 3, 96, 96))},
		{"maps of another grid", maps, "shape [9 144 144 3], want [n 96 96 3] for a grid of 12 x 12; it seems to be of a grid of 18 x 18", write(maps, uints(9, 144, 144, 3))},
		{"maps with alpha", maps, "shape [9 96 96 4]", write(maps, uints(9, 96, 96, 4))},
		{"empty maps", maps, "shape [0 96 96 3]", write(maps, uints(0, 96, 96, 3))},
		{"one map without axis", maps, "shape [96 96 3]", write(maps, uints(96, 96, 3))},
		{"fewer weights", weights, "shape [8 12 12], want [9 12 12]", write(weights, floats(npy.Float16, 1, 8, 12, 12))},
		{"flat weights", weights, "shape [9 144], want [9 12 12]", write(weights, floats(npy.Float16, 1, 9, 144))},
		{"weights of another grid", weights, "it seems to be of a grid of 30 x 30", write(weights, floats(npy.Float16, 1, 9, 30, 30))},
		{"weights as bytes", weights, "entries of type uint8, want one of [float16 float32 float64]", write(weights, uints(9, 12, 12))},
		{"a negative weight", weights, "map 8, row 11, column 11: the cost is -1", write(weights, floats(npy.Float16, -1, 9, 12, 12))},
		{"a zero weight", weights, "the cost is 0", write(weights, floats(npy.Float64, 0, 9, 12, 12))},
		{"an infinite weight", weights, "the cost is +Inf", change(weights, func(b []byte) []byte { return append(b[:len(b)-2], 0x00, 0x7c) })},
		{"a weight that is no number", weights, "the cost is NaN", change(weights, func(b []byte) []byte { return append(b[:len(b)-2], 0x01, 0x7c) })},
		{"weights of all kinds", weights, "map 0, row 0, column 5: the cost 6 is one more than the 5 before it", write(weights, many)},
		{"fewer paths", paths, "shape [8 12 12], want [9 12 12]", write(paths, uints(8, 12, 12))},
		{"paths as floats", paths, "entries of type float16, want one of [uint8]", write(paths, floats(npy.Float16, 1, 9, 12, 12))},
		{"a description that is no JSON", "info.json", "want a JSON object", edit("info.json", "{")},
		{"another number of maps", "info.json", "num_examples is 10, but the files hold 9", edit("info.json", `{"dataset_params": {"train_set_params": {"num_examples": 10}}}`)},
		{"another cell size", "info.json", "pixels_per_cell is 16, want 8", edit("info.json", `{"dataset_params": {"pixels_per_cell": 16}}`)},
		{"a long description", "info.json", "want a short description", edit("info.json", strings.Repeat(" ", maxInfo+1))},
		{"the second part missing", "train_maps_part1.npy", "want it beside part 0", func(dir string) error {
			return os.Rename(filepath.Join(dir, maps), filepath.Join(dir, "train_maps_part0.npy"))
		}},
		{"the first part missing", "train_maps_part0.npy", "want it beside part 1", func(dir string) error {
			return os.Rename(filepath.Join(dir, maps), filepath.Join(dir, "train_maps_part1.npy"))
		}},
		{"a part between missing", "train_maps_part2.npy", "want it beside part 3", func(dir string) error {
			for _, k := range []int{0, 1, 3} {
				if err := os.WriteFile(filepath.Join(dir, fileName(trainSplit, mapsFile, k)), nil, 0o644); err != nil {
					return err
				}
			}
			return os.Remove(filepath.Join(dir, maps))
		}},
		{"a part beside the whole", "train_maps_part1.npy", "it is beside train_maps.npy", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "train_maps_part1.npy"), nil, 0o644)
		}},
		{"one wrong cell", weights, "[0.7998046875 1.2001953125", change(weights, func(b []byte) []byte {
			b[len(b)-1] ^= 4 // the last bit of an exponent
			return b
		})},
	} {
		dir := filepath.Join(t.TempDir(), "maps")
		if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
			t.Fatal(err)
		}
		if err := c.break_(dir); err != nil {
			t.Fatal(err)
		}
		_, err := Load(dir, Config{Clients: 3, Test: 2})
		known := errors.Is(err, ErrFormat) || errors.Is(err, npy.ErrFormat)
		if err == nil || !known || !strings.Contains(err.Error(), filepath.Join(dir, c.file)+": ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one about %s with %q", c.name, err, c.file, c.want)
		}
	}
	if _, err := Load(filepath.Join(good, "none"), Config{}); !errors.Is(err, ErrFormat) {
		t.Errorf("no folder: error %v", err)
	}
}

// TestPartsMustAgree: the second part of a split is checked as the first.
func TestPartsMustAgree(t *testing.T) {
	d := generate(t, Config{Seed: 4, Grid: 18, Clients: 3, Maps: 9, Test: 2})
	dir := export(t, d)
	var b bytes.Buffer
	if err := npy.WriteFloat64(&b, npy.Float32, slices.Repeat([]float64{1}, 4*18*18), 4, 18, 18); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "train_vertex_weights_part1.npy")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir, Config{Grid: 18, Clients: 3, Test: 2}); err == nil || !strings.Contains(err.Error(), path+": ") || !strings.Contains(err.Error(), "want [5 18 18]") {
		t.Errorf("error %v", err)
	}
}

// TestExportedPaths: the exported paths are shortest ones, connected from corner
// to corner.
func TestExportedPaths(t *testing.T) {
	d := generate(t, Config{Seed: 4, Maps: 50, Clients: 3, Test: 2})
	f, err := npy.Open(filepath.Join(export(t, d), "train_shortest_paths.npy"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	paths, weights := make([]uint8, f.Header().Len()), make([]float64, 144)
	if err := f.ReadUint8(paths); err != nil {
		t.Fatal(err)
	}
	for i := range d.Len() {
		d.Weights(weights, i)
		path := paths[i*144 : (i+1)*144]
		got := 0.0
		for v, x := range path {
			got += float64(x) * weights[v]
		}
		// Bellman and Ford's rounds, until nothing improves.
		dist := slices.Repeat([]float64{1e9}, 144)
		dist[0] = weights[0]
		for better := true; better; {
			better = false
			for v := range dist {
				for u := range dist {
					dy, dx := u/12-v/12, u%12-v%12
					if dy*dy <= 1 && dx*dx <= 1 && dist[v]+weights[u] < dist[u] {
						dist[u], better = dist[v]+weights[u], true
					}
				}
			}
		}
		if path[0] != 1 || path[143] != 1 || got != dist[143] {
			t.Errorf("map %d: the path costs %v, want %v", i, got, dist[143])
		}
	}
}
