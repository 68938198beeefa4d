package npy

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"strings"
)

// WriteHeader writes the header of a row-major array: its type as NumPy writes
// it ("<f8") and its shape, none for a single number.
func WriteHeader(w io.Writer, descr string, shape ...int) error {
	var dims strings.Builder
	for i, s := range shape {
		if i > 0 {
			dims.WriteByte(' ')
		}
		fmt.Fprintf(&dims, "%d,", s)
	}
	tuple := dims.String()
	if len(shape) > 1 { // NumPy's own form
		tuple = strings.TrimSuffix(tuple, ",")
	}
	text := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, tuple)
	const fixed = len(magic) + 2 + 2
	// With the newline at its end, the header fills blocks of 64 bytes.
	text += strings.Repeat(" ", 63-(fixed+len(text))%64) + "\n"
	if len(text) > math.MaxUint16 {
		return fmt.Errorf("npy: %d axes, too many for a header", len(shape))
	}
	head := append([]byte(magic), 1, 0)
	head = binary.LittleEndian.AppendUint16(head, uint16(len(text)))
	_, err := w.Write(append(head, text...))
	return err
}

// checkShape returns an error unless n entries have the shape.
func checkShape(n int, shape []int) error {
	size := 1
	for _, s := range shape {
		size *= s
	}
	if size != n {
		return fmt.Errorf("npy: %d entries, shape %v", n, shape)
	}
	return nil
}

// WriteUint8 writes a row-major array of Uint8.
func WriteUint8(w io.Writer, data []uint8, shape ...int) error {
	if err := checkShape(len(data), shape); err != nil {
		return err
	}
	if err := WriteHeader(w, "|u1", shape...); err != nil {
		return err
	}
	_, err := w.Write(data)
	return err
}

// Narrowest returns the smallest of the floating-point types that holds data
// exactly.
func Narrowest(data []float64) Type {
	t := Float16
	for _, x := range data {
		if t == Float16 {
			if _, ok := toFloat16(x); !ok {
				t = Float32
			}
		}
		if t == Float32 && float64(float32(x)) != x && x == x {
			return Float64
		}
	}
	return t
}

// WriteFloat64 writes a row-major array as entries of a floating-point Type. It
// returns an error for a number that the type does not hold exactly.
func WriteFloat64(w io.Writer, t Type, data []float64, shape ...int) error {
	if err := checkShape(len(data), shape); err != nil {
		return err
	}
	if t < Float16 || t > Float64 {
		return fmt.Errorf("npy: numbers as %v, want a floating-point type", t)
	}
	if err := WriteHeader(w, "<"+kinds[t].code, shape...); err != nil {
		return err
	}
	buf := make([]byte, 0, chunk)
	for i, x := range data {
		exact := true
		switch t {
		case Float16:
			var b uint16
			b, exact = toFloat16(x)
			buf = binary.LittleEndian.AppendUint16(buf, b)
		case Float32:
			exact = float64(float32(x)) == x || x != x
			buf = binary.LittleEndian.AppendUint32(buf, math.Float32bits(float32(x)))
		default:
			buf = binary.LittleEndian.AppendUint64(buf, math.Float64bits(x))
		}
		if !exact {
			return fmt.Errorf("npy: entry %d is %v, which %v does not hold", i, x, t)
		}
		if len(buf) == cap(buf) || i == len(data)-1 {
			if _, err := w.Write(buf); err != nil {
				return err
			}
			buf = buf[:0]
		}
	}
	return nil
}
