package knapsack

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ErrFormat: a file of a dataset folder that cannot be read as what it should
// be. It is wrapped by every FormatError.
var ErrFormat = errors.New("malformed dataset")

// FormatError says what is wrong where in a dataset folder.
type FormatError struct {
	// File is the path of the file.
	File string
	// Line is the line in the file, counted from 1, the header included; 0 if
	// the error concerns no single line.
	Line int
	// Column is the name of the column or field; empty if the error concerns no
	// single one.
	Column string
	// Got is the text that was found, Want what was expected instead.
	Got, Want string
	// Err is the cause, or nil.
	Err error
}

// Error returns, for instance,
//
//	data/train.csv: line 17, column c_3: got "n/a", want a finite number
func (e *FormatError) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	sep := ": "
	if e.Line > 0 {
		fmt.Fprintf(&b, "%sline %d", sep, e.Line)
		sep = ", "
	}
	if e.Column != "" {
		fmt.Fprintf(&b, "%scolumn %s", sep, e.Column)
	}
	if e.Err != nil {
		fmt.Fprintf(&b, ": %v", e.Err)
	} else {
		fmt.Fprintf(&b, ": got %.60q", e.Got)
	}
	fmt.Fprintf(&b, ", want %s", e.Want)
	return b.String()
}

// Unwrap returns ErrFormat and the cause.
func (e *FormatError) Unwrap() []error {
	if e.Err == nil {
		return []error{ErrFormat}
	}
	return []error{ErrFormat, e.Err}
}

// byteOrderMark starts the text files of some spreadsheet programs.
const byteOrderMark = "\ufeff"

// indexed is a run of columns prefix0, prefix1, ...
type indexed struct {
	prefix string
	count  int
}

// columns are the header of a table: single names, then runs of numbered ones.
type columns struct {
	names []string
	runs  []indexed
}

func (c columns) count() int {
	n := len(c.names)
	for _, r := range c.runs {
		n += r.count
	}
	return n
}

// name returns the name of column i.
func (c columns) name(i int) string {
	if i < len(c.names) {
		return c.names[i]
	}
	i -= len(c.names)
	for _, r := range c.runs {
		if i < r.count {
			return r.prefix + strconv.Itoa(i)
		}
		i -= r.count
	}
	return ""
}

// String abbreviates the header for an error.
func (c columns) String() string {
	parts := slices.Clone(c.names)
	for _, r := range c.runs {
		part := r.prefix + "0"
		if r.count > 1 {
			part += ".." + r.prefix + strconv.Itoa(r.count-1)
		}
		parts = append(parts, part)
	}
	return fmt.Sprintf("%d columns %s", c.count(), strings.Join(parts, ","))
}

// clientColumns is the header of clients.csv.
func (d *Dataset) clientColumns() columns {
	return columns{[]string{"client", "name", "capacity"}, []indexed{{"weight_", d.Items}}}
}

// sampleColumns is the header of a split's table.
func (d *Dataset) sampleColumns() columns {
	return columns{[]string{"client"}, []indexed{{"x_", d.Features}, {"c_", d.Items}}}
}

// row is one record of a table while it is read.
type row struct {
	path   string
	line   int
	cols   columns
	record []string
}

// fail returns the error of a field.
func (r *row) fail(col int, want string) error {
	return &FormatError{File: r.path, Line: r.line, Column: r.cols.name(col), Got: r.record[col], Want: want}
}

// text returns a field as it is.
func (r *row) text(col int) (string, error) {
	if checkName(r.record[col]) != nil {
		return "", r.fail(col, "text without control characters")
	}
	// The record is a piece of the whole line, which would stay in memory.
	return strings.Clone(r.record[col]), nil
}

// id returns a field as a client ID.
func (r *row) id(col int) (int, error) {
	v, err := strconv.Atoi(strings.TrimSpace(r.record[col]))
	if err != nil || v < 0 {
		return 0, r.fail(col, "a whole number that identifies a client, not negative")
	}
	return v, nil
}

// number returns a field as a finite number.
func (r *row) number(col int) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(r.record[col]), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, r.fail(col, "a finite number")
	}
	return v, nil
}

// numbers appends the fields from to to-1 to dst.
func (r *row) numbers(dst []float64, from, to int) ([]float64, error) {
	for col := from; col < to; col++ {
		v, err := r.number(col)
		if err != nil {
			return dst, err
		}
		dst = append(dst, v)
	}
	return dst, nil
}

// readTable reads a CSV file record by record. The row handed to each is valid
// during the call only.
func readTable(dir, name string, cols columns, each func(*row) error) error {
	path := filepath.Join(dir, name)
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &FormatError{File: path, Want: "a table of " + cols.String(), Err: err}
	} else if err != nil {
		return &FormatError{File: path, Want: "a readable file", Err: err}
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<16)
	if head, err := in.Peek(len(byteOrderMark)); err == nil && string(head) == byteOrderMark {
		in.Discard(len(byteOrderMark))
	}
	r := csv.NewReader(in)
	r.ReuseRecord = true
	r.FieldsPerRecord = -1 // checked here, with the line
	current := row{path: path, cols: cols}
	for header := true; ; header = false {
		current.record, err = r.Read()
		switch {
		case err == io.EOF && header:
			return &FormatError{File: path, Line: 1, Want: "a header of " + cols.String(), Err: errors.New("the file is empty")}
		case err == io.EOF:
			return nil
		case err != nil:
			return csvError(path, err)
		}
		current.line, _ = r.FieldPos(0)
		if len(current.record) != cols.count() {
			return &FormatError{File: path, Line: current.line, Want: cols.String(), Err: fmt.Errorf("%d columns", len(current.record))}
		}
		if !header {
			if err := each(&current); err != nil {
				return err
			}
			continue
		}
		for i, got := range current.record {
			if strings.TrimSpace(got) != cols.name(i) {
				return current.fail(i, fmt.Sprintf("%q in a header of %s", cols.name(i), cols))
			}
		}
	}
}

// csvError turns an error of encoding/csv, or of the disk, into a FormatError.
func csvError(path string, err error) error {
	e := &FormatError{File: path, Want: "comma-separated values", Err: err}
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		e.Line, e.Err = parse.Line, parse.Err
	}
	return e
}

// writeTable writes a CSV file: the header, then the records that each emits.
// The slice passed to emit may be reused.
func writeTable(w io.Writer, cols columns, each func(emit func([]string) error) error) error {
	out := csv.NewWriter(w)
	header := make([]string, cols.count())
	for i := range header {
		header[i] = cols.name(i)
	}
	if err := out.Write(header); err != nil {
		return err
	}
	if err := each(out.Write); err != nil {
		return err
	}
	out.Flush()
	return out.Error()
}

// appendNumbers appends numbers in the shortest form that reads back as the
// same bits.
func appendNumbers(record []string, v ...float64) []string {
	for _, x := range v {
		record = append(record, strconv.FormatFloat(x, 'g', -1, 64))
	}
	return record
}
