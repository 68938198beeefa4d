package experiment

import (
	"fmt"
	"strings"
	"testing"
)

// cells returns every cell of every table at the default options, by ID.
func cells(t *testing.T) map[string]Cell {
	t.Helper()
	out := map[string]Cell{}
	for _, tb := range tables {
		table := tb.make(Options{})
		if table.ID != tb.id {
			t.Errorf("table %q is listed as %q", table.ID, tb.id)
		}
		for _, c := range table.Cells {
			id := strings.Join([]string{table.ID, c.Setting, c.Method, c.Stage}, "/")
			if _, twice := out[id]; twice {
				t.Errorf("two cells are called %s", id)
			}
			if (c.Value == nil) == (c.Statistic == nil) || c.Jobs == nil || c.Digits == 0 {
				t.Errorf("%s: want a value or a statistic, jobs and digits", id)
			}
			out[id] = c
		}
	}
	return out
}

// TestTargets: the file parses, and no number is there twice.
func TestTargets(t *testing.T) {
	all := Targets()
	if len(all) != 315 {
		t.Errorf("%d numbers of the paper, want 315", len(all))
	}
	seen := map[string]bool{}
	for _, target := range all {
		key := strings.Join([]string{target.Table, target.Setting, target.Method, target.Stage, target.Metric}, "/")
		if seen[key] {
			t.Errorf("%s is there twice", key)
		}
		seen[key] = true
		if target.Unit == "" || target.Digits < 0 || target.Digits > 5 || target.HasStd && !(target.Std > 0) {
			t.Errorf("%s: %+v", key, target)
		}
	}
	// A number of the paper's table 3, and one of table 17 without deviation.
	if x := findTarget("3", "(0,1,0)", "DPO", "personalized", "relative_regret"); x == nil || x.Mean != 14.1 || x.Std != 2.4 || x.Digits != 1 {
		t.Errorf("DPO +P at (0,1,0): %+v", x)
	}
	if x := findTarget("17", gridSetting, "RSPO+", "personalized", "final_freeze_statistic.max"); x == nil || x.Mean != 0.01761 || x.HasStd || x.Digits != 5 {
		t.Errorf("largest freeze statistic: %+v", x)
	}
	if findTarget("3", "(0,1,0)", "DPO", "+P", "relative_regret") != nil {
		t.Error("a number that is not there was found")
	}
}

// TestEveryTargetHasACell: each number of the paper belongs to exactly one cell.
func TestEveryTargetHasACell(t *testing.T) {
	owners := map[*Target][]string{}
	for id, c := range cells(t) {
		if c.Target != nil {
			owners[c.Target] = append(owners[c.Target], id)
		}
	}
	all := Targets()
	covered := map[string]int{}
	for k := range all {
		target := &all[k]
		covered[target.Table]++
		if len(owners[target]) != 1 {
			t.Errorf("%s %s %s %s %s: cells %v, want 1", target.Table, target.Setting, target.Method, target.Stage, target.Metric, owners[target])
		}
	}
	want := map[string]int{"3": 70, "4": 15, "5": 8, "6": 10, "9": 18, "11": 30, "12": 20, "13": 5, "14": 24, "15": 10, "16": 4, "17": 20, "18": 70,
		"text-4.2": 2, "text-C.5": 1, "text-C.6": 3, "text-fig3": 3, "text-fig4": 2}
	for table, n := range want {
		if covered[table] != n {
			t.Errorf("table %s: %d numbers with cells, want %d", table, covered[table], n)
		}
	}
	if got := uncovered(); len(got) != 0 {
		t.Errorf("not covered: %q", got)
	}
}

// TestInterpReport: the paper's number of Interp-DFFL moves to the column that
// is asked for.
func TestInterpReport(t *testing.T) {
	for report, method := range map[string]string{"": "Interp-DFFL", "calibrated": "Interp-DFFL", "local-endpoint": "Interp-DFFL, local endpoint", "local-only": "local-only SPO+"} {
		n := 0
		for _, c := range table4(Options{InterpReport: report}).Cells {
			if c.Target != nil && c.Target.Method == "Interp-DFFL" {
				if n++; c.Method != method {
					t.Errorf("-interp-report %s: the number stands at %s", report, c.Method)
				}
			}
		}
		if n != 4 {
			t.Errorf("-interp-report %q: %d numbers, want 4", report, n)
		}
	}
}

// TestKnownDifferences: every entry names a cell with a number of the paper, or
// a claim, and has a reason and evidence.
func TestKnownDifferences(t *testing.T) {
	all := cells(t)
	ids := map[string]bool{}
	for id, c := range all {
		ids[id] = c.Target != nil
	}
	for _, tb := range tables {
		for _, c := range tb.make(Options{}).Claims {
			ids[tb.id+"/claim/"+c.ID] = true
		}
	}
	for _, r := range []string{"calibrated", "local-endpoint", "local-only"} {
		for _, c := range table4(Options{InterpReport: r}).Cells {
			if c.Target != nil {
				ids[strings.Join([]string{"4", c.Setting, c.Method, c.Stage}, "/")] = true
			}
		}
	}
	rows := mustRead("known.csv", knownCSV, 3)
	for _, r := range rows {
		if !ids[r[0]] {
			t.Errorf("known.csv: %q is no judged cell or claim", r[0])
		}
		if len(r[1]) < 10 || len(r[2]) < 10 {
			t.Errorf("known.csv: %s: want a reason and evidence, got %q and %q", r[0], r[1], r[2])
		}
	}
	if len(knownDifferences()) != len(rows) {
		t.Error("known.csv names something twice")
	}
}

// TestJobsParse: the settings of every run of every table, at all rates, are
// settings of the train command without an idle flag.
func TestJobsParse(t *testing.T) {
	seen := map[string]bool{}
	for _, rates := range []string{"paper", "matched", "tuned"} {
		for _, tb := range tables {
			table := tb.make(Options{Rates: rates})
			if table.PaperRates && rates != "paper" {
				continue
			}
			for _, c := range table.Cells {
				for _, j := range c.Jobs(7) {
					switch rates {
					case "matched":
						j = j.at("matched")
					case "tuned":
						j = j.at(scaledRate(0.003))
					}
					if seen[j.recipe()] {
						continue
					}
					seen[j.recipe()] = true
					s, err := j.setting()
					if err != nil {
						t.Errorf("%s: %v", j.Command(), err)
						continue
					}
					if len(s.Seeds) != 1 || s.Seeds[0] != 7 || len(s.Losses) != 1 {
						t.Errorf("%s: seeds %v, %d losses", j.Command(), s.Seeds, len(s.Losses))
					}
				}
			}
		}
	}
	if len(seen) < 300 {
		t.Errorf("%d settings in all tables, which is too few", len(seen))
	}
	if fmt.Sprint(grid27()[0], grid27()[26], len(grid27())) != "(0,0,0) (1,1,1) 27" {
		t.Errorf("grid %v", grid27())
	}
}
