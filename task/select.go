package task

// Select returns the given samples of a split, in the order of rows. It copies
// the costs and refers to the features, which are Features32 if the split's are.
func Select(s Split, rows []int) Split {
	out := Split{C: Matrix{Cols: s.C.Cols, Data: make([]float64, 0, len(rows)*s.C.Cols)}}
	if x, ok := s.X.(Features32); ok {
		out.X = selected32{selected{x, rows}, x}
	} else {
		out.X = selected{s.X, rows}
	}
	for _, i := range rows {
		out.C.Data = append(out.C.Data, s.C.Row(i)...)
	}
	return out
}

// selected is some samples of Features.
type selected struct {
	of   Features
	rows []int
}

func (s selected) Len() int                  { return len(s.rows) }
func (s selected) Dim() int                  { return s.of.Dim() }
func (s selected) Copy(dst []float64, i int) { s.of.Copy(dst, s.rows[i]) }

// selected32 is some samples of Features32.
type selected32 struct {
	selected
	of32 Features32
}

func (s selected32) Copy32(dst []float32, i int) { s.of32.Copy32(dst, s.rows[i]) }
