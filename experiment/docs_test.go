package experiment

import (
	"bytes"
	"context"
	"errors"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"fedrspo/run"
)

// inventedDocs writes all pages from invented results, and returns them.
func inventedDocs(t *testing.T, quick bool) map[string][]byte {
	t.Helper()
	r := invented(func(j Job) float64 {
		for _, a := range j.Args {
			if a == "rspo+" {
				return 2
			}
		}
		return 10
	})
	folder := tempFolder(t)
	d := Docs{Folder: folder, Quick: quick, Result: r.Result, Cost: r.Cost}
	d.Finish = func(ctx context.Context, table *Table, o Options) (*Finished, error) { return table.Finish(ctx, r, o) }
	d.bounds = func(_ context.Context, e [3]float64, seed int64) (*Bounds, error) {
		b := &Bounds{Setting: eta(e).String(), Seed: seed, Pairs: []Pair{{I: 1, J: 2, Observed: 1, Bound: 4}, {I: 2, J: 1, Observed: 2, Bound: 5}}}
		if e == [3]float64{} {
			b.Pairs = []Pair{{I: 1, J: 2}}
		}
		return b, nil
	}
	if err := d.Write(context.Background()); err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	err := filepath.WalkDir(folder.Path(), func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, _ := filepath.Rel(folder.Path(), path)
		files[filepath.ToSlash(name)], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// volatile are the lines that may differ between two makings of a page.
var volatile = regexp.MustCompile(`(?m)^(Cost|Made): .*$`)

// TestDocs: a page for everything, each with its command, table and findings;
// links lead somewhere; the same results give the same pages.
func TestDocs(t *testing.T) {
	files := inventedDocs(t, false)
	for name, wants := range map[string][]string{
		"README.md":   {"reproduce -docs docs/experiments\n", "| [Table 3](table-3.md): ", "(bounds.md)", "| 70 |", "Table 6 (Warcraft) takes hours", "## Findings"},
		"table-3.md":  {"    reproduce -table 3 -seeds 50\n", "-lr matched -seeds 50", "-lr tuned -seeds 50", "| 15.9 ± 3.3 |", "RSPO+ then SPO+", "calibrated learning rate of RSPO+ is 0.0048", "Chosen rates", "| setting | stage | paper rates | matched rates | tuned rates |", "RSPO+ in 7 of 7 settings federated", "RSPO+ is better than SPO+ in 14 of 14"},
		"table-4.md":  {"the paper prints 2.42 ± 0.30 for Interp-DFFL; as described it gives", "is the one that table 14 prints for local-only SPO+"},
		"table-9.md":  {"RSPO+ (Full) against RSPO+ w/ lambda_j/eta_j + P, gain"},
		"table-14.md": {"local-only SPO+ less personalised FedRSPO+"},
		"table-16.md": {"| 21.44 |", "judged cells agree"},
		"table-17.md": {"(paper: 31 %)"},
		"table-18.md": {"RSPO+ 2.0", "16.96 against 40.83"},
		"text.md":     {"    reproduce -text\n", "| 0.807 |"},
		"figure-3.md": {"    reproduce -figure 3\n", "Seeds: 42, 69, 1993, 67, 2026.", "![client fraction](figure-3/fraction.png)"},
		"figure-4.md": {"    reproduce -figure 4\n", "(figure-4/monitor.png)", "FedRSPO+ outperforms SPO+ at every point of every sweep (section 4.1): holds"},
		"bounds.md":   {"    reproduce -bounds\n", "bound holds for 2 of 2 pairs; the observed gap is at most 0.4 of it", "the bound vanishes"},
	} {
		text := string(files[name])
		for _, want := range append(wants, "# ") {
			if !strings.Contains(text, want) {
				t.Errorf("%s lacks %q", name, want)
			}
		}
		if strings.Contains(text, "NaN") || strings.Contains(text, "%!") || strings.Contains(text, "Inf") {
			t.Errorf("%s has a number that is none:\n%s", name, text)
		}
		if !volatile.MatchString(text) {
			t.Errorf("%s names no cost, date and machine", name)
		}
		checkTables(t, text)
		for _, link := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(text, -1) {
			if files[link[1]] == nil {
				t.Errorf("%s links to %s, which is not there", name, link[1])
			}
		}
	}
	pictures := 0
	for name, data := range files {
		if strings.HasSuffix(name, ".png") {
			pictures++
			if _, err := png.Decode(bytes.NewReader(data)); err != nil || len(data) > 40e3 {
				t.Errorf("%s: %d bytes, %v", name, len(data), err)
			}
		}
	}
	if pictures != 7 {
		t.Errorf("%d pictures, want 7", pictures)
	}
	again := inventedDocs(t, false)
	if len(again) != len(files) {
		t.Errorf("%d files, then %d", len(files), len(again))
	}
	for name, data := range files {
		if !bytes.Equal(volatile.ReplaceAll(data, nil), volatile.ReplaceAll(again[name], nil)) {
			t.Errorf("%s differs when it is made again", name)
		}
	}
}

// TestDocsQuick: from one seed the pages come out too, with commands that say
// so.
func TestDocsQuick(t *testing.T) {
	files := inventedDocs(t, true)
	for _, name := range []string{"README.md", "table-3.md", "table-18.md", "figure-3.md", "text.md"} {
		if !strings.Contains(string(files[name]), " -quick\n") {
			t.Errorf("%s: the command does not say -quick", name)
		}
		if strings.Contains(string(files[name]), "NaN") || strings.Contains(string(files[name]), "Inf") {
			t.Errorf("%s has a number that is none", name)
		}
	}
}

// TestDocsErrors: what goes wrong in a table or a page is the error.
func TestDocsErrors(t *testing.T) {
	broken := errors.New("broken")
	d := Docs{Folder: tempFolder(t), Finish: func(context.Context, *Table, Options) (*Finished, error) { return nil, broken }}
	if err := d.Write(context.Background()); !errors.Is(err, broken) {
		t.Errorf("a table that fails: %v", err)
	}
	r := invented(ten)
	d.Finish = func(ctx context.Context, table *Table, o Options) (*Finished, error) { return table.Finish(ctx, r, o) }
	d.Result, d.Cost, d.Quick = r.Result, r.Cost, true
	file, err := run.Reopen(t.TempDir())
	if err == nil {
		err = os.Mkdir(file.Path("table-3.md"), 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	d.Folder = file
	if err := d.Write(context.Background()); err == nil || !strings.Contains(err.Error(), "table-3.md") {
		t.Errorf("a page that cannot be written: %v", err)
	}
}
