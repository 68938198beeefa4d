package run_test

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"fedrspo/run"
)

// evaluation writes what an evaluation leaves, and the text as its table.
func evaluation(t *testing.T, d *run.Draft, text string) {
	t.Helper()
	for _, name := range []string{run.VersionFile, run.ResultFile, filepath.Join("rspo+", "seed-1", "fed.csv")} {
		if err := os.MkdirAll(filepath.Dir(d.Path(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(d.Path(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func draft(t *testing.T, path string) *run.Draft {
	t.Helper()
	d, err := run.NewDraft(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// names lists a folder.
func names(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return strings.Join(out, " ")
}

// TestDraft: nothing is at the final place before Commit, all of it after, and
// nothing beside it; Discard leaves what was there before.
func TestDraft(t *testing.T) {
	top := t.TempDir()
	final := filepath.Join(top, "a", "b", "eval")
	table := filepath.Join(final, "rspo+", "seed-1", "fed.csv")
	content := func() string {
		data, err := os.ReadFile(table)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	d := draft(t, final)
	evaluation(t, d, "first")
	if _, err := os.Stat(final); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("before Commit: %v", err)
	}
	if err := d.Discard(); err != nil || names(t, top) != "" {
		t.Errorf("Discard leaves %q, error %v", names(t, top), err)
	}
	for _, text := range []string{"first", "second"} {
		d, other := draft(t, final), draft(t, final)
		evaluation(t, d, text)
		evaluation(t, other, "other")
		if err := d.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := other.Discard(); err != nil {
			t.Fatal(err)
		}
		if got := d.Path(); got != final {
			t.Errorf("Path is %s after Commit", got)
		}
		if err := d.Discard(); err != nil {
			t.Errorf("Discard after Commit: %v", err)
		}
		if got := content(); got != text || names(t, filepath.Dir(final)) != "eval" {
			t.Errorf("after Commit %q, and %s", got, names(t, filepath.Dir(final)))
		}
	}
	// The place may be taken meanwhile.
	d = draft(t, final)
	evaluation(t, d, "third")
	if err := os.WriteFile(filepath.Join(final, "mine"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := d.Commit(); !errors.Is(err, run.ErrFolder) || content() != "second" {
		t.Errorf("a file that came meanwhile: %v", err)
	}
	if err := d.Discard(); err != nil || names(t, filepath.Dir(final)) != "eval" {
		t.Errorf("Discard after it: %v", err)
	}
	// An empty folder is as good as none.
	empty := t.TempDir()
	d = draft(t, empty)
	evaluation(t, d, "x")
	if err := d.Commit(); err != nil || names(t, empty) != "result.json rspo+ version.json" {
		t.Errorf("in an empty folder: %s, %v", names(t, empty), err)
	}
	// A link keeps pointing to the folder.
	link := filepath.Join(top, "link")
	if err := os.Symlink(empty, link); err != nil {
		t.Skipf("no symbolic links here: %v", err)
	}
	d = draft(t, link)
	evaluation(t, d, "y")
	if err := d.Commit(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 || names(t, empty) != "result.json rspo+ version.json" {
		t.Errorf("a link became %v, %v", info, err)
	}
}

// TestDraftRefuses: only what an evaluation alone wrote may be replaced.
func TestDraftRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(dir string) error
		says   string
	}{
		"a run":            {func(d string) error { return os.WriteFile(filepath.Join(d, run.ConfigFile), nil, 0o644) }, run.ConfigFile},
		"a hidden file":    {func(d string) error { return os.WriteFile(filepath.Join(d, ".mine"), nil, 0o644) }, ".mine"},
		"a table of yours": {func(d string) error { return os.WriteFile(filepath.Join(d, "rspo+", "my.csv"), nil, 0o644) }, "my.csv"},
		"notes":            {func(d string) error { return os.WriteFile(filepath.Join(d, "rspo+", "seed-1", "n.txt"), nil, 0o644) }, "n.txt"},
		"deeper":           {func(d string) error { return os.MkdirAll(filepath.Join(d, "rspo+", "seed-1", "a", "b.csv"), 0o755) }, ""},
		"no result":        {func(d string) error { return os.Remove(filepath.Join(d, run.ResultFile)) }, "no " + run.ResultFile},
		"no version":       {func(d string) error { return os.Remove(filepath.Join(d, run.VersionFile)) }, "no " + run.VersionFile},
		"a link":           {func(d string) error { return os.Symlink(d, filepath.Join(d, "rspo+", "seed-1", "l.csv")) }, "l.csv"},
	} {
		final := filepath.Join(t.TempDir(), "eval")
		d := draft(t, final)
		evaluation(t, d, "x")
		if err := d.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := c.change(final); err != nil {
			if runtime.GOOS == "windows" {
				continue
			}
			t.Fatal(err)
		}
		d, err := run.NewDraft(final)
		if c.says == "" { // empty folders are nobody's loss
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if !errors.Is(err, run.ErrFolder) || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), final+" is not empty") {
			t.Errorf("%s: %+v, error %v", name, d, err)
		}
		if got := names(t, filepath.Dir(final)); got != "eval" {
			t.Errorf("%s: left beside it: %s", name, got)
		}
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "below")} {
		if _, err := run.NewDraft(path); !errors.Is(err, run.ErrFolder) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v", path, err)
		}
	}
	t.Chdir(t.TempDir())
	if _, err := run.NewDraft("."); !errors.Is(err, run.ErrFolder) || !strings.Contains(err.Error(), "working directory") {
		t.Errorf("the working directory: %v", err)
	}
}

// TestAdopt: what judging does not recompute comes from the run, client by
// client; regrets do not.
func TestAdopt(t *testing.T) {
	trained := sample()[1]
	trained.Tuning = &run.Tuning{Rate: 0.5}
	for i := range trained.Seeds {
		trained.Seeds[i].Data = "a"
		c := &trained.Seeds[i].Personal.Clients[1]
		c.Validation, c.Alignment, c.Multiplier = &run.Regret{Relative: 1}, &run.Alignment{Gap: 1}, 0.25
	}
	// bare is what judging gives.
	bare := func(data string) run.Result {
		b := sample()[1]
		for i := range b.Seeds {
			s := &b.Seeds[i]
			s.Steps, s.Data = 0, data
			for _, stage := range []*run.StageResult{s.Fed, s.Personal} {
				for k, c := range stage.Clients {
					stage.Clients[k] = run.ClientResult{Client: c.Client, Regret: c.Regret}
				}
			}
		}
		b.Summarize()
		return b
	}
	same := bare("a")
	same.Adopt(trained)
	if !reflect.DeepEqual(same, trained) {
		t.Errorf("got %+v, want %+v", same, trained)
	}
	other := bare("b")
	s := &other.Seeds[0]
	s.Personal.Clients = append(s.Personal.Clients, run.ClientResult{Client: 9})
	s.Personal.Clients[1].Absolute = 77
	other.Seeds = append(other.Seeds, run.SeedResult{Seed: 5, Fed: stage(1, 1)})
	other.Adopt(trained)
	if c := other.Seeds[0].Personal.Clients; c[1].Absolute != 77 || c[1].Multiplier != 0.25 || c[1].Validation != nil || c[1].Alignment != nil || c[0].Lambda != 0.1 || !reflect.DeepEqual(c[2], run.ClientResult{Client: 9}) {
		t.Errorf("on other data: %+v", c)
	}
	if other.Steps != 200 {
		t.Errorf("%d steps, want those of the two seeds of the run", other.Steps)
	}
}
