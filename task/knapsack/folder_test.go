package knapsack

import (
	"errors"
	"fedrspo/internal/csvtable"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// writeFolder writes files to a new folder.
func writeFolder(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// readFolder returns the content of every file of a folder.
func readFolder(t testing.TB, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range entries {
		content, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		files[e.Name()] = string(content)
	}
	return files
}

func export(t testing.TB, d *Dataset, dir string) {
	t.Helper()
	if err := d.Export(dir); err != nil {
		t.Fatal(err)
	}
}

// byHand is a dataset folder as somebody would write it.
func byHand() map[string]string {
	return map[string]string{
		"dataset.json": `{"format": "fedrspo-knapsack-1", "name": "my-task", "items": 3, "features": 2}`,
		"clients.csv": "client,name,capacity,weight_0,weight_1,weight_2\n" +
			"7,\"Bergen, NO\",2.5,1,2,3\n" +
			"3,Oslo,1,1,1,.5\n",
		"train.csv": "client,x_0,x_1,c_0,c_1,c_2\n" +
			"7,1,2,-1,-2,-3\n" +
			"3,3,4,-4,-5,-6\n" +
			"7,5,6,-7,-8,-9e-1\n",
		"validation.csv": "client,x_0,x_1,c_0,c_1,c_2\n",
		"test.csv":       "client,x_0,x_1,c_0,c_1,c_2\n3,0,0,0,0,1\n",
	}
}

func TestLoadByHand(t *testing.T) {
	samples := func(x, c []float64) Samples {
		s := newSamples(3, 2)
		s.X.Data, s.C.Data = x, c
		return s
	}
	want := &Dataset{Name: "my-task", Items: 3, Features: 2, Clients: []Client{
		{
			ID: 3, Name: "Oslo", Capacity: 1, Weights: []float64{1, 1, 0.5},
			Train: samples([]float64{3, 4}, []float64{-4, -5, -6}),
			Val:   samples(nil, nil),
			Test:  samples([]float64{0, 0}, []float64{0, 0, 1}),
		},
		{
			ID: 7, Name: "Bergen, NO", Capacity: 2.5, Weights: []float64{1, 2, 3},
			Train: samples([]float64{1, 2, 5, 6}, []float64{-1, -2, -3, -7, -8, -0.9}),
			Val:   samples(nil, nil),
			Test:  samples(nil, nil),
		},
	}}
	for name, change := range map[string]func(string) string{
		"as written":      func(s string) string { return s },
		"byte order mark": func(s string) string { return csvtable.ByteOrderMark + s },
		"CRLF":            func(s string) string { return strings.ReplaceAll(s, "\n", "\r\n") },
		"blank lines":     func(s string) string { return strings.ReplaceAll(s, "\n", "\n\n") },
		"spaces":          func(s string) string { return strings.ReplaceAll(s, ",-", ", -") },
		"no last newline": func(s string) string { return strings.TrimSuffix(s, "\n") },
	} {
		t.Run(name, func(t *testing.T) {
			files := byHand()
			for file := range files {
				files[file] = change(files[file])
			}
			got, err := Load(writeFolder(t, files))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
			buildTask(t, got)
		})
	}
}

// TestRoundTrip: what is exported is loaded back bit for bit, and exported again
// byte for byte.
func TestRoundTrip(t *testing.T) {
	for name, d := range map[string]*Dataset{
		"generated": generate(t, Config{Seed: 42, EtaObj: 1. / 3, EtaConstr: 1, EtaData: 0.7}),
		"uneven":    generate(t, Config{Seed: -1, Clients: 7, Items: 3, Features: 1, Train: 50, Val: None, Test: 5, SharedWeights: true, CostScale: ByTrain}),
		"by hand":   tiny(),
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "new", "folder")
			export(t, d, dir)
			got, err := Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			// DeepEqual compares -0 and 0 as equal; the second export does not.
			if !reflect.DeepEqual(got, d) {
				t.Errorf("loaded %+v\nwant %+v", got, d)
			}
			again := filepath.Join(t.TempDir(), "again")
			export(t, got, again)
			if !reflect.DeepEqual(readFolder(t, dir), readFolder(t, again)) {
				t.Error("the second export differs")
			}
		})
	}
}

// TestMalformed: every defect is one error that names the file, the line, the
// column and what was expected.
func TestMalformed(t *testing.T) {
	replace := func(file, old, new string) func(map[string]string) {
		return func(files map[string]string) {
			if !strings.Contains(files[file], old) {
				panic(old)
			}
			files[file] = strings.Replace(files[file], old, new, 1)
		}
	}
	remove := func(file string) func(map[string]string) {
		return func(files map[string]string) { delete(files, file) }
	}
	const sampleHeader = "6 columns client,x_0..x_1,c_0..c_2"
	for name, c := range map[string]struct {
		change       func(map[string]string)
		file         string
		line         int
		column, says string
	}{
		"no description":        {remove("dataset.json"), "dataset.json", 0, "", "description"},
		"no clients file":       {remove("clients.csv"), "clients.csv", 0, "", "6 columns client,name,capacity,weight_0..weight_2"},
		"no training file":      {remove("train.csv"), "train.csv", 0, "", sampleHeader},
		"no validation file":    {remove("validation.csv"), "validation.csv", 0, "", sampleHeader},
		"no test file":          {remove("test.csv"), "test.csv", 0, "", sampleHeader},
		"not JSON":              {replace("dataset.json", "{", "["), "dataset.json", 0, "", "want an object"},
		"unknown field":         {replace("dataset.json", "items", "itms"), "dataset.json", 0, "", "itms"},
		"two objects":           {replace("dataset.json", "}", "}{}"), "dataset.json", 0, "", "one JSON object"},
		"other format":          {replace("dataset.json", "-1", "-9"), "dataset.json", 0, "format", `got "fedrspo-knapsack-9", want "fedrspo-knapsack-1"`},
		"no format":             {replace("dataset.json", `"format": "fedrspo-knapsack-1", `, ""), "dataset.json", 0, "format", `got ""`},
		"no items":              {replace("dataset.json", `"items": 3, `, ""), "dataset.json", 0, "", "0 items and 2 features"},
		"too many items":        {replace("dataset.json", `3`, "1000000000000"), "dataset.json", 0, "", "1 to 1048576"},
		"fraction of an item":   {replace("dataset.json", `3`, "3.5"), "dataset.json", 0, "", "items"},
		"generator":             {replace("dataset.json", "}", `, "generator": {"eta_obj": 99}}`), "dataset.json", 0, "", "eta_obj is 99"},
		"name of two lines":     {replace("dataset.json", "my-task", `my\ntask`), "dataset.json", 0, "", "printable name"},
		"empty file":            {func(f map[string]string) { f["test.csv"] = "" }, "test.csv", 1, "", sampleHeader},
		"wrong header":          {replace("train.csv", "x_1", "x_2"), "train.csv", 1, "x_1", `got "x_2", want "x_1" in a header of ` + sampleHeader},
		"no header":             {replace("clients.csv", "client,name,capacity,weight_0,weight_1,weight_2\n", ""), "clients.csv", 1, "client", `got "7", want "client"`},
		"header too short":      {replace("train.csv", ",c_2", ""), "train.csv", 1, "", "5 columns, want " + sampleHeader},
		"header too long":       {replace("train.csv", ",c_2", ",c_2,c_3"), "train.csv", 1, "", "7 columns, want " + sampleHeader},
		"semicolons":            {func(f map[string]string) { f["test.csv"] = strings.ReplaceAll(f["test.csv"], ",", ";") }, "test.csv", 1, "", "1 columns, want " + sampleHeader},
		"row too short":         {replace("train.csv", ",-5,-6", ",-5"), "train.csv", 3, "", "5 columns, want " + sampleHeader},
		"row too long":          {replace("train.csv", ",-5,-6", ",-5,-6,-7"), "train.csv", 3, "", "7 columns, want " + sampleHeader},
		"open quote":            {replace("train.csv", "7,5", "\"7,5"), "train.csv", 4, "", "comma-separated values"},
		"stray quote":           {replace("clients.csv", "Oslo", "Os\"lo"), "clients.csv", 3, "", "comma-separated values"},
		"not a number":          {replace("train.csv", "-5", "n/a"), "train.csv", 3, "c_1", `got "n/a", want a finite number`},
		"empty number":          {replace("train.csv", "-5", ""), "train.csv", 3, "c_1", `got "", want a finite number`},
		"NaN feature":           {replace("train.csv", "7,1,", "7,NaN,"), "train.csv", 2, "x_0", `got "NaN", want a finite number`},
		"infinite cost":         {replace("test.csv", ",0,1", ",0,-inf"), "test.csv", 2, "c_2", `got "-inf", want a finite number`},
		"overflow":              {replace("test.csv", ",0,1", ",0,1e999"), "test.csv", 2, "c_2", `got "1e999", want a finite number`},
		"unknown client":        {replace("test.csv", "\n3", "\n4"), "test.csv", 2, "client", `got "4", want a client of clients.csv`},
		"client without number": {replace("train.csv", "\n3", "\nOslo"), "train.csv", 3, "client", `got "Oslo", want a whole number`},
		"fractional client":     {replace("clients.csv", "\n3", "\n3.5"), "clients.csv", 3, "client", `got "3.5", want a whole number`},
		"negative client":       {replace("clients.csv", "\n3", "\n-3"), "clients.csv", 3, "client", `got "-3", want a whole number`},
		"duplicate client":      {replace("clients.csv", "\n3", "\n7"), "clients.csv", 3, "client", "first in line 2"},
		"client name":           {replace("clients.csv", "Oslo", "\"Os\nlo\""), "clients.csv", 3, "name", "control characters"},
		"zero weight":           {replace("clients.csv", ",.5", ",0"), "clients.csv", 3, "weight_2", `got "0", want a positive weight`},
		"negative weight":       {replace("clients.csv", ",.5", ",-.5"), "clients.csv", 3, "weight_2", `got "-.5", want a positive weight`},
		"NaN weight":            {replace("clients.csv", ",.5", ",nan"), "clients.csv", 3, "weight_2", "want a finite number"},
		"negative capacity":     {replace("clients.csv", "2.5", "-2.5"), "clients.csv", 2, "capacity", `got "-2.5", want a capacity that is not negative`},
		"infinite capacity":     {replace("clients.csv", "2.5", "Inf"), "clients.csv", 2, "capacity", "want a finite number"},
		"no clients": {func(f map[string]string) {
			f["clients.csv"] = "client,name,capacity,weight_0,weight_1,weight_2\n"
		}, "clients.csv", 0, "", "at least one client"},
		"no training rows": {func(f map[string]string) {
			f["train.csv"] = "client,x_0,x_1,c_0,c_1,c_2\n"
		}, "train.csv", 0, "", "at least one training sample"},
	} {
		t.Run(name, func(t *testing.T) {
			files := byHand()
			c.change(files)
			dir := writeFolder(t, files)
			d, err := Load(dir)
			var f *FormatError
			if d != nil || !errors.As(err, &f) || !errors.Is(err, ErrFormat) {
				t.Fatalf("data %v, error %v", d, err)
			}
			if f.File != filepath.Join(dir, c.file) || f.Line != c.line || f.Column != c.column || f.Want == "" || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %q\nat line %d, column %q; want line %d, column %q and %q", err, f.Line, f.Column, c.line, c.column, c.says)
			}
			if _, there := files[c.file]; !there && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("error %v does not wrap %v", err, fs.ErrNotExist)
			}
		})
	}
}

func TestFormatErrorReads(t *testing.T) {
	err := &FormatError{File: "train.csv", Line: 17, Column: "c_3", Got: "n/a", Want: "a finite number"}
	if got, want := err.Error(), `train.csv: line 17, column c_3: got "n/a", want a finite number`; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	err.Got = strings.Repeat("x", 1<<20)
	if n := len(err.Error()); n > 200 {
		t.Errorf("the error has %d bytes", n)
	}
}

func TestExportReplacesOnlyItsOwn(t *testing.T) {
	small := Config{Clients: 2, Items: 3, Features: 2, Train: 4, Val: 2, Test: 2}
	first := generate(t, small)
	small.Seed = 1
	second := generate(t, small)

	t.Run("unchanged export", func(t *testing.T) {
		dir := t.TempDir() // empty
		export(t, first, dir)
		export(t, second, dir)
		if got, err := Load(dir); err != nil || !reflect.DeepEqual(got, second) {
			t.Errorf("after the second export: %v, error %v", got, err)
		}
	})
	for name, change := range map[string]func(dir string) error{
		"edited table":       func(dir string) error { return appendTo(dir, "test.csv", "1,0,0,-1,-1,-1\n") },
		"edited description": func(dir string) error { return edit(dir, "dataset.json", `"knapsack"`, `"mine"`) },
		"edited generator":   func(dir string) error { return edit(dir, "dataset.json", `"seed": 0`, `"seed": 2`) },
		"another file":       func(dir string) error { return appendTo(dir, "notes.txt", "mine") },
		"another folder":     func(dir string) error { return os.Mkdir(filepath.Join(dir, "sub"), 0o755) },
		"no description":     func(dir string) error { return os.Remove(filepath.Join(dir, "dataset.json")) },
		"own data": func(dir string) error {
			return edit(dir, "dataset.json", "exported_sha256", "name") // a repeated field
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			export(t, first, dir)
			if err := change(dir); err != nil {
				t.Fatal(err)
			}
			checkRefused(t, second, dir)
		})
	}
	t.Run("written by hand", func(t *testing.T) { checkRefused(t, second, writeFolder(t, byHand())) })
	t.Run("other files", func(t *testing.T) {
		checkRefused(t, second, writeFolder(t, map[string]string{"thesis.tex": "years of work"}))
	})
	t.Run("a file", func(t *testing.T) {
		path := filepath.Join(writeFolder(t, map[string]string{"a": "b"}), "a")
		if err := second.Export(path); err == nil {
			t.Error("exported over a file")
		}
	})
}

// checkRefused fails unless Export refuses dir and leaves it as it is.
func checkRefused(t *testing.T, d *Dataset, dir string) {
	t.Helper()
	list := func() (names []string) {
		filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			content, _ := os.ReadFile(path)
			names = append(names, path+": "+string(content))
			return err
		})
		return names
	}
	before := list()
	if err := d.Export(dir); !errors.Is(err, ErrFolder) {
		t.Errorf("error %v, want %v", err, ErrFolder)
	}
	if !reflect.DeepEqual(list(), before) {
		t.Error("a refused export changed the folder")
	}
}

func appendTo(dir, file, text string) error {
	content, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.WriteFile(filepath.Join(dir, file), append(content, text...), 0o644)
}

func edit(dir, file, old, new string) error {
	path := filepath.Join(dir, file)
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !strings.Contains(string(content), old) {
		return errors.New("nothing to edit: " + old)
	}
	return os.WriteFile(path, []byte(strings.Replace(string(content), old, new, 1)), 0o644)
}

// TestEditedExportLoads: the sums of an export do not bind whoever edits it.
func TestEditedExportLoads(t *testing.T) {
	dir := t.TempDir()
	export(t, generate(t, Config{Clients: 2, Items: 1, Features: 1, Train: 4, Val: None, Test: None}), dir)
	if err := appendTo(dir, "test.csv", "2,0.5,-1\n"); err != nil {
		t.Fatal(err)
	}
	d, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d.Clients[1].Test.Len() != 1 {
		t.Errorf("%d test samples, want 1", d.Clients[1].Test.Len())
	}
}

// BenchmarkFolder exports and loads the paper's dataset.
func BenchmarkFolder(b *testing.B) {
	d := generate(b, Config{Seed: 42})
	dir := b.TempDir()
	b.Run("op=export", func(b *testing.B) {
		for b.Loop() {
			export(b, d, dir)
		}
	})
	b.Run("op=load", func(b *testing.B) {
		export(b, d, dir)
		for b.Loop() {
			if _, err := Load(dir); err != nil {
				b.Fatal(err)
			}
		}
	})
}
