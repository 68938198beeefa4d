package bench

import (
	"archive/zip"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
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
	size := 1
	var dims strings.Builder
	for _, s := range shape {
		size *= s
		fmt.Fprintf(&dims, "%d,", s)
	}
	if size != count {
		return fmt.Errorf("array %s has %d entries, shape %v", name, count, shape)
	}
	w, err := n.zip.Create(name + ".npy")
	if err != nil {
		return err
	}
	const magic = "\x93NUMPY\x01\x00"
	header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", dtype, dims.String())
	// Magic, length and header, with the newline at its end, fill 64-byte blocks.
	header += strings.Repeat(" ", 63-(len(magic)+2+len(header))%64) + "\n"
	if _, err := io.WriteString(w, magic); err != nil {
		return err
	}
	if err := binary.Write(w, binary.LittleEndian, uint16(len(header))); err != nil {
		return err
	}
	if _, err := io.WriteString(w, header); err != nil {
		return err
	}
	return binary.Write(w, binary.LittleEndian, data)
}
