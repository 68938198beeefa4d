package experiment

import (
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"fedrspo/run"
	"fedrspo/task/pjm"
)

// TestPJMJobs: every run of the tables about PJM is a setting of that task, on
// generated prices or on the file that is named, and has the paper's protocol.
func TestPJMJobs(t *testing.T) {
	for _, file := range []string{"", "prices.csv"} {
		for _, tb := range tables {
			if !AboutPJM(tb.id) {
				continue
			}
			table := tb.make(Options{PJMData: file})
			if table.OnlyOrder != (file == "") || table.Metric != run.AbsoluteRegret || (table.Variant == "generated") != (file == "") {
				t.Errorf("table %s with %q: judged %v, metric %s, variant %q", tb.id, file, !table.OnlyOrder, table.Metric, table.Variant)
			}
			if strings.Contains(table.Note, "GENERATED") != (file == "") {
				t.Errorf("table %s with %q says: %s", tb.id, file, table.Note)
			}
			seen := map[string]bool{}
			for _, c := range table.Cells {
				for _, j := range c.Jobs(42) {
					if seen[j.recipe()] {
						continue
					}
					seen[j.recipe()] = true
					s, err := j.setting()
					if err != nil {
						t.Fatalf("%s: %v", j.Command(), err)
					}
					if s.Kind.Name != "pjm" || s.Data.Dir != file || s.Data.Clients != 19 || s.Config.Fed.Rounds != 10 || s.Config.Fed.Epochs != 3 {
						t.Errorf("%s: %+v", j.Command(), s.Data)
					}
				}
			}
		}
	}
	if AboutPJM("3") || AboutPJM("4") || !AboutPJM("16-pjm") {
		t.Error("AboutPJM")
	}
}

// lateResults are made-up results of leaveOneOut: zone k has the local regret
// local + k, the federated one fed + k and the personal one personal + k; the
// other clients of each federated run have regrets that must not count.
func lateResults(local, fed, personal float64) []run.SeedResult {
	zones := pjm.Zones()
	stage := func(of func(id int) float64) *run.StageResult {
		var clients []run.ClientResult
		for _, z := range zones {
			clients = append(clients, run.ClientResult{Client: z.ID, Regret: run.Regret{Absolute: of(z.ID)}})
		}
		return run.NewStageResult(clients)
	}
	var out []run.SeedResult
	for k, z := range zones {
		only := func(x float64) func(int) float64 {
			return func(id int) float64 {
				if id == z.ID {
					return x + float64(k)
				}
				return 1e6
			}
		}
		out = append(out, run.SeedResult{Fed: stage(only(fed)), Personal: stage(only(personal))})
	}
	return append(out, run.SeedResult{Personal: stage(func(id int) float64 { return local + float64(id-1) })})
}

// TestLeaveOneOut restates the arithmetic of tables 11 and 12 on made-up
// results.
func TestLeaveOneOut(t *testing.T) {
	seeds := [][]run.SeedResult{lateResults(100, 50, 40), lateResults(120, 70, 30)}
	jobs := leaveOneOut(Options{}, 3)(42)
	if len(jobs) != 20 || jobs[6].Command() != "train -task pjm -loss rspo+ -train-days 3 -late-client 7 -seed 42" || jobs[19].Command() != "train -task pjm -loss rspo+ -train-days 3 -regime local -seed 42" {
		t.Errorf("jobs %v", jobs)
	}
	value := func(tb *Table, stage string) float64 {
		for _, c := range tb.Cells {
			if c.Setting != lateSetting(3) || c.Stage != stage {
				continue
			}
			if c.Statistic != nil {
				return c.Statistic(seeds)
			}
			return c.Value(seeds[0])
		}
		t.Fatalf("table %s has no %s", tb.ID, stage)
		return 0
	}
	// The mean of k over 19 zones is 9.
	eleven, twelve := table11(Options{}), table12(Options{})
	var reductions []float64
	for k := range 19 {
		reductions = append(reductions, 100*(1-(120+2*float64(k))/(220+2*float64(k))))
	}
	slices.Sort(reductions)
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"local", value(eleven, "local"), 109},
		{"federated", value(eleven, "fed"), 59},
		{"personalised", value(eleven, "personalized"), 49},
		{"gap", value(eleven, "personalized, gap to local"), 60},
		{"reduction", value(eleven, "fed, reduction %"), 100 * (1 - (59.+79)/(109+129))},
		{"personal reduction", value(eleven, "personalized, reduction %"), 100 * (1 - (49.+39)/(109+129))},
		{"better off", value(twelve, "clients better off"), 19},
		{"median", value(twelve, "median reduction %"), reductions[9]},
		{"lower quartile", value(twelve, "lower quartile"), (reductions[4] + reductions[5]) / 2},
		{"upper quartile", value(twelve, "upper quartile"), (reductions[13] + reductions[14]) / 2},
		{"quantile", quantile([]float64{4, 1, 3, 2}, 0.25), 1.75},
		{"last quantile", quantile([]float64{4, 1, 3, 2}, 1), 4},
	} {
		if math.Abs(c.got-c.want) > 1e-9 {
			t.Errorf("%s is %v, want %v", c.what, c.got, c.want)
		}
	}
}

// TestFixedDemandGap restates the arithmetic of table 13.
func TestFixedDemandGap(t *testing.T) {
	stage := func(x float64) *run.StageResult { return &run.StageResult{Regret: run.Regret{Absolute: x}} }
	got := table13(Options{}).Cells[0].Value([]run.SeedResult{{Fed: stage(50)}, {Personal: stage(35)}, {Fed: stage(60)}, {Personal: stage(40)}})
	if math.Abs(got+25) > 1e-12 { // 15 against 20
		t.Errorf("change of the gap %v, want -25", got)
	}
}

// TestLocalModelsAreTheirOwn: local training of a zone does not depend on which
// others there are, so that one run does for all clients of tables 11 and 12.
func TestLocalModelsAreTheirOwn(t *testing.T) {
	d, err := pjm.Generate(pjm.Config{Clients: 3, Days: 30})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	results := map[int]map[int]run.Regret{}
	for n, pick := range map[int][]pjm.Client{3: d.Clients, 2: {d.Clients[0], d.Clients[2]}} {
		file := filepath.Join(dir, string(rune('0'+n))+".csv")
		part := *d
		part.Clients = pick
		if err := part.Export(file); err != nil {
			t.Fatal(err)
		}
		s, err := ParseSettings([]string{"-task", "pjm", "-data", file, "-regime", "local", "-loss", "rspo+", "-train-days", "4", "-rounds", "6"})
		if err != nil {
			t.Fatal(err)
		}
		r, err := s.Run(t.Context(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		results[n] = map[int]run.Regret{}
		for _, c := range r[0].Seeds[0].Personal.Clients {
			results[n][c.Client] = c.Regret
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
	delete(results[3], 2)
	if !reflect.DeepEqual(results[2], results[3]) {
		t.Errorf("regrets %v, with another client %v", results[2], results[3])
	}
}
