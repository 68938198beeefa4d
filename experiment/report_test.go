package experiment

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"fedrspo/report"
	"fedrspo/run"
	"fedrspo/train"
)

// finished trains a small setting and leaves its run folder.
func finished(t *testing.T, args ...string) (Setting, *run.Folder) {
	t.Helper()
	s, err := ParseSettings(append([]string{"-clients", "3", "-train-samples", "60", "-validation-samples", "12", "-test-samples", "30"}, args...))
	if err != nil {
		t.Fatal(err)
	}
	s.Config.Track = 2
	folder, err := run.Create(filepath.Join(t.TempDir(), "run"))
	if err != nil {
		t.Fatal(err)
	}
	results, err := s.Run(context.Background(), nil, func(o Outcome) error {
		return errors.Join(o.Save(folder), folder.AppendMetrics(o.Run.Metrics()))
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(folder.WriteResults(results), folder.WriteJSON(run.VersionFile, Version()), folder.WriteJSON(run.TimingFile, run.Timing{Workers: 1})); err != nil {
		t.Fatal(err)
	}
	return s, folder
}

var plainText = ReportText{Title: "title", Table: func(w io.Writer, r []run.Result) error {
	_, err := fmt.Fprintf(w, "%d results", len(r))
	return err
}}

// pictures lists the pictures of a folder's report.
func pictures(t *testing.T, folder *run.Folder) string {
	t.Helper()
	entries, err := os.ReadDir(folder.Path(report.Dir))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".png"))
	}
	return strings.Join(names, " ")
}

var shortRun = []string{"-rounds", "2", "-epochs", "1"}

// TestReport: runs of every regime get a report from their folders, with the
// decisions of the last stage.
func TestReport(t *testing.T) {
	for name, args := range map[string][]string{
		"federated":   {"-loss", "rspo+,mse", "-seeds", "1,2", "-personal-rounds", "2"},
		"local":       {"-regime", "local", "-loss", "rspo+"},
		"centralised": {"-regime", "centralized", "-loss", "optnet"},
		"interp":      {"-loss", "spo+", "-personalizer", "interp", "-personal-rounds", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			s, folder := finished(t, append(args, shortRun...)...)
			if err := s.Report(context.Background(), folder, nil, plainText); err != nil {
				t.Fatal(err)
			}
			got := pictures(t, folder)
			if strings.Count(got, "decision-") != 3 || !strings.Contains(got, "clients") || !strings.Contains(got, "validation") {
				t.Errorf("pictures %s", got)
			}
			page, err := os.ReadFile(folder.Path(report.File))
			if err != nil || !strings.Contains(string(page), fmt.Sprintf("%d results", len(s.Losses))) || !strings.Contains(string(page), "client of least regret") {
				t.Errorf("the page lacks something (%v)", err)
			}
		})
	}
}

// TestReportDecides: the decisions of a report are those that evaluation finds,
// and their median and extreme clients those of the results.
func TestReportDecides(t *testing.T) {
	s, folder := finished(t, append([]string{"-loss", "rspo+,mse", "-personal-rounds", "2"}, shortRun...)...)
	results, err := folder.Results()
	if err != nil {
		t.Fatal(err)
	}
	show := []Shown{{3, 4}, {1, 0}, {3, 9}}
	p := report.Page{Results: results, Names: map[int]string{}}
	if err := s.decisions(context.Background(), folder, show, &p); err != nil {
		t.Fatal(err)
	}
	if len(p.Decisions) != 3 || p.Names[2] != "client 2" {
		t.Fatalf("%d decisions, names %v", len(p.Decisions), p.Names)
	}
	eval, err := run.Create(filepath.Join(t.TempDir(), "eval"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Evaluate(context.Background(), folder, eval, nil); err != nil {
		t.Fatal(err)
	}
	for i, d := range p.Decisions {
		if d.Client != show[i].Client || d.Sample != show[i].Sample || len(d.Methods) != 2 || d.View.Size == nil {
			t.Fatalf("decision %d is of client %d, sample %d, by %d methods", i, d.Client, d.Sample, len(d.Methods))
		}
		for k, m := range d.Methods {
			table, err := os.ReadFile(eval.Path(s.Losses[k].Name(), "seed-42", "personal.csv"))
			if err != nil {
				t.Fatal(err)
			}
			want := []string{fmt.Sprint(d.Client), fmt.Sprint(d.Sample), number(m.Cost), number(d.Optimum), number(m.Cost - d.Optimum)}
			for _, v := range slices.Concat(m.Chat, m.W) {
				want = append(want, number(v))
			}
			if m.Loss != s.Losses[k].Name() || !strings.Contains(string(table), "\n"+strings.Join(want, ",")+"\n") {
				t.Errorf("decision %d by %s is not in the table of evaluation", i, m.Loss)
			}
			if (m.Regularized != nil) != (m.Loss == "rspo+") || m.Lambda != results[k].Seeds[0].Personal.Clients[d.Client-1].Lambda {
				t.Errorf("%s: lambda %v, regularised decision %v", m.Loss, m.Lambda, m.Regularized != nil)
			}
		}
	}
	p = report.Page{Results: results, Names: map[int]string{}}
	if err := s.decisions(context.Background(), folder, nil, &p); err != nil {
		t.Fatal(err)
	}
	var chosen []float64
	for _, d := range p.Decisions {
		chosen = append(chosen, results[0].Seeds[0].Personal.Clients[d.Client-1].Relative)
	}
	if len(chosen) != 3 || !slices.IsSorted(chosen) {
		t.Errorf("clients of regret %v", chosen)
	}
}

// TestReportRefuses: a folder that lacks a file, or holds a broken one, is one
// error that names the file; a sample that is not there is named too.
func TestReportRefuses(t *testing.T) {
	s, folder := finished(t, append([]string{"-loss", "rspo+", "-personal-rounds", "1"}, shortRun...)...)
	model := run.ModelFile("rspo+", 42, train.StagePersonal)
	for _, name := range []string{run.VersionFile, run.TimingFile, run.ResultFile, run.MetricsFile, model} {
		path := folder.Path(name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, whole[:len(whole)/2], 0o644); err != nil {
			t.Fatal(err)
		}
		if err := s.Report(context.Background(), folder, nil, plainText); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("half of %s: %v", name, err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := s.Report(context.Background(), folder, nil, plainText); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path) {
			t.Errorf("without %s: %v", name, err)
		}
		if err := os.WriteFile(path, whole, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, show := range []Shown{{9, 0}, {1, -1}, {1, 10}} {
		if err := s.Report(context.Background(), folder, []Shown{{1, 0}, show}, plainText); !errors.Is(err, ErrShown) || !strings.Contains(err.Error(), fmt.Sprintf("client %d", show.Client)) {
			t.Errorf("%v: %v", show, err)
		}
	}
	if err := s.Report(context.Background(), folder, []Shown{{2, 3}}, plainText); err != nil {
		t.Error(err)
	}
	// Other data would be drawn beside results that say nothing about them.
	other := s
	other.Data.EtaObj = 0.5
	if err := other.Report(context.Background(), folder, nil, plainText); !errors.Is(err, run.ErrData) || !strings.Contains(err.Error(), folder.Path(run.ResultFile)) {
		t.Errorf("other data: %v", err)
	}
	// A run that was interrupted in its first stage has nothing to show.
	if err := folder.WriteResults([]run.Result{{Task: "knapsack", Loss: "rspo+", Metric: run.RelativeRegret}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Report(context.Background(), folder, []Shown{{1, 0}}, plainText); !errors.Is(err, ErrShown) || !strings.Contains(err.Error(), "no stage was finished") {
		t.Errorf("nothing finished: %v", err)
	}
	if err := s.Report(context.Background(), folder, nil, plainText); err != nil {
		t.Errorf("nothing finished: %v", err)
	}
}

func TestParseShown(t *testing.T) {
	if s, err := ParseShown("3:17"); err != nil || s != (Shown{3, 17}) {
		t.Errorf("got %v, %v", s, err)
	}
	for _, bad := range []string{"", "3", "3:", ":3", "a:1", "1:2:3", "1:2 ", "+1:2", "01:2", "1.5:2"} {
		if s, err := ParseShown(bad); err == nil {
			t.Errorf("%q is %v", bad, s)
		}
	}
}
