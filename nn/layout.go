package nn

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// Segment is one named parameter array inside a flat vector.
type Segment struct {
	// Name is the array's PyTorch name, such as "fc1.weight".
	Name string
	// Shape in PyTorch's orientation: a linear weight is [out, in].
	Shape []int
	// Offset of the first element in the flat vector; Len elements, row-major.
	Offset, Len int
	// Trainable tells a parameter from a buffer (a running statistic).
	Trainable bool
}

// Slice returns the segment's elements of the flat vector v.
func (s Segment) Slice(v []float64) []float64 { return v[s.Offset : s.Offset+s.Len] }

// Layout names the arrays of a model inside its flat vector: trainable
// parameters first, buffers after. The optimiser, clipping and proximal terms
// see the trainable prefix; federation averages the whole vector. A Layout is
// immutable once built.
type Layout struct {
	segments  []Segment
	trainable int
	total     int
}

// Add appends a trainable parameter. It panics on a repeated name, an empty
// shape, or after a buffer was added: a model's layout is code, not input.
func (l *Layout) Add(name string, shape ...int) {
	if l.trainable != l.total {
		panic("nn: parameter " + name + " added after a buffer")
	}
	l.add(name, true, shape)
	l.trainable = l.total
}

// AddBuffer appends a buffer: averaged and saved, but not trained.
func (l *Layout) AddBuffer(name string, shape ...int) { l.add(name, false, shape) }

func (l *Layout) add(name string, trainable bool, shape []int) {
	if _, ok := l.Find(name); ok {
		panic("nn: parameter " + name + " added twice")
	}
	n := 1
	for _, s := range shape {
		if s <= 0 {
			panic(fmt.Sprintf("nn: parameter %s has shape %v", name, shape))
		}
		n *= s
	}
	l.segments = append(l.segments, Segment{Name: name, Shape: shape, Offset: l.total, Len: n, Trainable: trainable})
	l.total += n
}

// Segments returns the arrays in vector order. The caller must not change them.
func (l *Layout) Segments() []Segment { return l.segments }

// Find returns the segment of that name.
func (l *Layout) Find(name string) (Segment, bool) {
	for _, s := range l.segments {
		if s.Name == name {
			return s, true
		}
	}
	return Segment{}, false
}

// Len is the length of the flat vector.
func (l *Layout) Len() int { return l.total }

// Trainable is the length of the vector's trainable prefix.
func (l *Layout) Trainable() int { return l.trainable }

// GlorotUniform fills w with draws from U(-b, b), b = √(6/(fanIn+fanOut))
// (Glorot and Bengio 2010, equation 16).
func GlorotUniform(w []float64, fanIn, fanOut int, r *rand.Rand) {
	b := math.Sqrt(6 / float64(fanIn+fanOut))
	for i := range w {
		w[i] = b * (2*r.Float64() - 1)
	}
}
