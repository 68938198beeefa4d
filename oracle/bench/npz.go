package bench

import (
	"archive/zip"
	"encoding/binary"
	"fmt"
	"io"

	"fedrspo/internal/npy"
)

// npzWriter writes arrays in NumPy's npz format, version 1.0 (NEP 1): a zip
// archive of npy files.
type npzWriter struct{ zip *zip.Writer }

func newNPZ(w io.Writer) npzWriter { return npzWriter{zip.NewWriter(w)} }

func (n npzWriter) close() error { return n.zip.Close() }

// floats writes a row-major array of float64.
func (n npzWriter) floats(name string, data []float64, shape ...int) error {
	return n.array(name, "<f8", shape, len(data), data)
}

// ints writes a row-major array of int64.
func (n npzWriter) ints(name string, data []int64, shape ...int) error {
	return n.array(name, "<i8", shape, len(data), data)
}

// text writes a scalar byte string.
func (n npzWriter) text(name string, data []byte) error {
	return n.array(name, fmt.Sprintf("|S%d", max(len(data), 1)), nil, 1, data)
}

func (n npzWriter) array(name, dtype string, shape []int, count int, data any) error {
	if size := (npy.Header{Shape: shape}).Len(); size != count {
		return fmt.Errorf("array %s has %d entries, shape %v", name, count, shape)
	}
	w, err := n.zip.Create(name + ".npy")
	if err != nil {
		return err
	}
	if err := npy.WriteHeader(w, dtype, shape...); err != nil {
		return err
	}
	return binary.Write(w, binary.LittleEndian, data)
}
