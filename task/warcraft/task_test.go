package warcraft

import (
	"errors"
	"image"
	"math"
	"slices"
	"strings"
	"testing"

	"fedrspo/oracle"
	"fedrspo/oracle/dijkstra"
	"fedrspo/oracle/qp"
	"fedrspo/task"
)

func generate(t testing.TB, cfg Config) *Dataset {
	t.Helper()
	d, err := Generate(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func buildTask(t testing.TB, d *Dataset) *task.Task {
	t.Helper()
	k, err := d.Task()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// small is a configuration whose task has everything, quickly.
func small(seed int64) Config { return Config{Seed: seed, Clients: 5, Maps: 60, Test: 10} }

// TestEndpoints: the clients' sources go round the border clockwise from the top
// left, each cell once, and sinks are the antipodes (paper, appendix C).
func TestEndpoints(t *testing.T) {
	for _, g := range grids {
		d := &Dataset{cfg: Config{Grid: g, Clients: border(g)}}
		var last dijkstra.Cell
		seen := map[dijkstra.Cell]bool{}
		for id := 1; id <= border(g); id++ {
			source, sink, err := d.Endpoints(id)
			if err != nil {
				t.Fatal(err)
			}
			if source.Row+sink.Row != g-1 || source.Col+sink.Col != g-1 {
				t.Errorf("client %d: %v to %v are not antipodes", id, source, sink)
			}
			if min(source.Row, source.Col) != 0 && max(source.Row, source.Col) != g-1 {
				t.Errorf("client %d: %v is not on the border", id, source)
			}
			if seen[source] {
				t.Errorf("client %d: %v again", id, source)
			}
			seen[source] = true
			// Clockwise: a step right, down, left or up, right first.
			step := dijkstra.Cell{Row: source.Row - last.Row, Col: source.Col - last.Col}
			side := (id - 2) / (g - 1)
			if want := []dijkstra.Cell{{Row: 0, Col: 1}, {Row: 1, Col: 0}, {Row: 0, Col: -1}, {Row: -1, Col: 0}}; id > 1 && step != want[side] {
				t.Errorf("client %d: step %v", id, step)
			}
			last = source
		}
		if first, _, _ := d.Endpoints(1); first != (dijkstra.Cell{}) {
			t.Errorf("client 1 starts at %v", first)
		}
		for _, id := range []int{0, border(g) + 1} {
			if _, _, err := d.Endpoints(id); !errors.Is(err, ErrConfig) {
				t.Errorf("client %d: error %v", id, err)
			}
			if _, err := d.Multipliers(id); !errors.Is(err, ErrConfig) {
				t.Errorf("client %d: error %v", id, err)
			}
		}
	}
}

// TestPartition: 8,000 maps are dealt to 44 clients, 182 to 36 of them and 181
// to 8; a fifth validates, 36 each (paper, appendix C). Nothing is dealt twice.
func TestPartition(t *testing.T) {
	c, err := Config{Seed: 42}.Resolve()
	if err != nil {
		t.Fatal(err)
	}
	seen := make([]int, c.Maps)
	sizes := map[[2]int]int{}
	for _, s := range c.partition() {
		sizes[[2]int{len(s.train), len(s.val)}]++
		for _, i := range slices.Concat(s.train, s.val) {
			seen[i]++
		}
	}
	if len(sizes) != 2 || sizes[[2]int{146, 36}] != 36 || sizes[[2]int{145, 36}] != 8 {
		t.Errorf("clients by (training, validation) maps: %v", sizes)
	}
	for i, n := range seen {
		if want := map[bool]int{true: 1, false: 0}[i < 8000]; n != want {
			t.Fatalf("map %d is dealt %d times, want %d", i, n, want)
		}
	}
	other := c
	other.Seed++
	if slices.Equal(c.partition()[0].train, other.partition()[0].train) {
		t.Error("another seed deals the same maps")
	}
}

// TestTask: shapes, the shared test set, and costs that are the weights times
// the client's multiplier of the terrain.
func TestTask(t *testing.T) {
	d := generate(t, small(3))
	k := buildTask(t, d)
	if k.Name != "warcraft" || k.Metric != task.OptimalityGap || k.In != 96*96*3 || k.Out != 144 || len(k.Clients) != 5 {
		t.Fatalf("task %s: %d to %d, %d clients", k.Name, k.In, k.Out, len(k.Clients))
	}
	weights := make([]float64, k.Out)
	for j, c := range k.Clients {
		if c.ID != j+1 || c.Train.Len() != 8 || c.Val.Len() != 2 || c.Test.Len() != 10 {
			t.Errorf("client %d: %d, %d, %d maps", c.ID, c.Train.Len(), c.Val.Len(), c.Test.Len())
		}
		if c.Test.X != k.Clients[0].Test.X {
			t.Errorf("client %d has test features of its own", c.ID)
		}
		if j > 0 && slices.Equal(c.Test.C.Data, k.Clients[0].Test.C.Data) {
			t.Errorf("client %d has the test costs of client 1", c.ID)
		}
		m, err := d.Multipliers(c.ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []task.Split{c.Train, c.Val, c.Test} {
			x := s.X.(*Images)
			for i := range s.Len() {
				d.Weights(weights, x.Map(i))
				for v, w := range weights {
					if want := w * m[d.Terrain(x.Map(i))[v]]; s.C.Row(i)[v] != want {
						t.Fatalf("client %d, map %d, cell %d: cost %v, want %v", c.ID, x.Map(i), v, s.C.Row(i)[v], want)
					}
				}
			}
		}
		for i := range c.Test.Len() {
			if got := c.Test.X.(*Images).Map(i); got != 50+i {
				t.Errorf("test sample %d is map %d", i, got)
			}
		}
	}
}

// TestMultipliers: log-normal with the scale's standard deviation; scale 0
// leaves the costs alone (paper, appendix C).
func TestMultipliers(t *testing.T) {
	sum, square, n := 0.0, 0.0, 0
	for seed := range int64(50) {
		d := &Dataset{cfg: Config{Seed: seed, Grid: 12, Clients: 44, Scale: new(0.6)}, costs: publishedCosts[:]}
		for id := 1; id <= 44; id++ {
			m, err := d.Multipliers(id)
			if err != nil {
				t.Fatal(err)
			}
			for _, x := range m {
				sum += math.Log(x)
				square += math.Log(x) * math.Log(x)
				n++
			}
		}
	}
	// 11,000 draws: four standard errors of mean and deviation.
	mean := sum / float64(n)
	std := math.Sqrt(square/float64(n) - mean*mean)
	if math.Abs(mean) > 4*0.6/math.Sqrt(float64(n)) || math.Abs(std-0.6) > 4*0.6/math.Sqrt(2*float64(n)) {
		t.Errorf("logarithms have mean %v and deviation %v, want 0 and 0.6", mean, std)
	}
	d := &Dataset{cfg: Config{Grid: 12, Clients: 44, Scale: new(0.0)}, costs: publishedCosts[:]}
	if m, err := d.Multipliers(7); err != nil || slices.ContainsFunc(m, func(x float64) bool { return x != 1 }) {
		t.Errorf("scale 0: %v, error %v", m, err)
	}
}

// TestRadius: the cells that a path with disjoint cycles can cover are all 144
// for every client, so that R = 12 (paper, section 3.4).
func TestRadius(t *testing.T) {
	d := generate(t, Config{Maps: 45, Test: 1})
	for _, c := range buildTask(t, d).Clients {
		if r := c.Polytope.Radius(); r != 12 {
			t.Errorf("client %d: radius %v", c.ID, r)
		}
	}
}

// TestPathSets: the options reach the oracle.
func TestPathSets(t *testing.T) {
	for _, c := range []struct {
		set      PathSet
		negative NegativeCosts
		acyclic  bool
		want     dijkstra.Negative
	}{
		{"", "", false, dijkstra.AsIs}, {WithCycles, Exact, false, dijkstra.Cycles},
		{DAG, "", true, dijkstra.AsIs}, {DAG, Exact, true, dijkstra.AsIs},
	} {
		cfg := small(1)
		cfg.PathSet, cfg.NegativeCosts = c.set, c.negative
		k := buildTask(t, generate(t, cfg))
		for _, client := range k.Clients {
			g := client.Polytope.(*qp.Path).Grid().Config()
			if g.Acyclic != c.acyclic || g.Negative != c.want || g.Ties != dijkstra.PaperTies || g.Neighbours != dijkstra.Eight {
				t.Errorf("%q, %q: %+v", c.set, c.negative, g)
			}
		}
		// At costs of -1 everywhere the whole set with cycles covers every cell.
		theta, w := slices.Repeat([]float64{-1}, k.Out), make([]float64, k.Out)
		info, err := k.Clients[0].Polytope.NewLinear().Solve(w, theta)
		covered := 0.0
		for _, x := range w {
			covered += x
		}
		if exact := c.want == dijkstra.Cycles; err != nil || info.Status != oracle.Optimal || (covered == 144) != exact {
			t.Errorf("%q, %q: %v cells, %v, error %v", c.set, c.negative, covered, info.Status, err)
		}
	}
}

// TestFeatures compares the table with the obvious: every colour over 255, less
// its mean, over its population deviation, over all maps (paper, appendix C).
func TestFeatures(t *testing.T) {
	d := generate(t, small(9))
	k := buildTask(t, d)
	var mean, std [3]float64
	n := float64(len(d.maps) / 3)
	for p, x := range d.maps {
		mean[p%3] += float64(x) / 255 / n
	}
	for p, x := range d.maps {
		dev := float64(x)/255 - mean[p%3]
		std[p%3] += dev * dev / n
	}
	for c := range std {
		std[c] = math.Sqrt(std[c])
	}
	x := k.Clients[2].Train.X.(*Images)
	row, row32 := make([]float64, x.Dim()), make([]float32, x.Dim())
	for i := range x.Len() {
		x.Copy(row, i)
		x.Copy32(row32, i)
		rgb, side := x.RGB(i)
		if side != 96 || len(rgb) != len(row) {
			t.Fatalf("picture of side %d with %d numbers", side, len(rgb))
		}
		for p, got := range row {
			// Half a unit in the last place of float32 is 2^-24; sums in another
			// order add less than 1e-11.
			if want := (float64(rgb[p])/255 - mean[p%3]) / std[p%3]; math.Abs(got-want) > 6.1e-8*max(1, math.Abs(want)) {
				t.Fatalf("map %d, number %d: %v, want %v", x.Map(i), p, got, want)
			}
			if float64(row32[p]) != got {
				t.Fatalf("map %d, number %d: %v in float32, want %v", x.Map(i), p, row32[p], got)
			}
		}
	}
	view := k.Clients[1].View
	if g := view.Grid; g.Height != 12 || g.Width != 12 || g.Source != 1 || g.Sink != 142 {
		t.Errorf("client 2: %+v", g)
	}
	if got, want := view.Picture(3).(*image.RGBA), d.Image(53); !slices.Equal(got.Pix, want.Pix) {
		t.Error("client 2: the picture of test sample 3 is not that of map 53")
	}
	img := d.Image(x.Map(1))
	rgb, _ := x.RGB(1)
	if c := img.RGBAAt(5, 7); c.R != rgb[(7*96+5)*3] || c.G != rgb[(7*96+5)*3+1] || c.B != rgb[(7*96+5)*3+2] || c.A != 255 {
		t.Errorf("the image has %v at (5, 7)", c)
	}
	if allocs := testing.AllocsPerRun(10, func() { x.Copy(row, 0); x.Copy32(row32, 0) }); allocs != 0 {
		t.Errorf("copying a picture allocates %v times", allocs)
	}
}

// TestGreyMaps: a colour that never varies cannot be normalised.
func TestGreyMaps(t *testing.T) {
	d := generate(t, small(1))
	for p := 2; p < len(d.maps); p += 3 {
		d.maps[p] = 7
	}
	if _, err := d.Task(); !errors.Is(err, ErrData) || !strings.Contains(err.Error(), "colour 2") {
		t.Errorf("error %v", err)
	}
}

// TestClassify: terrains are the distinct costs in ascending order.
func TestClassify(t *testing.T) {
	d := &Dataset{cfg: Config{Grid: 2, Maps: 2}}
	if err := d.classify([]float64{3, 1, 1, 2.5, 3, 3, 2.5, 1}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(d.costs, []float64{1, 2.5, 3}) || !slices.Equal(d.terrain, []uint8{2, 0, 0, 1, 2, 2, 1, 0}) {
		t.Errorf("costs %v, terrain %v", d.costs, d.terrain)
	}
	many := make([]float64, 20)
	for i := range many {
		many[i] = float64(i + 1)
	}
	for _, c := range []struct {
		weights []float64
		want    string
	}{
		{[]float64{1, 1, 1, 1, 1, 2, math.NaN()}, "map 1, row 1, column 0: the cost is NaN"},
		{[]float64{1, math.Inf(1)}, "map 0, row 0, column 1: the cost is +Inf"},
		{[]float64{-1}, "the cost is -1"},
		{[]float64{0}, "the cost is 0"},
		{many, "map 1, row 0, column 1: the cost 6 is one more than the 5 before it, [1 2 3 4 5]; want at most 5 different ones"},
	} {
		if err := d.classify(c.weights); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: error %v, want %q", c.weights, err, c.want)
		}
	}
}
