package nn_test

import (
	"slices"
	"testing"

	"fedrspo/nn"
)

func TestLayout(t *testing.T) {
	l := blockLayout()
	offset := 0
	for _, s := range l.Segments() {
		if s.Offset != offset {
			t.Errorf("%s starts at %d, want %d", s.Name, s.Offset, offset)
		}
		n := 1
		for _, k := range s.Shape {
			n *= k
		}
		if s.Len != n {
			t.Errorf("%s of shape %v has length %d", s.Name, s.Shape, s.Len)
		}
		if s.Trainable != (s.Offset < l.Trainable()) {
			t.Errorf("%s at %d: trainable is %v, the trainable prefix ends at %d", s.Name, s.Offset, s.Trainable, l.Trainable())
		}
		got, ok := l.Find(s.Name)
		if !ok || got.Offset != s.Offset {
			t.Errorf("Find(%q) = %+v, %v", s.Name, got, ok)
		}
		v := make([]float64, l.Len())
		v[s.Offset], v[s.Offset+s.Len-1] = 1, 2
		if w := s.Slice(v); len(w) != s.Len || w[len(w)-1] != 2 {
			t.Errorf("%s: Slice has length %d and ends in %v", s.Name, len(w), w[len(w)-1])
		}
		offset += n
	}
	if l.Len() != offset || l.Trainable() != 10 {
		t.Errorf("length %d and %d trainable, want %d and 10", l.Len(), l.Trainable(), offset)
	}
	if _, ok := l.Find("no such array"); ok {
		t.Error("Find found an array that is not there")
	}
}

// TestModelLayouts restates the orientation PyTorch uses: weights are [out, in].
func TestModelLayouts(t *testing.T) {
	type array struct {
		name  string
		shape []int
	}
	for _, c := range []struct {
		model nn.Model
		want  []array
	}{
		{nn.NewMLP(8, 64, 50), []array{{"fc1.weight", []int{64, 8}}, {"fc1.bias", []int{64}}, {"fc2.weight", []int{50, 64}}, {"fc2.bias", []int{50}}}},
		{nn.NewLinear(8, 50), []array{{"weight", []int{50, 8}}}},
	} {
		var got []array
		for _, s := range c.model.Layout().Segments() {
			got = append(got, array{s.Name, s.Shape})
		}
		if !slices.EqualFunc(got, c.want, func(a, b array) bool { return a.name == b.name && slices.Equal(a.shape, b.shape) }) {
			t.Errorf("%s has %v, want %v", c.model.Name(), got, c.want)
		}
		if first, second := c.model.Layout(), c.model.Layout(); first != second {
			t.Errorf("%s: two calls of Layout differ", c.model.Name())
		}
	}
}

func TestLayoutPanics(t *testing.T) {
	for name, f := range map[string]func(l *nn.Layout){
		"name twice":             func(l *nn.Layout) { l.Add("w", 1); l.Add("w", 2) },
		"buffer and array":       func(l *nn.Layout) { l.Add("w", 1); l.AddBuffer("w", 2) },
		"empty dimension":        func(l *nn.Layout) { l.Add("w", 2, 0) },
		"negative dimension":     func(l *nn.Layout) { l.AddBuffer("w", -1) },
		"parameter after buffer": func(l *nn.Layout) { l.AddBuffer("b", 1); l.Add("w", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f(new(nn.Layout))
		})
	}
}
