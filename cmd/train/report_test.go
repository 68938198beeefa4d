package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedrspo/internal/cli"
	"fedrspo/report"
)

// TestReport: a run leaves a page that shows the table it prints; -report-of
// writes the same page again from the folder alone.
func TestReport(t *testing.T) {
	data, dir := smallData(t), t.TempDir()
	out := filepath.Join(dir, "run")
	printed := mustTrain(t, "-data", data, "-loss", "rspo+,mse", "-seeds", "1,2", "-rounds", "2", "-personal-rounds", "2", "-report", "on", "-out", out)
	before := tree(t, out)
	page := before[report.File]
	_, table, _ := strings.Cut(printed.stdout, "\n\n")
	table, _, _ = strings.Cut(table, "\n\n")
	table = strings.ReplaceAll(table, "+", "&#43;")
	if table == "" || !strings.Contains(page, table) {
		t.Errorf("the page lacks the table\n%s", table)
	}
	if !strings.Contains(printed.stdout, out+" in ") || !strings.Contains(printed.stdout, report.File+" in ") {
		t.Errorf("the folder and the page are not named: %v", printed)
	}
	for _, text := range []string{"north", data} {
		if !strings.Contains(page, text) {
			t.Errorf("the page lacks %q", text)
		}
	}
	if before[report.Dir+"/validation.png"] == "" || before[report.Dir+"/schedule.png"] == "" {
		t.Error("pictures are missing")
	}
	// Again, after the page is gone.
	if err := os.RemoveAll(filepath.Join(out, report.Dir)); err != nil {
		t.Fatal(err)
	}
	if again := mustTrain(t, "-report-of", out); again.stdout != filepath.Join(out, report.File)+"\n" || again.stderr != "" {
		t.Errorf("-report-of says %v", again)
	}
	sameRun(t, out, restore(t, before))
	// Chosen samples.
	mustTrain(t, "-report-of", out, "-show", "5:1, 1:0")
	after := tree(t, out)
	if after[report.Dir+"/decision-1-client-5-sample-1.png"] == "" || after[report.Dir+"/decision-2-client-1-sample-0.png"] == "" || strings.Count(after[report.File], "asked for") < 2 {
		t.Error("the chosen samples are not shown")
	}
}

// restore writes files to a new folder.
func restore(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		write(t, path, text)
	}
	return dir
}

// TestReportPictures: equal runs have equal pictures, by any number of workers;
// the pages differ by their times only.
func TestReportPictures(t *testing.T) {
	data, dir := smallData(t), t.TempDir()
	for _, workers := range []string{"1", "3"} {
		mustTrain(t, "-data", data, "-rounds", "2", "-personal-rounds", "2", "-report", "on", "-workers", workers, "-out", filepath.Join(dir, workers))
	}
	sameRun(t, filepath.Join(dir, "1"), filepath.Join(dir, "3"), report.File)
}

// TestReportUsage: mistakes around the report are usage errors; a folder that
// lacks something fails and names it.
func TestReportUsage(t *testing.T) {
	data, dir := smallData(t), t.TempDir()
	out := filepath.Join(dir, "run")
	mustTrain(t, "-data", data, "-rounds", "1", "-personal-rounds", "1", "-out", out)
	if _, err := os.Stat(filepath.Join(out, report.File)); !os.IsNotExist(err) {
		t.Errorf("-report off: %v", err)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"-report", "maybe"}, `-report is "maybe"`},
		{[]string{"-report", "on", "-out", "none"}, "-report"},
		{[]string{"-track", "2", "-out", "none"}, "-track"},
		{[]string{"-show", "1:0"}, "-show has no effect without -report-of"},
		{[]string{"-report-of", out, "-loss", "mse"}, "-loss has no effect with -report-of"},
		{[]string{"-report-of", ""}, "-report-of has an empty value"},
		{[]string{"-report-of", out, "-show", "1"}, `"1", want client:sample`},
		{[]string{"-report-of", out, "-eval", out}, "has no effect with"},
	} {
		checkError(t, program(c.args...), cli.Usage, c.says)
	}
	checkError(t, program("-report-of", out, "-show", "3:0"), cli.Failed, "client 3")
	checkError(t, program("-report-of", out, "-show", "1:99"), cli.Failed, "test samples 0 to 3")
	if err := os.Remove(filepath.Join(out, "metrics.jsonl")); err != nil {
		t.Fatal(err)
	}
	checkError(t, program("-report-of", out), cli.Failed, "metrics.jsonl")
	checkError(t, program("-report-of", filepath.Join(dir, "nowhere")), cli.Usage, "nowhere")
}
