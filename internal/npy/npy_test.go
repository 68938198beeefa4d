package npy

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestReadsNumPy reads files written by NumPy; testdata/make.py says how.
func TestReadsNumPy(t *testing.T) {
	for name, want := range map[string]Header{
		"u1": {Type: Uint8}, "u1_fortran": {Type: Uint8, Fortran: true},
		"f2": {Type: Float16}, "f2_big_fortran": {Type: Float16, BigEndian: true, Fortran: true},
		"f4_big": {Type: Float32, BigEndian: true}, "f4_fortran_v2": {Type: Float32, Fortran: true},
		"f8_v3": {Type: Float64}, "f8_big_fortran": {Type: Float64, BigEndian: true, Fortran: true},
	} {
		path := filepath.Join("testdata", name+".npy")
		open := func() *File {
			f, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { f.Close() })
			return f
		}
		f := open()
		h := f.Header()
		if h.Type != want.Type || h.BigEndian != want.BigEndian || h.Fortran != want.Fortran || !slices.Equal(h.Shape, []int{2, 3, 4}) || h.Len() != 24 {
			t.Errorf("%s: header %+v, want %+v", name, h, want)
		}
		got := make([]float64, 24)
		if err := f.ReadFloat64(got); err != nil {
			t.Fatal(err)
		}
		for n, x := range got {
			wantX := float64(n)/2 - 3
			if want.Type == Uint8 {
				wantX = float64(n)
			}
			if x != wantX {
				t.Errorf("%s: entry %d is %v, want %v", name, n, x, wantX)
			}
		}
		if err := f.ReadFloat64(got); err == nil {
			t.Errorf("%s: read twice", name)
		}
		raw := make([]uint8, 24)
		err := open().ReadUint8(raw)
		if want.Type != Uint8 {
			if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), path+": ") {
				t.Errorf("%s as uint8: error %v", name, err)
			}
			continue
		}
		for n, x := range raw {
			if err != nil || int(x) != n {
				t.Errorf("%s: entry %d is %v, error %v", name, n, x, err)
			}
		}
	}
}

// TestWritesLikeNumPy: what is written has the bytes of NumPy's own files.
func TestWritesLikeNumPy(t *testing.T) {
	x, n := make([]float64, 24), make([]uint8, 24)
	for i := range x {
		x[i], n[i] = float64(i)/2-3, uint8(i)
	}
	for name, write := range map[string]func(io.Writer) error{
		"u1": func(w io.Writer) error { return WriteUint8(w, n, 2, 3, 4) },
		"f2": func(w io.Writer) error { return WriteFloat64(w, Float16, x, 2, 3, 4) },
	} {
		want, err := os.ReadFile(filepath.Join("testdata", name+".npy"))
		if err != nil {
			t.Fatal(err)
		}
		var got bytes.Buffer
		if err := write(&got); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got.Bytes(), want) {
			t.Errorf("%s: wrote\n%q, NumPy\n%q", name, got.Bytes(), want)
		}
	}
}

// encode writes an array the slow way, entry by entry at its place.
func encode(h Header, data []float64) []byte {
	var b bytes.Buffer
	order := binary.ByteOrder(binary.LittleEndian)
	descr := "<"
	if h.BigEndian {
		order, descr = binary.BigEndian, ">"
	}
	fortran := "False"
	if h.Fortran {
		fortran = "True"
	}
	shape := strings.Join(strings.Fields(strings.Trim(fmt.Sprint(h.Shape), "[]")), ",") + ","
	text := fmt.Sprintf("{'shape': (%s), 'fortran_order': %s, 'descr': %q}\n", strings.TrimPrefix(shape, ","), fortran, descr+kinds[h.Type].code)
	b.WriteString(magic + "\x01\x00")
	binary.Write(&b, binary.LittleEndian, uint16(len(text)))
	b.WriteString(text)
	size := kinds[h.Type].size
	entries := make([]byte, len(data)*size)
	for at, x := range data {
		place := at
		if h.Fortran {
			place = 0
			rest, weight := at, 1
			index := make([]int, len(h.Shape))
			for axis := len(h.Shape) - 1; axis >= 0; axis-- {
				index[axis] = rest % h.Shape[axis]
				rest /= h.Shape[axis]
			}
			for axis, i := range index {
				place += i * weight
				weight *= h.Shape[axis]
			}
		}
		out := entries[place*size:]
		switch h.Type {
		case Uint8:
			out[0] = uint8(x)
		case Float16:
			bits, _ := toFloat16(x)
			order.PutUint16(out, bits)
		case Float32:
			order.PutUint32(out, math.Float32bits(float32(x)))
		case Float64:
			order.PutUint64(out, math.Float64bits(x))
		}
	}
	b.Write(entries)
	return b.Bytes()
}

// TestReadAgainstTwin compares random arrays of all types, orders and numbers of
// axes with a slow encoder, read through a reader that gives few bytes at a
// time.
func TestReadAgainstTwin(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		h := Header{Type: Type(r.IntN(len(kinds))), BigEndian: r.IntN(2) == 0, Fortran: r.IntN(2) == 0}
		for range r.IntN(5) {
			h.Shape = append(h.Shape, r.IntN(6))
		}
		if r.IntN(10) == 0 {
			h.Shape = []int{3, 20000} // more than a chunk
		}
		want := make([]float64, h.Len())
		for i := range want {
			want[i] = float64(r.IntN(256)) // every type holds it
		}
		raw := encode(h, want)
		in, err := NewReader(&slow{raw, r})
		if err != nil {
			t.Fatal(err)
		}
		got := make([]float64, len(want))
		if err := in.ReadFloat64(got); err != nil || !slices.Equal(got, want) {
			t.Fatalf("%+v: got %v, want %v, error %v", h, got, want, err)
		}
		if h.Type != Uint8 {
			continue
		}
		if in, err = NewReader(&slow{raw, r}); err != nil {
			t.Fatal(err)
		}
		bytes := make([]uint8, len(want))
		if err := in.ReadUint8(bytes); err != nil {
			t.Fatal(err)
		}
		for i, x := range bytes {
			if float64(x) != want[i] {
				t.Fatalf("%+v: entry %d is %v, want %v", h, i, x, want[i])
			}
		}
	}
}

// slow is a reader that returns up to a few thousand bytes at a time.
type slow struct {
	rest []byte
	r    *rand.Rand
}

func (s *slow) Read(p []byte) (int, error) {
	if len(s.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 1+s.r.IntN(4000))], s.rest)
	s.rest = s.rest[n:]
	return n, nil
}

// TestFloat16 goes through all 65,536 half-precision numbers: they come back as
// the same bits, ascend as IEEE 754 orders them, and nothing between two of them
// passes for one.
func TestFloat16(t *testing.T) {
	for b := range 1 << 16 {
		x := fromFloat16(uint16(b))
		got, exact := toFloat16(x)
		if math.IsNaN(x) {
			if !exact || !math.IsNaN(fromFloat16(got)) {
				t.Fatalf("%04x: NaN gave %04x, %v", b, got, exact)
			}
			continue
		}
		if !exact || got != uint16(b) {
			t.Fatalf("%04x is %v, back %04x, %v", b, x, got, exact)
		}
		if b&0x7fff == 0 || b&0x7fff == 0x7c00 {
			continue
		}
		below := fromFloat16(uint16(b - 1))
		if !(math.Abs(below) < math.Abs(x)) {
			t.Fatalf("%04x: %v is not beyond %v", b, x, below)
		}
		for _, y := range []float64{(x + below) / 2, math.Nextafter(x, below)} {
			if _, exact := toFloat16(y); exact {
				t.Fatalf("%v passes for a float16", y)
			}
		}
	}
	// IEEE 754-2019, table 3.5: the largest, the least normal and the least
	// number.
	for b, want := range map[uint16]float64{0x7bff: 65504, 0x0400: 0x1p-14, 0x0001: 0x1p-24, 0xc000: -2, 0x3a66: 0.7998046875} {
		if x := fromFloat16(b); x != want {
			t.Errorf("%04x is %v, want %v", b, x, want)
		}
	}
	for _, x := range []float64{65505, 65536, 1e300, 0x1p-25, 5e-324, 0.8} {
		if _, exact := toFloat16(x); exact {
			t.Errorf("%v passes for a float16", x)
		}
	}
}

func TestNarrowest(t *testing.T) {
	nan := math.NaN()
	for _, c := range []struct {
		data []float64
		want Type
	}{
		{nil, Float16}, {[]float64{0.5, nan, math.Inf(-1)}, Float16}, {[]float64{0.5, float64(float32(0.8)), nan}, Float32},
		{[]float64{0.8, 0.5}, Float64}, {[]float64{1e-300}, Float64}, {[]float64{1 << 20}, Float32},
	} {
		if got := Narrowest(c.data); got != c.want {
			t.Errorf("%v: %v, want %v", c.data, got, c.want)
		}
	}
}

// TestRoundTrip: what is written is read.
func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, kind := range []Type{Float16, Float32, Float64} {
		for _, shape := range [][]int{{}, {0}, {7}, {50000}, {2, 0, 3}, {4, 3, 2}} {
			data := make([]float64, Header{Shape: shape}.Len())
			for i := range data {
				data[i] = float64(r.IntN(2048)-1024) / 8
			}
			var b bytes.Buffer
			if err := WriteFloat64(&b, kind, data, shape...); err != nil {
				t.Fatal(err)
			}
			in, err := NewReader(&b)
			if err != nil {
				t.Fatal(err)
			}
			got := make([]float64, len(data))
			if err := in.ReadFloat64(got); err != nil || !slices.Equal(got, data) || !slices.Equal(in.Header().Shape, shape) || in.Header().Type != kind {
				t.Errorf("%v %v: %+v, error %v", kind, shape, in.Header(), err)
			}
		}
	}
}

func TestWriteRefuses(t *testing.T) {
	for name, err := range map[string]error{
		"a wrong shape":         WriteUint8(io.Discard, make([]uint8, 5), 2, 3),
		"a wrong shape, floats": WriteFloat64(io.Discard, Float32, make([]float64, 5), 2, 3),
		"floats as bytes":       WriteFloat64(io.Discard, Uint8, make([]float64, 6), 2, 3),
		"an inexact float16":    WriteFloat64(io.Discard, Float16, []float64{0.8}, 1),
		"an inexact float32":    WriteFloat64(io.Discard, Float32, []float64{0.8}, 1),
		"too many axes":         WriteHeader(io.Discard, "<f8", make([]int, 40000)...),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// file is an npy stream with this header, of this version, and some entries.
func file(version, text string, entries int) string {
	length := binary.LittleEndian.AppendUint16(nil, uint16(len(text)))
	if version != "\x01\x00" {
		length = append(length, 0, 0)
	}
	return magic + version + string(length) + text + strings.Repeat("\x00", entries)
}

// TestMalformed: every defect is one error that says what was expected.
func TestMalformed(t *testing.T) {
	const v1 = "\x01\x00"
	good := "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n"
	header := func(old, new string) string { return file(v1, strings.Replace(good, old, new, 1), 24) }
	for _, c := range []struct{ name, content, want string }{
		{"nothing", "", "ends within the magic number, after 0 of 8"},
		{"text", "1,2,3,4,5,6,7,8", "want the magic number"},
		{"an npz", "PK\x03\x04aaaaaaaa", "want the magic number"},
		{"version 4", file("\x04\x00", good, 24), "version 4.0, want 1.0, 2.0 or 3.0"},
		{"version 1.1", file("\x01\x01", good, 24), "version 1.1"},
		{"no length", magic + v1, "ends within the length of the header"},
		{"a short header", file(v1, good, 0)[:30], "ends within the header"},
		{"a long header", magic + "\x02\x00\xff\xff\xff\x7f", "a header of 2147483647 bytes"},
		{"no dictionary", header("{", "["), `want '{'`},
		{"an open dictionary", header(", }", ""), `want '}'`},
		{"no shape", header("'shape': (2, 3), ", ""), "want 'descr', 'fortran_order' and 'shape'"},
		{"another key", header("'descr'", "'dtype'"), `got "dtype"`},
		{"a key twice", header("'shape'", "'descr': '<f4', 'shape'"), `want "descr" once`},
		{"something behind", header("}", "} x"), "want nothing behind the dictionary"},
		{"an escape", header("'<f4'", `'\x3cf4'`), "want a string"},
		{"a record", header("'<f4'", "[('a', '<f4')]"), "want a string"},
		{"integers", header("<f4", "<i8"), `type "<i8", want uint8`},
		{"native floats", header("<f4", "=f4"), `type "=f4"`},
		{"floats of no order", header("<f4", "f4"), `type "f4"`},
		{"two orders", header("<f4", "<<f4"), `type "<<f4"`},
		{"complex numbers", header("<f4", "<c8"), `type "<c8"`},
		{"an order of 0", header("False", "0"), "want True or False"},
		{"a list as shape", header("(2, 3)", "[2, 3]"), `want '('`},
		{"an open tuple", header("(2, 3)", "(2, 3"), "want a whole number"},
		{"a fractional length", header("(2, 3)", "(2.5, 3)"), `want ')'`},
		{"a negative length", header("(2, 3)", "(-2, 3)"), "no negative length"},
		{"a huge length", header("(2, 3)", "(99999999999999999999, 3)"), "want a whole number"},
		{"a huge array", header("(2, 3)", "(4294967296, 4294967296)"), "which no memory holds"},
		{"cut short", file(v1, good, 23), "want"},
		{"trailing bytes", file(v1, good, 25), "want"},
	} {
		read := func(r io.Reader) error {
			in, err := NewReader(r)
			if err != nil {
				return err
			}
			return in.ReadFloat64(make([]float64, 6))
		}
		if err := read(strings.NewReader(c.content)); !errors.Is(err, ErrFormat) || err == nil || !strings.Contains(err.Error(), c.want) && c.want != "want" {
			t.Errorf("%s: error %v, want %q", c.name, err, c.want)
		}
		path := filepath.Join(t.TempDir(), "a.npy")
		if err := os.WriteFile(path, []byte(c.content), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); !errors.Is(err, ErrFormat) || !strings.HasPrefix(err.Error(), path+": ") || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: opened with error %v, want %q", c.name, err, c.want)
		}
	}
	if _, err := Open(filepath.Join(t.TempDir(), "none.npy")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: error %v", err)
	}
	in, err := NewReader(strings.NewReader(file(v1, good, 24)))
	if err != nil {
		t.Fatal(err)
	}
	if err := in.ReadFloat64(make([]float64, 5)); !errors.Is(err, ErrFormat) {
		t.Errorf("a slice that is too short: error %v", err)
	}
}

// FuzzReader: no stream makes the reader panic or reserve memory for entries
// that are not there.
func FuzzReader(f *testing.F) {
	f.Add([]byte(file("\x01\x00", "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n", 24)))
	f.Add([]byte(file("\x03\x00", "{'descr': \"|u1\", 'fortran_order': True, 'shape': (3L, 2), }\n", 6)))
	f.Fuzz(func(t *testing.T, data []byte) {
		in, err := NewReader(bytes.NewReader(data))
		if err != nil || in.Header().Len() > len(data) {
			return
		}
		in.ReadFloat64(make([]float64, in.Header().Len()))
	})
}
