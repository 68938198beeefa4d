// Package kernels is the arithmetic of the module's networks on a CUDA device:
// what internal/kernel is on the CPU, operation by operation, on device memory.
//
// The kernels are CUDA C++ (*.cu), compiled by make cuda-kernels to PTX for
// compute capability 7.5, once for float32 and once for float64; the driver
// compiles PTX for the device when a module is loaded. The PTX is kept in the
// repository with the hash of its source, and a test compares them.
//
// # Determinism
//
// There are no atomics, and every sum has one order that depends on shapes
// alone; elementwise operations and [Queue.Adam] round every product and every
// sum and have the bits of the CPU's. Matrix products differ from the CPU's in
// the order of their sums. One device with one version of cuBLAS returns the
// same bits at every run.
package kernels

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
)

//go:embed *.cu *.cuh
var files embed.FS

//go:embed kernels_f32.ptx
var ptx32 []byte

//go:embed kernels_f64.ptx
var ptx64 []byte

// sources are the kernels' files in the order in which they are compiled.
var sources = []string{"common.cuh", "conv.cu", "elementwise.cu", "gemm.cu", "norm.cu", "optim.cu", "pool.cu"}

// Source returns the source of all kernels as one file.
func Source() string {
	var b strings.Builder
	for _, name := range sources {
		data, err := files.ReadFile(name)
		if err != nil {
			panic(err) // embedded
		}
		fmt.Fprintf(&b, "#line 1 %q\n%s", name, data)
	}
	return b.String()
}

// SourceHash returns the SHA-256 of Source, which the PTX files repeat.
func SourceHash() string {
	h := sha256.Sum256([]byte(Source()))
	return hex.EncodeToString(h[:])
}

// Elem is the element type of a module.
type Elem uint8

const (
	// Float64 is double in the sources.
	Float64 Elem = iota
	// Float32 is float in the sources.
	Float32
)

// Size returns the bytes of an element.
func (e Elem) Size() int {
	if e == Float32 {
		return 4
	}
	return 8
}

// String returns "float64" or "float32".
func (e Elem) String() string {
	if e == Float32 {
		return "float32"
	}
	return "float64"
}

// CType returns the type in C.
func (e Elem) CType() string {
	if e == Float32 {
		return "float"
	}
	return "double"
}

// PTX returns the compiled kernels.
func (e Elem) PTX() []byte {
	if e == Float32 {
		return ptx32
	}
	return ptx64
}
