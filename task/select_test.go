package task

import (
	"slices"
	"testing"
)

// TestSelect compares selected samples with those of the split.
func TestSelect(t *testing.T) {
	s := split(5)
	rows := []int{3, 0, 3}
	got := Select(s, rows)
	if got.Len() != 3 || got.X.Len() != 3 || got.X.Dim() != 2 || got.C.Cols != 3 {
		t.Fatalf("selected %d samples, %d rows of %d features, %d costs", got.Len(), got.X.Len(), got.X.Dim(), got.C.Cols)
	}
	a, b := make([]float64, 2), make([]float64, 2)
	for k, i := range rows {
		got.X.Copy(a, k)
		s.X.Copy(b, i)
		if !slices.Equal(a, b) || !slices.Equal(got.C.Row(k), s.C.Row(i)) {
			t.Errorf("sample %d: features %v, costs %v, want %v, %v", k, a, got.C.Row(k), b, s.C.Row(i))
		}
	}
	got.C.Data[0] = 99
	if s.C.Row(3)[0] == 99 {
		t.Error("selected costs share memory with the split")
	}
	if _, ok := got.X.(Features32); ok {
		t.Error("float32 features from others")
	}
	reads, row := 0, make([]float32, 2)
	of32, ok := Select(Split{X: &narrow{s.X.(Matrix), &reads}, C: s.C}, rows).X.(Features32)
	if !ok {
		t.Fatal("not float32")
	}
	if of32.Copy32(row, 1); reads != 1 || row[0] != float32(s.X.(Matrix).Row(0)[0]) {
		t.Errorf("%d reads, sample %v", reads, row)
	}
	if e := Select(s, nil); e.Len() != 0 || e.X.Len() != 0 {
		t.Error("an empty selection has samples")
	}
}
