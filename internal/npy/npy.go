// Package npy reads and writes NumPy's npy files (NEP 1, NumPy Enhancement
// Proposal; numpy.lib.format) of bytes and floating-point numbers.
//
// Versions 1.0, 2.0 and 3.0 of the header, either byte order and either memory
// order are read; an array always comes out row-major, and straight into the
// caller's slice, so that a file costs no memory twice. What is written is
// version 1.0, little-endian and row-major, as NumPy itself writes it.
package npy

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"strings"
)

// ErrFormat: bytes that are not an npy file, or one of a kind that this package
// does not read. Errors wrap it and say what was expected.
var ErrFormat = errors.New("malformed npy data")

// Type is the type of an array's entries.
type Type uint8

const (
	// Uint8 is NumPy's uint8.
	Uint8 Type = iota
	// Float16 is IEEE 754 binary16.
	Float16
	// Float32 is IEEE 754 binary32.
	Float32
	// Float64 is IEEE 754 binary64.
	Float64
)

// kinds are the Types as they stand in headers, without the byte order.
var kinds = [...]struct {
	code, name string
	size       int
}{Uint8: {"u1", "uint8", 1}, Float16: {"f2", "float16", 2}, Float32: {"f4", "float32", 4}, Float64: {"f8", "float64", 8}}

// String returns NumPy's name of the type.
func (t Type) String() string {
	if int(t) >= len(kinds) {
		return fmt.Sprintf("Type(%d)", uint8(t))
	}
	return kinds[t].name
}

// Header describes an array.
type Header struct {
	Type Type
	// BigEndian and Fortran say how the entries lie in the file: with their most
	// significant byte first, and with the first index moving fastest. Readers
	// need not care.
	BigEndian, Fortran bool
	// Shape are the lengths of the axes; empty for a single number.
	Shape []int
}

// Len is the number of entries.
func (h Header) Len() int {
	n := 1
	for _, s := range h.Shape {
		n *= s
	}
	return n
}

// Bytes is the size of the entries in the file.
func (h Header) Bytes() int { return h.Len() * kinds[h.Type].size }

// malformed returns an error that wraps ErrFormat.
func malformed(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrFormat, fmt.Sprintf(format, args...))
}

// setType reads a type such as "<f2".
func (h *Header) setType(descr string) error {
	code := strings.TrimLeft(descr, "<>|")
	for t, k := range kinds {
		if code != k.code || len(descr) > len(code)+1 {
			continue
		}
		order := strings.TrimSuffix(descr, code)
		if t != int(Uint8) && order != "<" && order != ">" {
			break
		}
		h.Type, h.BigEndian = Type(t), order == ">" && t != int(Uint8)
		return nil
	}
	return malformed("type %q, want uint8 (|u1), or float16, float32 or float64 (<f2, <f4, <f8, or > for big-endian)", descr)
}

// setShape checks and sets the lengths of the axes.
func (h *Header) setShape(shape []int) error {
	size := uint64(kinds[Float64].size)
	for _, s := range shape {
		if s < 0 {
			return malformed("shape %v, want no negative length", shape)
		}
		hi, lo := bits.Mul64(size, uint64(max(s, 1)))
		if size = lo; hi != 0 || size > math.MaxInt {
			return malformed("shape %v, which no memory holds", shape)
		}
	}
	h.Shape = shape
	return nil
}

// parse reads the text of a header, a Python dictionary.
func (h *Header) parse(text string) error {
	p := literal{rest: text}
	seen := map[string]bool{}
	p.take('{')
	for !p.next('}') {
		key := p.text()
		p.take(':')
		switch key {
		case "descr":
			if descr := p.text(); p.err == nil {
				p.err = h.setType(descr)
			}
		case "fortran_order":
			h.Fortran = p.boolean()
		case "shape":
			if shape := p.tuple(); p.err == nil {
				p.err = h.setShape(shape)
			}
		default:
			p.fail("the keys 'descr', 'fortran_order' and 'shape' only, got %q", key)
		}
		if seen[key] {
			p.fail("%q once", key)
		}
		seen[key] = true
		if !p.next(',') {
			p.take('}')
			break
		}
	}
	if p.skip(); p.rest != "" {
		p.fail("nothing behind the dictionary")
	}
	if len(seen) != 3 {
		p.fail("'descr', 'fortran_order' and 'shape'")
	}
	return p.err
}
