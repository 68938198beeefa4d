package nn

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/nlpodyssey/safetensors"
)

// Checkpoint is a set of models of one layout, as a safetensors file holds
// them. A file with the single key "" is a PyTorch state dict as it stands:
//
//	model.load_state_dict(safetensors.torch.load_file("fed.safetensors"))
//
// Any other key is a prefix of its model's array names, "key.fc1.weight".
type Checkpoint struct {
	// Precision of the arrays in the file.
	Precision Precision
	// Models maps a key to a flat vector.
	Models map[string][]float64
	// Meta is free text kept in the file.
	Meta map[string]string
}

// Write writes the checkpoint in safetensors format. The bytes depend on the
// content alone. It refuses what ReadCheckpoint would not give back: no models,
// values that are not finite at the file's precision, and keys that make array
// names ambiguous.
func (c Checkpoint) Write(w io.Writer, l *Layout) error {
	if len(c.Models) == 0 {
		return fmt.Errorf("nn: a checkpoint without models")
	}
	views := make(map[string]safetensors.TensorView, len(c.Models)*len(l.segments))
	for key, theta := range c.Models {
		if len(theta) != l.Len() {
			return fmt.Errorf("nn: model %q has %d parameters, want %d", key, len(theta), l.Len())
		}
		for _, s := range l.segments {
			name := tensorName(key, s.Name)
			if k, t, ok := splitName(name, l); !ok || k != key || t.Name != s.Name || !utf8.ValidString(name) {
				return fmt.Errorf("nn: model key %q makes the array name %q ambiguous", key, name)
			}
			v := s.Slice(theta)
			if i := slices.IndexFunc(v, func(x float64) bool { return !c.Precision.holds(x) }); i >= 0 {
				return fmt.Errorf("nn: model %q: %s[%d] is %v in %v: %w", key, s.Name, i, v[i], c.Precision, ErrNonFinite)
			}
			shape := make([]uint64, len(s.Shape))
			for k, n := range s.Shape {
				shape[k] = uint64(n)
			}
			view, err := safetensors.NewTensorView(c.Precision.dtype(), shape, c.Precision.encode(v))
			if err != nil {
				return fmt.Errorf("nn: model %q: %s: %w", key, s.Name, err)
			}
			views[name] = view
		}
	}
	return safetensors.SerializeToWriter(views, c.Meta, w)
}

// ReadCheckpoint reads a checkpoint of models of layout l from the bytes of a
// safetensors file. It refuses a file that lacks an array, holds one that is
// not in l, of another shape, of mixed types, or not finite.
func ReadCheckpoint(data []byte, l *Layout) (c Checkpoint, err error) {
	// The library trusts some fields of a damaged header and may panic.
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("nn: damaged safetensors file: %v", r)
		}
	}()
	st, err := safetensors.Deserialize(data)
	if err != nil {
		return c, fmt.Errorf("nn: not a safetensors file: %w", err)
	}
	_, meta, err := safetensors.ReadMetadata(data)
	if err != nil {
		return c, fmt.Errorf("nn: not a safetensors file: %w", err)
	}
	c = Checkpoint{Models: map[string][]float64{}, Meta: meta.Metadata()}
	tensors := st.Tensors()
	// Counting first keeps a file of few arrays under many keys from asking for
	// a whole vector each.
	seen := map[string]int{}
	for _, t := range tensors {
		key, _, ok := splitName(t.Name, l)
		if !ok {
			return c, fmt.Errorf("nn: array %q belongs to no parameter of the model", t.Name)
		}
		seen[key]++
	}
	if len(seen) == 0 {
		return c, fmt.Errorf("nn: the file holds no arrays")
	}
	for _, key := range slices.Sorted(maps.Keys(seen)) {
		if n := seen[key]; n != len(l.segments) {
			return c, fmt.Errorf("nn: model %q has %d of %d arrays", key, n, len(l.segments))
		}
	}
	for i, t := range tensors {
		key, s, _ := splitName(t.Name, l)
		p, err := precisionOf(t.TensorView.DType())
		if err != nil {
			return c, fmt.Errorf("nn: array %q: %w", t.Name, err)
		}
		if i > 0 && p != c.Precision {
			return c, fmt.Errorf("nn: array %q is %v, others are %v", t.Name, p, c.Precision)
		}
		c.Precision = p
		shape := t.TensorView.Shape()
		if !slices.EqualFunc(shape, s.Shape, func(a uint64, b int) bool { return a == uint64(b) }) {
			return c, fmt.Errorf("nn: array %q has shape %v, want %v", t.Name, shape, s.Shape)
		}
		theta := c.Models[key]
		if theta == nil {
			theta = make([]float64, l.Len())
			c.Models[key] = theta
		}
		v := s.Slice(theta)
		if err := p.decode(v, t.TensorView.Data()); err != nil {
			return c, fmt.Errorf("nn: array %q: %w", t.Name, err)
		}
		for k, x := range v {
			if x-x != 0 {
				return c, fmt.Errorf("nn: array %q: element %d is %v: %w", t.Name, k, x, ErrNonFinite)
			}
		}
	}
	return c, nil
}

func tensorName(key, name string) string {
	if key == "" {
		return name
	}
	return key + "." + name
}

// splitName finds the segment that a tensor's name ends in, the longest one
// where several fit ("layer1.0.conv1.weight" before "conv1.weight").
func splitName(name string, l *Layout) (key string, s Segment, ok bool) {
	for _, t := range l.segments {
		if ok && len(t.Name) < len(s.Name) {
			continue
		}
		if name == t.Name {
			key, s, ok = "", t, true
		} else if k, found := strings.CutSuffix(name, "."+t.Name); found {
			key, s, ok = k, t, true
		}
	}
	return key, s, ok
}

func (p Precision) dtype() safetensors.DType {
	if p == Float32 {
		return safetensors.F32
	}
	return safetensors.F64
}

func precisionOf(d safetensors.DType) (Precision, error) {
	switch d {
	case safetensors.F32:
		return Float32, nil
	case safetensors.F64:
		return Float64, nil
	}
	return 0, fmt.Errorf("element type %v, want F32 or F64", d)
}

// holds says whether x is finite as a number of the precision.
func (p Precision) holds(x float64) bool {
	if p == Float32 {
		x = float64(float32(x))
	}
	return x-x == 0
}

// encode returns v as little-endian bytes.
func (p Precision) encode(v []float64) []byte {
	out := make([]byte, 0, 8*len(v))
	for _, x := range v {
		if p == Float32 {
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(float32(x)))
		} else {
			out = binary.LittleEndian.AppendUint64(out, math.Float64bits(x))
		}
	}
	return out
}

func (p Precision) decode(dst []float64, data []byte) error {
	r := bytes.NewReader(data)
	if p == Float64 {
		return binary.Read(r, binary.LittleEndian, dst)
	}
	single := make([]float32, len(dst))
	if err := binary.Read(r, binary.LittleEndian, single); err != nil {
		return err
	}
	for i, x := range single {
		dst[i] = float64(x)
	}
	return nil
}
