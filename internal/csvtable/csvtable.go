// Package csvtable reads and writes CSV tables (RFC 4180) with named columns.
// Every defect of a table is one error that names file, line and column, what
// was found and what was expected.
package csvtable

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ErrFormat: a file that cannot be read as what it should be. It is wrapped by
// every FormatError.
var ErrFormat = errors.New("malformed dataset")

// FormatError says what is wrong where in a file.
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

// OpenError returns the FormatError of a file that could not be opened; what
// says what the file holds.
func OpenError(path, what string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return &FormatError{File: path, Want: what, Err: err}
	}
	return &FormatError{File: path, Want: "a readable file", Err: err}
}

// ByteOrderMark starts the text files of some spreadsheet programs; Read skips
// it.
const ByteOrderMark = "\ufeff"

// Column is a column of that name or, for a positive Count, the run of columns
// Name0, Name1, ...
type Column struct {
	Name  string
	Count int
}

// Columns are the header of a table.
type Columns []Column

// Count returns the number of columns.
func (c Columns) Count() int {
	n := 0
	for _, col := range c {
		n += max(1, col.Count)
	}
	return n
}

// Name returns the name of column i, or "" if there is none.
func (c Columns) Name(i int) string {
	for _, col := range c {
		switch {
		case col.Count == 0 && i == 0:
			return col.Name
		case i < col.Count:
			return col.Name + strconv.Itoa(i)
		}
		i -= max(1, col.Count)
	}
	return ""
}

// String abbreviates the header for an error.
func (c Columns) String() string {
	parts := make([]string, len(c))
	for k, col := range c {
		parts[k] = col.Name
		if col.Count > 0 {
			parts[k] += "0"
		}
		if col.Count > 1 {
			parts[k] += ".." + col.Name + strconv.Itoa(col.Count-1)
		}
	}
	return fmt.Sprintf("%d columns %s", c.Count(), strings.Join(parts, ","))
}

// Header says how the header of a file must relate to the columns asked for.
type Header int

const (
	// Exact is the columns and no other, in this order.
	Exact Header = iota
	// AnyOrder is the columns and no other, in any order.
	AnyOrder
	// Superset has the columns anywhere among others, which are ignored.
	Superset
)

// Format says how a file is laid out.
type Format struct {
	// Columns are those to read, in the order in which a Row numbers them.
	Columns Columns
	Header  Header
	// Skip is the number of lines before the header.
	Skip int
}

// Row is one record of a table while it is read. Columns are numbered as in
// Format.Columns.
type Row struct {
	path   string
	line   int
	cols   Columns
	at     []int // field of each column; nil for the same
	record []string
}

// Line returns the line of the file that the row starts in, counted from 1.
func (r *Row) Line() int { return r.line }

// Field returns a field as it is, valid during the call only.
func (r *Row) Field(col int) string {
	if r.at != nil {
		col = r.at[col]
	}
	return r.record[col]
}

// Fail returns the error of a field.
func (r *Row) Fail(col int, want string) error {
	return &FormatError{File: r.path, Line: r.line, Column: r.cols.Name(col), Got: strings.Clone(r.Field(col)), Want: want}
}

// Text returns a field as it is.
func (r *Row) Text(col int) (string, error) {
	if CheckText(r.Field(col)) != nil {
		return "", r.Fail(col, "text without control characters")
	}
	// The field is a piece of the whole line, which would stay in memory.
	return strings.Clone(r.Field(col)), nil
}

// CheckText returns an error unless text can be written to a text file of
// lines and read back unchanged.
func CheckText(text string) error {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
		return errors.New("want text without control characters")
	}
	return nil
}

// ID returns a field as a client ID.
func (r *Row) ID(col int) (int, error) {
	v, err := strconv.Atoi(strings.TrimSpace(r.Field(col)))
	if err != nil || v < 0 {
		return 0, r.Fail(col, "a whole number that identifies a client, not negative")
	}
	return v, nil
}

// Number returns a field as a finite number.
func (r *Row) Number(col int) (float64, error) {
	v, err := strconv.ParseFloat(strings.TrimSpace(r.Field(col)), 64)
	if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, r.Fail(col, "a finite number")
	}
	return v, nil
}

// Numbers appends the fields from to to-1 to dst.
func (r *Row) Numbers(dst []float64, from, to int) ([]float64, error) {
	for col := from; col < to; col++ {
		v, err := r.Number(col)
		if err != nil {
			return dst, err
		}
		dst = append(dst, v)
	}
	return dst, nil
}

// ReadFile reads a CSV file record by record. The row handed to each is valid
// during the call only. The error is a *FormatError, or each's own.
func ReadFile(path string, format Format, each func(*Row) error) error {
	f, err := os.Open(path)
	if err != nil {
		return OpenError(path, "a table of "+format.Columns.String(), err)
	}
	defer f.Close()
	return Read(f, path, format, each)
}

// Read is ReadFile for an open file; path names it in errors.
func Read(f io.Reader, path string, format Format, each func(*Row) error) error {
	in := bufio.NewReaderSize(f, 1<<16)
	if head, err := in.Peek(len(ByteOrderMark)); err == nil && string(head) == ByteOrderMark {
		in.Discard(len(ByteOrderMark))
	}
	cols := format.Columns
	empty := func(line int) error {
		return &FormatError{File: path, Line: line, Want: "a header of " + cols.String(), Err: errors.New("the file is empty")}
	}
	for k := range format.Skip {
		if _, err := in.ReadString('\n'); err == io.EOF {
			return empty(k + 1)
		} else if err != nil {
			return csvError(path, 0, err)
		}
	}
	r := csv.NewReader(in)
	r.ReuseRecord = true
	r.FieldsPerRecord = -1 // checked here, with the line
	current := Row{path: path, cols: cols}
	fields := 0
	for header := true; ; header = false {
		var err error
		current.record, err = r.Read()
		switch {
		case err == io.EOF && header:
			return empty(format.Skip + 1)
		case err == io.EOF:
			return nil
		case err != nil:
			return csvError(path, format.Skip, err)
		}
		current.line, _ = r.FieldPos(0)
		current.line += format.Skip
		if header {
			if current.at, err = current.header(format.Header); err != nil {
				return err
			}
			fields = len(current.record)
			continue
		}
		if len(current.record) != fields {
			want := cols.String()
			if fields != cols.Count() {
				want = fmt.Sprintf("%d as in the header", fields)
			}
			return &FormatError{File: path, Line: current.line, Want: want, Err: fmt.Errorf("%d columns", len(current.record))}
		}
		if err := each(&current); err != nil {
			return err
		}
	}
}

// header checks the record as a header and returns where each column is, nil
// for an Exact one.
func (r *Row) header(h Header) ([]int, error) {
	n := r.cols.Count()
	if h != Superset && len(r.record) != n && (h == Exact || len(r.record) == 1) {
		return nil, &FormatError{File: r.path, Line: r.line, Want: r.cols.String(), Err: fmt.Errorf("%d columns", len(r.record))}
	}
	if h == Exact {
		for i, got := range r.record {
			if strings.TrimSpace(got) != r.cols.Name(i) {
				return nil, r.Fail(i, fmt.Sprintf("%q in a header of %s", r.cols.Name(i), r.cols))
			}
		}
		return nil, nil
	}
	col := make(map[string]int, n)
	at := slices.Repeat([]int{-1}, n)
	for i := range n {
		col[r.cols.Name(i)] = i
	}
	fail := func(name, what string) error {
		return &FormatError{File: r.path, Line: r.line, Column: strings.Clone(name), Err: errors.New(what), Want: "a header of " + r.cols.String()}
	}
	for i, got := range r.record {
		got = strings.TrimSpace(got)
		c, ours := col[got]
		switch {
		case !ours && h == AnyOrder:
			return nil, fail(got, "no such column belongs here")
		case ours && at[c] >= 0:
			return nil, fail(got, "the column is there twice")
		case ours:
			at[c] = i
		}
	}
	if c := slices.Index(at, -1); c >= 0 {
		return nil, fail(r.cols.Name(c), "the column is missing")
	}
	return at, nil
}

// csvError turns an error of encoding/csv, or of the disk, into a FormatError.
func csvError(path string, skipped int, err error) error {
	e := &FormatError{File: path, Want: "comma-separated values", Err: err}
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		e.Line, e.Err = parse.Line+skipped, parse.Err
	}
	return e
}

// Write writes a CSV table: the header, then the records that each emits. The
// slice passed to emit may be reused.
func Write(w io.Writer, cols Columns, each func(emit func([]string) error) error) error {
	out := csv.NewWriter(w)
	header := make([]string, cols.Count())
	for i := range header {
		header[i] = cols.Name(i)
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

// AppendNumbers appends numbers in the shortest form that reads back as the
// same bits.
func AppendNumbers(record []string, v ...float64) []string {
	for _, x := range v {
		record = append(record, strconv.FormatFloat(x, 'g', -1, 64))
	}
	return record
}
