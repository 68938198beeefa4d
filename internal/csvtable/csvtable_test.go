package csvtable

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var columns = Columns{{Name: "a"}, {Name: "x_", Count: 2}, {Name: "b"}}

func TestColumns(t *testing.T) {
	var names []string
	for i := range columns.Count() {
		names = append(names, columns.Name(i))
	}
	if !slices.Equal(names, []string{"a", "x_0", "x_1", "b"}) || columns.Name(4) != "" {
		t.Errorf("columns %q", names)
	}
	if got := columns.String(); got != "4 columns a,x_0..x_1,b" {
		t.Error(got)
	}
	if got := (Columns{{Name: "c_", Count: 1}}).String(); got != "1 columns c_0" {
		t.Error(got)
	}
}

// TestHeaders reads the same numbers through headers of every kind.
func TestHeaders(t *testing.T) {
	for name, c := range map[string]struct {
		format Format
		text   string
	}{
		"exact":     {Format{Columns: columns}, "a,x_0,x_1,b\n1,2,3,4\n5,6,7,8\n"},
		"any order": {Format{Columns: columns, Header: AnyOrder}, "b,x_1,a,x_0\n4,3,1,2\n8,7,5,6\n"},
		"superset":  {Format{Columns: columns, Header: Superset}, "z,b,x_1,z,a,x_0\nq,4,3,,1,2\nq,8,7,,5,6\n"},
		"skipped":   {Format{Columns: columns, Skip: 2}, "Some title, with \"quotes\n\na,x_0,x_1,b\n1,2,3,4\n5,6,7,8"},
		"mark":      {Format{Columns: columns}, ByteOrderMark + "a,x_0,x_1,b\r\n1,2,3,4\r\n5,6,7,8\r\n"},
	} {
		var got []float64
		var lines []int
		err := Read(strings.NewReader(c.text), "t.csv", c.format, func(r *Row) (err error) {
			lines = append(lines, r.Line()-c.format.Skip)
			got, err = r.Numbers(got, 0, 4)
			return err
		})
		if err != nil || !slices.Equal(got, []float64{1, 2, 3, 4, 5, 6, 7, 8}) || !slices.Equal(lines, []int{2, 3}) {
			t.Errorf("%s: %v in lines %v, %v", name, got, lines, err)
		}
	}
}

func TestMalformed(t *testing.T) {
	any, super := Format{Columns: columns, Header: AnyOrder}, Format{Columns: columns, Header: Superset}
	skip := Format{Columns: columns, Skip: 2}
	for name, c := range map[string]struct {
		format Format
		text   string
		says   string
	}{
		"unknown column":  {any, "a,x_0,x_1,b,y\n", `t.csv: line 1, column y: no such column belongs here, want a header of 4 columns`},
		"missing column":  {any, "a,x_0,b\n", `t.csv: line 1, column x_1: the column is missing`},
		"duplicate":       {any, "a,x_0,x_1,b,a\n", `t.csv: line 1, column a: the column is there twice`},
		"other separator": {any, "a;x_0;x_1;b\n", `t.csv: line 1: 1 columns, want 4 columns`},
		"super missing":   {super, "a,x_0,c,d\n", `t.csv: line 1, column x_1: the column is missing`},
		"super duplicate": {super, "a,b,b,x_1,x_0\n", `t.csv: line 1, column b: the column is there twice`},
		"super short row": {super, "a,b,c,x_1,x_0\n1,2,3\n", `t.csv: line 2: 3 columns, want 5 as in the header`},
		"short row":       {any, "a,b,x_1,x_0\n1,2,3\n", `t.csv: line 2: 3 columns, want 4 columns a`},
		"empty":           {any, "", `t.csv: line 1: the file is empty`},
		"skipped to end":  {skip, "one\n", `t.csv: line 2: the file is empty`},
		"skipped only":    {skip, "one\ntwo\n", `t.csv: line 3: the file is empty`},
		"skipped quote":   {skip, "one\ntwo\na,x_0,x_1,b\n1,2,\"3,4\n", `t.csv: line 4: extraneous`},
		"field":           {any, "b,x_1,a,x_0\n4,3,1,NaN\n", `t.csv: line 2, column x_0: got "NaN", want a finite number`},
	} {
		err := Read(strings.NewReader(c.text), "t.csv", c.format, func(r *Row) error {
			_, err := r.Numbers(nil, 0, 4)
			return err
		})
		if !errors.Is(err, ErrFormat) || !strings.HasPrefix(fmt.Sprint(err), c.says) {
			t.Errorf("%s: %v, want %s", name, err, c.says)
		}
	}
	err := ReadFile(filepath.Join(t.TempDir(), "none"), any, nil)
	if !errors.Is(err, ErrFormat) || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// TestWriteReadsBack: numbers keep their bits.
func TestWriteReadsBack(t *testing.T) {
	want := []float64{1. / 3, -2.5e-308, 0, 1e300}
	var b strings.Builder
	if err := Write(&b, columns, func(emit func([]string) error) error { return emit(AppendNumbers(nil, want...)) }); err != nil {
		t.Fatal(err)
	}
	err := Read(strings.NewReader(b.String()), "t.csv", Format{Columns: columns}, func(r *Row) error {
		got, err := r.Numbers(nil, 0, 4)
		if !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}
