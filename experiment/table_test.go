package experiment

import (
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"hash/fnv"
	"image/png"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	"fedrspo/run"
)

// invented is a Runner whose results are drawn at random, by job: mean regrets
// of about base(job) in percent.
func invented(base func(Job) float64) *Runner {
	return &Runner{Program: "invented", train: func(_ context.Context, j Job) (run.SeedResult, error) {
		h := fnv.New64a()
		_, _ = io.WriteString(h, j.Command())
		rng := rand.New(rand.NewPCG(h.Sum64(), 0))
		stage := func(scale float64) *run.StageResult {
			clients := make([]run.ClientResult, 3)
			for k := range clients {
				frozen, freeze := new(int), 0.005+0.01*rng.Float64()
				if rng.IntN(4) == 0 {
					frozen = nil
				}
				regret := scale * base(j) / 100 * (0.9 + 0.2*rng.Float64())
				clients[k] = run.ClientResult{Client: k + 1, Regret: run.Regret{Relative: regret, Absolute: regret}, Lambda: 1.92, FrozenAfter: frozen, Freeze: &freeze,
					Alignment: &run.Alignment{Gap: scale * (3 + rng.Float64()), Decision: 20 + rng.Float64(), Objective: 3 + rng.Float64()}, Validation: &run.Regret{Relative: regret}}
			}
			return run.NewStageResult(clients)
		}
		return run.SeedResult{Seed: j.Seed, Fed: stage(1), Personal: stage(0.5), LocalEndpoint: stage(0.7)}, nil
	}}
}

func ten(Job) float64 { return 10 }

// fakeTable has a mean, a statistic and a number without target.
func fakeTable() *Table {
	target := Target{Table: "3", Mean: 10, Std: 1, HasStd: true, Digits: 1}
	far := Target{Table: "3", Mean: 50, Digits: 1}
	job := single(tinyArgs, []string{"-loss", "rspo+"})
	other := single(tinyArgs, []string{"-loss", "mse"})
	return &Table{ID: "3", Title: "a title, with a comma", Note: "A note.", Seeds: []int64{42, 69, 1993, 67, 2026}, Baseline: "A",
		Cells: []Cell{
			{Setting: "(0,0,0)", Method: "A", Stage: "Fed", Target: &target, Jobs: job, Value: fedRegret, Digits: 2, Sweep: "s", X: 1},
			{Setting: "(0,0,0)", Method: "B", Stage: "Fed", Target: &far, Jobs: other, Value: fedRegret, Digits: 2, Sweep: "s", X: 10},
			{Setting: "(0,0,0)", Method: "A", Stage: "largest", Jobs: job, Digits: 3, Sweep: "s", X: 100, Statistic: func(s [][]run.SeedResult) float64 {
				most := 0.0
				for _, r := range s {
					most = max(most, fedRegret(r))
				}
				return most
			}},
		},
		Claims: []Claim{
			{ID: "yes", Text: "it is so", Holds: func(f *Finished) bool { return f.Mean("(0,0,0)", "A", "Fed") > 0 }},
			{ID: "no", Text: "it is not so", AtPaperRates: true, Holds: func(*Finished) bool { return false }},
		},
		Plots: []Plot{{Sweep: "s", Title: "a sweep", Log: true}, {Sweep: "none", Title: "an empty sweep"}},
	}
}

func finish(t *testing.T, table *Table, o Options) *Finished {
	t.Helper()
	f, err := table.Finish(context.Background(), invented(ten), o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// TestZScore against values worked out by hand.
func TestZScore(t *testing.T) {
	ours := []float64{1, 2, 3, 4, 5} // mean 3, deviation sqrt(2.5)
	for _, c := range []struct {
		paper  float64
		digits int
		n      int
		want   float64
	}{
		{3, 1, 5, 0},
		{3.04, 1, 5, 0}, // rounds to 3.0
		// (5.05 - 0.05 - 3)/(1.581139 sqrt(1/5+1/5)) = 2/1
		{5.05, 1, 5, 2},
		{0.95, 1, 5, -2},
		// One value against five: 2/(1.581139 sqrt(1+1/5)).
		{5.005, 2, 1, 2 / math.Sqrt(3)},
	} {
		if got := zScore(Target{Mean: c.paper, Digits: c.digits}, ours, c.n); math.Abs(got-c.want) > 1e-12 {
			t.Errorf("%v printed with %d digits, of %d: z = %v, want %v", c.paper, c.digits, c.n, got, c.want)
		}
	}
	// Nothing varies: equal agrees, anything else differs.
	if z := zScore(Target{Mean: 1, Digits: 3}, []float64{1, 1, 1}, 1); z != 0 {
		t.Errorf("equal constants: z = %v", z)
	}
	if z := zScore(Target{Mean: 2, Digits: 3}, []float64{1, 1, 1}, 1); !math.IsInf(z, 1) {
		t.Errorf("different constants: z = %v", z)
	}
	// 50 seeds against five, as the pages say: s sqrt(1/5 + 1/50).
	var fifty []float64
	for k := range 50 {
		fifty = append(fifty, float64(k%2)) // mean 1/2, variance 50/49/4
	}
	want := 1 / (math.Sqrt(50./49) / 2 * math.Sqrt(0.22))
	if z := zScore(Target{Mean: 1.55, Digits: 1}, fifty, 5); math.Abs(z-want) > 1e-12 {
		t.Errorf("fifty seeds: z = %v, want %v", z, want)
	}
}

func TestZText(t *testing.T) {
	for z, want := range map[float64]string{0: "0.0", -0.04: "0.0", -0.06: "-0.1", 2.96: "+3.0", math.Inf(-1): "-Inf"} {
		if got := zText(z); got != want {
			t.Errorf("z = %v is printed %s, want %s", z, got, want)
		}
	}
}

func TestJudge(t *testing.T) {
	if v, r := judge("no such cell", true, Agrees, Differs); v != Agrees || r != "" {
		t.Errorf("good: %q, %q", v, r)
	}
	if v, r := judge("no such cell", false, Agrees, Differs); v != Differs || r != "" {
		t.Errorf("bad: %q, %q", v, r)
	}
}

// TestFinish: means and deviations over seeds, the paper's seeds among more,
// statistics over groups, verdicts and what -check reports.
func TestFinish(t *testing.T) {
	f := finish(t, fakeTable(), Options{Fifty: true})
	if n := len(f.Options.Seeds); n != 50 || f.Options.Rates != "paper" {
		t.Fatalf("%d seeds at %s rates", n, f.Options.Rates)
	}
	a, b, largest := f.Entries[0], f.Entries[1], f.Entries[2]
	mean, std := run.MeanStd(a.Values)
	mean5, std5 := run.MeanStd(a.Values[:5])
	if a.ID != "3/(0,0,0)/A/Fed" || len(a.Values) != 50 || a.Mean != mean || a.Std != std || a.PaperMean != mean5 || a.PaperStd != std5 {
		t.Errorf("cell %+v", a)
	}
	if a.Verdict != Agrees || math.Abs(a.Z) > maxZ || b.Verdict != Differs || b.Z < 100 {
		t.Errorf("verdicts %q (z %v) and %q (z %v)", a.Verdict, a.Z, b.Verdict, b.Z)
	}
	var groups []float64
	for lo := 0; lo < 50; lo += 5 {
		m := 0.0
		for _, v := range a.Values[lo : lo+5] {
			m = max(m, v)
		}
		groups = append(groups, m)
	}
	if m, s := run.MeanStd(groups); largest.Mean != m || largest.Std != s || largest.PaperMean != groups[0] || largest.Verdict != "" || largest.Values != nil {
		t.Errorf("statistic %+v, want %v ± %v and %v", largest, m, s, groups[0])
	}
	differs := f.Differs()
	if len(differs) != 2 || !strings.HasPrefix(differs[0], "3/(0,0,0)/B/Fed: ours ") || !strings.Contains(differs[1], "it is not so") {
		t.Errorf("differs %q", differs)
	}
	if len(f.Jobs) != 150 {
		t.Errorf("%d jobs", len(f.Jobs))
	}

	few := finish(t, fakeTable(), Options{Seeds: []int64{1, 2, 3}})
	if e := few.Entries[2]; e.Mean != slices.Max(few.Entries[0].Values) || !math.IsNaN(e.Std) {
		t.Errorf("the largest of three: %v ± %v", e.Mean, e.Std)
	}

	p := finish(t, fakeTable(), Options{Fifty: true, Population: true}).Entries[0]
	if want := std * math.Sqrt(49./50); math.Abs(p.Std-want) > 1e-12 || p.Z != a.Z {
		t.Errorf("population deviation %v, want %v; z %v, want the same %v", p.Std, want, p.Z, a.Z)
	}
	for name, o := range map[string]Options{"few seeds": {Seeds: []int64{1, 2, 3}}, "matched": {Fifty: true, Rates: "matched"}, "the paper's seeds": {}} {
		g := finish(t, fakeTable(), o)
		if e := g.Entries[1]; e.Verdict != "" || !math.IsNaN(e.Z) {
			t.Errorf("%s: judged %+v", name, e)
		}
		if name == "matched" && len(g.Judged) != 1 {
			t.Errorf("a claim about the paper's rates is judged at others: %+v", g.Judged)
		}
		if name == "the paper's seeds" && (len(g.Options.Seeds) != 5 || !math.IsNaN(g.Entries[0].PaperMean)) {
			t.Errorf("the paper's seeds: %+v", g.Entries[0])
		}
	}
	// Twenty seeds without the paper's are judged too.
	var twenty []int64
	for s := range int64(20) {
		twenty = append(twenty, 100+s)
	}
	if e := finish(t, fakeTable(), Options{Seeds: twenty}).Entries[1]; e.Verdict != Differs || !math.IsNaN(e.PaperMean) {
		t.Errorf("twenty seeds: %+v", e)
	}
	order := fakeTable()
	order.OnlyOrder = true
	if e := finish(t, order, Options{Fifty: true}).Entries[1]; e.Verdict != "" {
		t.Errorf("a cell of a table of which only the order is judged: %+v", e)
	}
	order.PaperRates = true
	if _, err := order.Finish(context.Background(), invented(ten), Options{Rates: "tuned"}); err == nil {
		t.Error("a table that varies a rate, at tuned rates: no error")
	}
}

// TestTuned: the rate of least validation regret over the first five seeds is
// taken, for each setting and method.
func TestTuned(t *testing.T) {
	best := map[string]string{"rspo+": "0.005", "mse": "0.03"}
	base := func(j Job) float64 {
		text := j.Command()
		for loss, rate := range best {
			if strings.Contains(text, "-loss "+loss+" ") && strings.Contains(text, "-lr "+scaledPrefix+rate+" ") {
				return 1
			}
		}
		return 10
	}
	f, err := fakeTable().Finish(context.Background(), invented(base), Options{Fifty: true, Rates: "tuned"})
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Rates) != 2 {
		t.Errorf("rates %v", f.Rates)
	}
	for recipe, rate := range f.Rates {
		for loss, want := range best {
			if strings.HasSuffix(recipe, "-loss "+loss) && number(rate) != want {
				t.Errorf("%s: %v, want %s", recipe, rate, want)
			}
		}
	}
	if a := f.Entries[0]; math.Abs(a.Mean-1) > 0.1 {
		t.Errorf("the tuned mean is %v, want 1", a.Mean)
	}
	// Five candidates on five seeds, and the choice on the others.
	if different := map[string]bool{}; true {
		for _, j := range f.Jobs {
			different[j.Command()] = true
		}
		if want := 2 * (5*5 + 45); len(different) != want {
			t.Errorf("%d runs, want %d", len(different), want)
		}
	}
	r := invented(ten)
	train := r.train
	r.train = func(ctx context.Context, j Job) (run.SeedResult, error) {
		s, err := train(ctx, j)
		for k := range s.Personal.Clients {
			s.Personal.Clients[k].Validation = nil
		}
		return s, err
	}
	if _, err := fakeTable().Finish(context.Background(), r, Options{Rates: "tuned"}); err == nil || !strings.Contains(err.Error(), "validation") {
		t.Errorf("nothing to tune on: %v", err)
	}
}

// TestWrite: Markdown, CSV, JSON, the settings and plots, each readable and
// with the same numbers.
func TestWrite(t *testing.T) {
	f := finish(t, fakeTable(), Options{Fifty: true})
	f.Plots = f.Plots[:1]
	folder := tempFolder(t)
	dir, err := f.Write(folder)
	if err != nil || dir != "table-3-paper-50-seeds" {
		t.Fatal(dir, err)
	}
	read := func(name string) []byte {
		t.Helper()
		data, err := os.ReadFile(folder.Path(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	md := string(read("table.md"))
	a := f.Entries[0]
	for _, want := range []string{"## Table 3: a title", "A note.", "(50)", "| (0,0,0) | A | Fed | 10.0 ± 1.0 | " + plusMinus(a.PaperMean, a.PaperStd, 2) + " | " + plusMinus(a.Mean, a.Std, 2) + " | ",
		"| agrees |", "| differs |", "it is so: holds", "it is not so: **does not hold**", "Differences from A"} {
		if !strings.Contains(md, want) {
			t.Errorf("table.md lacks %q:\n%s", want, md)
		}
	}
	checkTables(t, md)
	rows, err := csv.NewReader(bytes.NewReader(read("cells.csv"))).ReadAll()
	if err != nil || len(rows) != 4 || rows[1][4] != number(a.Mean) || rows[1][9] != "10" || rows[1][12] != Agrees || rows[3][9] != "" || rows[3][8] != "" {
		t.Errorf("cells.csv %q, %v", rows, err)
	}
	var doc document
	if err := json.Unmarshal(read("table.json"), &doc); err != nil || len(doc.Cells) != 3 || *doc.Cells[0].Mean != a.Mean || len(doc.Cells[0].Values) != 50 ||
		doc.Cells[0].Commands[0] != f.Cells[0].Jobs(42)[0].Command() || len(doc.Claims) != 2 || len(doc.Paired) != 1 || doc.Std != "sample" {
		t.Errorf("table.json %+v, %v", doc, err)
	}
	var recipes map[string]map[string]any
	if err := json.Unmarshal(read("recipes.json"), &recipes); err != nil || len(recipes) != 2 {
		t.Errorf("recipes.json %v, %v", recipes, err)
	}
	for command, settings := range recipes {
		if !strings.HasPrefix(command, "train ") || settings["rounds"] != 1.0 || settings["batch"] != 64.0 || settings["seed"] != nil {
			t.Errorf("%s: %v", command, settings)
		}
	}
	picture, err := png.Decode(bytes.NewReader(read("s.png")))
	if err != nil || picture.Bounds().Dx() < 300 || picture.Bounds().Dy() < 200 {
		t.Errorf("s.png: %v, %v", picture, err)
	}
	d := xml.NewDecoder(bytes.NewReader(read("s.svg")))
	elements := 0
	for {
		token, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("s.svg: %v", err)
		}
		if e, ok := token.(xml.StartElement); ok {
			if elements++; elements == 1 && e.Name.Local != "svg" {
				t.Errorf("s.svg is a %s", e.Name.Local)
			}
		}
	}
	if elements < 20 {
		t.Errorf("s.svg has %d elements", elements)
	}
	// The same table gives the same bytes, plots included.
	again := tempFolder(t)
	if _, err := f.Write(again); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"table.md", "cells.csv", "table.json", "recipes.json", "s.png", "s.svg"} {
		data, err := os.ReadFile(again.Path(dir, name))
		if err != nil || !bytes.Equal(data, read(name)) {
			t.Errorf("%s differs when it is written again (%v)", name, err)
		}
	}
	for _, c := range []struct {
		o    Options
		want string
	}{{Options{}, "table-3-paper"}, {Options{Rates: "matched"}, "table-3-matched"}, {Options{Quick: true}, "table-3-paper-seed-42"}, {Options{Seeds: []int64{4, 5}}, "table-3-paper-2-seeds"}} {
		if got := finish(t, fakeTable(), c.o).name(); got != c.want {
			t.Errorf("%+v: folder %s, want %s", c.o, got, c.want)
		}
	}
	// A sweep without points is an error, not an empty picture.
	if _, err := finish(t, fakeTable(), Options{}).Write(tempFolder(t)); err == nil || !strings.Contains(err.Error(), "none") {
		t.Errorf("an empty plot: %v", err)
	}
	if err := f.Markdown(full{}); !errors.Is(err, errFull) {
		t.Errorf("a full disk: %v", err)
	}
}

var errFull = errors.New("full")

// full is a disk without space.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, errFull }

// checkTables checks that the rows of each Markdown table have as many columns
// as its header.
func checkTables(t *testing.T, md string) {
	t.Helper()
	columns := 0
	for line := range strings.Lines(md) {
		if !strings.HasPrefix(line, "|") {
			columns = 0
			continue
		}
		n := strings.Count(line, "|")
		if columns == 0 {
			columns = n
		}
		if n != columns {
			t.Errorf("%d columns in a table of %d: %s", n-1, columns-1, line)
		}
	}
}
