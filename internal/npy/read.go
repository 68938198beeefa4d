package npy

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
)

const (
	magic = "\x93NUMPY"
	// maxHeader bounds the text of a header; NumPy itself trusts 10,000
	// characters.
	maxHeader = 1 << 16
	// chunk is the size of the buffer through which entries are converted.
	chunk = 1 << 16
)

// Reader reads one array.
type Reader struct {
	r      io.Reader
	header Header
	// start is where the entries begin.
	start int64
	done  bool
}

// NewReader reads the header of an npy stream. The error wraps ErrFormat unless
// reading fails.
func NewReader(r io.Reader) (*Reader, error) {
	var fixed [8]byte
	if err := readFull(r, fixed[:], "the magic number"); err != nil {
		return nil, err
	}
	if string(fixed[:len(magic)]) != magic {
		return nil, malformed("it begins with % x, want the magic number % x", fixed[:len(magic)], magic)
	}
	var length [4]byte
	width := 4
	switch major, minor := fixed[6], fixed[7]; {
	case major == 1 && minor == 0:
		width = 2
	case major >= 2 && major <= 3 && minor == 0:
	default:
		return nil, malformed("version %d.%d, want 1.0, 2.0 or 3.0", major, minor)
	}
	if err := readFull(r, length[:width], "the length of the header"); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint32(length[:])
	if n > maxHeader {
		return nil, malformed("a header of %d bytes, want at most %d", n, maxHeader)
	}
	text := make([]byte, n)
	if err := readFull(r, text, "the header"); err != nil {
		return nil, err
	}
	out := &Reader{r: r, start: int64(len(fixed)+width) + int64(n)}
	if err := out.header.parse(string(text)); err != nil {
		return nil, err
	}
	return out, nil
}

// readFull fills buf with what the file must hold.
func readFull(r io.Reader, buf []byte, what string) error {
	n, err := io.ReadFull(r, buf)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return malformed("it ends within %s, after %d of %d bytes", what, n, len(buf))
	}
	return err
}

// Header returns the description of the array.
func (r *Reader) Header() Header { return r.header }

// errTwice: an array is a stream and can be read once.
var errTwice = errors.New("npy: the array has been read already")

// begin checks that an array of n entries can be read.
func (r *Reader) begin(n int) error {
	if r.done {
		return errTwice
	}
	r.done = true
	if n != r.header.Len() {
		return malformed("%d entries in the shape %v, want %d", r.header.Len(), r.header.Shape, n)
	}
	return nil
}

// end checks that the stream holds nothing more.
func (r *Reader) end() error {
	switch n, err := io.ReadFull(r.r, make([]byte, 1)); {
	case n > 0:
		return malformed("bytes behind the last entry, want the end of the file")
	case err == io.EOF:
		return nil
	default:
		return err
	}
}

// ReadUint8 reads an array of Uint8 to dst, row-major. dst must have the array's
// length, and nothing may follow the array. On error dst is unspecified.
func (r *Reader) ReadUint8(dst []uint8) error {
	if r.header.Type != Uint8 {
		return malformed("entries of type %v, want uint8", r.header.Type)
	}
	if err := r.begin(len(dst)); err != nil {
		return err
	}
	if r.columnMajor() {
		if err := read(r, dst, func(b []byte) uint8 { return b[0] }); err != nil {
			return err
		}
		return r.end()
	}
	if err := readFull(r.r, dst, "the entries"); err != nil {
		return err
	}
	return r.end()
}

// ReadFloat64 reads an array of any Type to dst, row-major and exactly. dst must
// have the array's length, and nothing may follow the array. On error dst is
// unspecified.
func (r *Reader) ReadFloat64(dst []float64) error {
	if err := r.begin(len(dst)); err != nil {
		return err
	}
	order := binary.ByteOrder(binary.LittleEndian)
	if r.header.BigEndian {
		order = binary.BigEndian
	}
	convert := map[Type]func(b []byte) float64{
		Uint8:   func(b []byte) float64 { return float64(b[0]) },
		Float16: func(b []byte) float64 { return fromFloat16(order.Uint16(b)) },
		Float32: func(b []byte) float64 { return float64(math.Float32frombits(order.Uint32(b))) },
		Float64: func(b []byte) float64 { return math.Float64frombits(order.Uint64(b)) },
	}[r.header.Type]
	if err := read(r, dst, convert); err != nil {
		return err
	}
	return r.end()
}

// columnMajor says whether entries lie in another order than row-major.
func (r *Reader) columnMajor() bool { return r.header.Fortran && len(r.header.Shape) > 1 }

// read converts all entries to dst.
func read[T any](r *Reader, dst []T, convert func([]byte) T) error {
	size := kinds[r.header.Type].size
	buf := make([]byte, min(chunk, len(dst)*size))
	walk := newWalk(r.header.Shape, r.columnMajor())
	for done := 0; done < len(dst); {
		part := buf[:min(len(buf), (len(dst)-done)*size)]
		if err := readFull(r.r, part, "the entries"); err != nil {
			return err
		}
		for ; len(part) > 0; part = part[size:] {
			dst[walk.at] = convert(part)
			walk.step()
			done++
		}
	}
	return nil
}

// walk goes through the entries in the order of the file; at is the row-major
// place of the current one.
type walk struct {
	shape, stride, index []int // the fastest axis first
	at                   int
}

func newWalk(shape []int, columnMajor bool) *walk {
	if !columnMajor { // one long axis
		n := 1
		for _, s := range shape {
			n *= s
		}
		return &walk{shape: []int{n}, stride: []int{1}, index: []int{0}}
	}
	w := &walk{shape: slices.Clone(shape), stride: make([]int, len(shape)), index: make([]int, len(shape))}
	n := 1
	for axis := len(shape) - 1; axis >= 0; axis-- {
		w.stride[axis] = n
		n *= shape[axis]
	}
	return w
}

// step moves to the next entry.
func (w *walk) step() {
	for axis := range w.shape {
		w.at += w.stride[axis]
		if w.index[axis]++; w.index[axis] < w.shape[axis] {
			return
		}
		w.at -= w.stride[axis] * w.shape[axis]
		w.index[axis] = 0
	}
}

// File is a Reader of a file. Its errors name the file.
type File struct {
	*Reader
	f *os.File
}

// Open opens an npy file, reads its header and compares the size of the file
// with it, so that a file that was cut short is found before memory is set
// aside.
func Open(path string) (*File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	r, err := NewReader(f)
	if err == nil {
		err = checkSize(f, r)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &File{r, f}, nil
}

// checkSize compares the size of a regular file with its header.
func checkSize(f *os.File, r *Reader) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	want := r.start + int64(r.header.Bytes())
	if info.Mode().IsRegular() && info.Size() != want {
		return malformed("%d bytes, want %d for the shape %v of %v: %s", info.Size(), want, r.header.Shape, r.header.Type,
			map[bool]string{true: "it is cut short", false: "bytes follow the last entry"}[info.Size() < want])
	}
	return nil
}

// ReadUint8 is Reader.ReadUint8.
func (f *File) ReadUint8(dst []uint8) error { return f.name(f.Reader.ReadUint8(dst)) }

// ReadFloat64 is Reader.ReadFloat64.
func (f *File) ReadFloat64(dst []float64) error { return f.name(f.Reader.ReadFloat64(dst)) }

// Close closes the file.
func (f *File) Close() error { return f.f.Close() }

// name adds the file's name to an error.
func (f *File) name(err error) error {
	if err != nil {
		err = fmt.Errorf("%s: %w", f.f.Name(), err)
	}
	return err
}
