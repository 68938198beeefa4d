package task

import (
	"math"
	"slices"
	"strings"
	"testing"

	"fedrspo/oracle"
)

// box stands in for a feasible set of dimension d; Validate asks for nothing
// but the dimension.
type box struct {
	oracle.Polytope
	d int
}

func (b box) Dim() int { return b.d }

// split returns n samples of 2 features and 3 costs, all different.
func split(n int) Split {
	x, c := make([]float64, 2*n), make([]float64, 3*n)
	for i := range x {
		x[i] = float64(i)
	}
	for i := range c {
		c[i] = -float64(i)
	}
	return Split{X: Matrix{Cols: 2, Data: x}, C: Matrix{Cols: 3, Data: c}}
}

func validTask() *Task {
	client := func(id int) *Client {
		return &Client{ID: id, Name: "c", Polytope: box{d: 3}, Train: split(4), Val: split(1), Test: split(2)}
	}
	return &Task{Name: "toy", In: 2, Out: 3, Clients: []*Client{client(1), client(5), client(7)}}
}

func TestValidateAccepts(t *testing.T) {
	for name, change := range map[string]func(*Task){
		"a valid task":              func(*Task) {},
		"a client without training": func(k *Task) { k.Clients[1].Train = Split{} },
		"a client without any data": func(k *Task) { k.Clients[1] = &Client{ID: 5, Polytope: box{d: 3}} },
		"an empty matrix":           func(k *Task) { k.Clients[0].Val = split(0) },
		"extreme finite values":     func(k *Task) { k.Clients[0].Val.C.Data[0] = -math.MaxFloat64 },
	} {
		t.Run(name, func(t *testing.T) {
			k := validTask()
			change(k)
			if err := k.Validate(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestValidateRefuses: every defect is one error that says where it is.
func TestValidateRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Task)
		want   []string
	}{
		"no clients":          {func(k *Task) { k.Clients = nil }, []string{"no clients"}},
		"repeated ID":         {func(k *Task) { k.Clients[1].ID = 1 }, []string{"1 after 1"}},
		"descending ID":       {func(k *Task) { k.Clients[2].ID = 4 }, []string{"4 after 5"}},
		"no feasible set":     {func(k *Task) { k.Clients[1].Polytope = nil }, []string{"client 5", "feasible set"}},
		"set of other length": {func(k *Task) { k.Clients[1].Polytope = box{d: 4} }, []string{"client 5", "dimension 4", "want 3"}},
		"no features":         {func(k *Task) { k.Clients[1].Val.X = nil }, []string{"client 5", "validation", "0 rows of features", "1 of costs"}},
		"fewer features":      {func(k *Task) { k.Clients[1].Test.X = split(1).X }, []string{"client 5", "test", "1 rows of features", "2 of costs"}},
		"features only":       {func(k *Task) { k.Clients[0].Val.C = Matrix{} }, []string{"client 1", "validation", "1 rows of features", "0 of costs"}},
		"cost stub":           {func(k *Task) { k.Clients[0].Val = Split{C: Matrix{Cols: 3, Data: make([]float64, 2)}} }, []string{"client 1", "validation", "2 costs"}},
		"nil client":          {func(k *Task) { k.Clients[1] = nil }, []string{"position 1"}},
		"no features at all":  {func(k *Task) { k.In = 0 }, []string{"0 features"}},
		"feature columns":     {func(k *Task) { k.In = 4 }, []string{"client 1", "train", "2 features", "want 4"}},
		"cost columns": {func(k *Task) {
			k.Clients[2].Train = Split{X: split(2).X, C: Matrix{Cols: 4, Data: make([]float64, 8)}}
		}, []string{"client 7", "train", "4 costs", "want 3"}},
		"costs cut short":  {func(k *Task) { k.Clients[2].Train.C.Data = append(k.Clients[2].Train.C.Data, 1) }, []string{"client 7", "train", "costs"}},
		"NaN feature":      {set(0, "X", 5, math.NaN()), []string{"client 1", "train", "row 2", "feature 1", "NaN"}},
		"infinite feature": {set(2, "X", 0, math.Inf(1)), []string{"client 7", "train", "row 0", "feature 0", "+Inf"}},
		"NaN cost":         {set(1, "C", 7, math.NaN()), []string{"client 5", "train", "row 2", "cost 1", "NaN"}},
		"infinite cost":    {set(1, "C", 0, math.Inf(-1)), []string{"client 5", "train", "row 0", "cost 0", "-Inf"}},
	} {
		t.Run(name, func(t *testing.T) {
			k := validTask()
			c.change(k)
			err := k.Validate()
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range append(c.want, "toy") {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
		})
	}
}

// set returns a change that puts v at position i of the training features or
// costs of a client.
func set(client int, what string, i int, v float64) func(*Task) {
	return func(k *Task) {
		s := k.Clients[client].Train
		if what == "X" {
			s.X.(Matrix).Data[i] = v
		} else {
			s.C.Data[i] = v
		}
	}
}

// TestPool compares pooled samples with the splits they come from.
func TestPool(t *testing.T) {
	parts := []Split{split(4), {}, split(1), split(3)}
	p := Pool(parts...)
	if p.Len() != 8 || p.X.Len() != 8 || p.X.Dim() != 2 || p.C.Cols != 3 {
		t.Fatalf("pooled %d samples, %d rows of %d features, %d costs", p.Len(), p.X.Len(), p.X.Dim(), p.C.Cols)
	}
	i, got, want := 0, make([]float64, 2), make([]float64, 2)
	for _, part := range parts {
		for k := range part.Len() {
			p.X.Copy(got, i)
			part.X.Copy(want, k)
			if !slices.Equal(got, want) || !slices.Equal(p.C.Row(i), part.C.Row(k)) {
				t.Errorf("sample %d: features %v, costs %v, want %v, %v", i, got, p.C.Row(i), want, part.C.Row(k))
			}
			i++
		}
	}
	p.C.Data[0] = 99
	if parts[0].C.Data[0] == 99 {
		t.Error("pooled costs share memory with a part")
	}
	if e := Pool(); e.Len() != 0 || e.X != nil {
		t.Error("an empty pool has samples")
	}
}

func TestMatrix(t *testing.T) {
	m := Matrix{Cols: 2, Data: []float64{1, 2, 3, 4, 5, 6}}
	if m.Len() != 3 || m.Dim() != 2 || !slices.Equal(m.Row(1), []float64{3, 4}) {
		t.Errorf("Len %d, Dim %d, Row(1) %v", m.Len(), m.Dim(), m.Row(1))
	}
	dst := make([]float64, 2)
	if n := testing.AllocsPerRun(10, func() { m.Copy(dst, 2) }); n != 0 {
		t.Errorf("Copy allocates %v times", n)
	}
	if !slices.Equal(dst, []float64{5, 6}) {
		t.Errorf("Copy gave %v", dst)
	}
	dst[0] = 9
	if m.Data[4] != 5 {
		t.Error("Copy handed out the matrix itself")
	}
	if (Matrix{}).Len() != 0 || (Split{}).Len() != 0 {
		t.Error("an empty matrix has rows")
	}
}

// narrow is Features32 that counts how often a sample is read.
type narrow struct {
	Matrix
	reads *int
}

func (m narrow) Copy(dst []float64, i int) { *m.reads++; m.Matrix.Copy(dst, i) }

func (m narrow) Copy32(dst []float32, i int) {
	*m.reads++
	for k, x := range m.Row(i) {
		dst[k] = float32(x)
	}
}

// TestSharedFeatures: features that clients share are read once, and as
// float32 where they are; a defect in them is found all the same.
func TestSharedFeatures(t *testing.T) {
	k, reads := validTask(), 0
	shared := &narrow{split(2).X.(Matrix), &reads}
	for _, c := range k.Clients {
		c.Test.X = shared
	}
	if err := k.Validate(); err != nil || reads != 2 {
		t.Errorf("%d reads of 2 samples, %v", reads, err)
	}
	shared.Data[3] = math.Inf(-1)
	if err := k.Validate(); err == nil || !strings.Contains(err.Error(), "client 1: test row 1: feature 1 is -Inf") {
		t.Errorf("an infinite feature: %v", err)
	}
	if !Same(shared, shared) || Same(shared, split(2).X) || Same(split(1).X, split(1).X) || Same(nil, nil) || Same(*shared, *shared) {
		t.Error("Same is wrong")
	}
}

// TestPool32: pooled samples are float32 if all their parts are.
func TestPool32(t *testing.T) {
	reads := 0
	s := split(3)
	s.X = &narrow{split(3).X.(Matrix), &reads}
	x, ok := Pool(s, split(0), s).X.(Features32)
	if !ok {
		t.Fatal("not float32")
	}
	row, row32 := make([]float64, 2), make([]float32, 2)
	for i := range x.Len() {
		x.Copy(row, i)
		if x.Copy32(row32, i); float64(row32[0]) != row[0] || float64(row32[1]) != row[1] {
			t.Errorf("row %d: %v and %v", i, row32, row)
		}
	}
	if _, ok := Pool(s, split(1)).X.(Features32); ok {
		t.Error("float32 with a part that is not")
	}
}

// TestMetric: metrics have names, and others are refused.
func TestMetric(t *testing.T) {
	if RelativeRegret.String() != "relative_regret" || OptimalityGap.String() != "optimality_gap" || AbsoluteRegret.String() != "absolute_regret" || Metric(9).String() != "Metric(9)" {
		t.Error("wrong names")
	}
	k := validTask()
	if k.Metric = 9; k.Validate() == nil {
		t.Error("an unknown metric passes")
	}
}
