package nn_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"fedrspo/nn"
)

// checkpoint returns random models of layout l under the keys, exact in the
// given precision, with the extremes of that precision among the numbers.
func checkpoint(l *nn.Layout, p nn.Precision, keys ...string) nn.Checkpoint {
	r := rand.New(rand.NewPCG(21, 22))
	c := nn.Checkpoint{Precision: p, Models: map[string][]float64{}, Meta: map[string]string{"task": "knapsack", "note": "Ĉ \"quoted\" <&>"}}
	for _, key := range keys {
		v := normals(r, l.Len())
		extremes := []float64{0, math.Copysign(0, -1), math.MaxFloat64, -math.SmallestNonzeroFloat64, 1e-300, math.Pi}
		if p == nn.Float32 {
			extremes = []float64{0, math.Copysign(0, -1), math.MaxFloat32, -math.SmallestNonzeroFloat32, 1e-40, math.Pi}
		}
		copy(v, extremes)
		if p == nn.Float32 {
			for i := range v {
				v[i] = float64(float32(v[i]))
			}
		}
		c.Models[key] = v
	}
	return c
}

func encode(t testing.TB, c nn.Checkpoint, l *nn.Layout) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := c.Write(&b, l); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// sameCheckpoint compares bit for bit: -0 differs from 0.
func sameCheckpoint(t *testing.T, got, want nn.Checkpoint) {
	t.Helper()
	if got.Precision != want.Precision {
		t.Errorf("precision %v, want %v", got.Precision, want.Precision)
	}
	for k, v := range want.Meta {
		if got.Meta[k] != v {
			t.Errorf("meta %q = %q, want %q", k, got.Meta[k], v)
		}
	}
	if len(got.Meta) != len(want.Meta) || len(got.Models) != len(want.Models) {
		t.Errorf("%d notes and %d models, want %d and %d", len(got.Meta), len(got.Models), len(want.Meta), len(want.Models))
	}
	for key, w := range want.Models {
		g := got.Models[key]
		if len(g) != len(w) {
			t.Errorf("model %q has length %d, want %d", key, len(g), len(w))
			continue
		}
		for i := range w {
			if math.Float64bits(g[i]) != math.Float64bits(w[i]) {
				t.Errorf("model %q: parameter %d = %v, want %v", key, i, g[i], w[i])
				break
			}
		}
	}
}

// blockLayout has a name that ends in another name, and a buffer.
func blockLayout() *nn.Layout {
	var l nn.Layout
	l.Add("conv1.weight", 2, 3)
	l.Add("layer1.0.conv1.weight", 1, 4)
	l.AddBuffer("bn1.running_mean", 2)
	return &l
}

func TestCheckpointRoundTrip(t *testing.T) {
	layouts := map[string]*nn.Layout{"mlp": nn.NewMLP(3, 4, 2).Layout(), "linear": nn.NewLinear(8, 50).Layout(), "block": blockLayout()}
	for name, l := range layouts {
		for _, p := range []nn.Precision{nn.Float64, nn.Float32} {
			for _, keys := range [][]string{{""}, {"client.1"}, {"client.1", "client.2", "client.10"}, {"", "client.0"}, {"ü ö"}} {
				t.Run(name+"/"+p.String()+"/"+strings.Join(keys, ","), func(t *testing.T) {
					want := checkpoint(l, p, keys...)
					data := encode(t, want, l)
					got, err := nn.ReadCheckpoint(data, l)
					if err != nil {
						t.Fatal(err)
					}
					sameCheckpoint(t, got, want)
					// Map order must not reach the file.
					for range 5 {
						if !bytes.Equal(encode(t, got, l), data) {
							t.Fatal("equal checkpoints gave different bytes")
						}
					}
				})
			}
		}
	}
}

// header splits a safetensors file (https://huggingface.co/docs/safetensors):
// the header's length as a little-endian uint64, the header as JSON, the data.
func header(t testing.TB, data []byte) (map[string]any, []byte) {
	t.Helper()
	n := binary.LittleEndian.Uint64(data)
	var h map[string]any
	if err := json.Unmarshal(data[8:8+n], &h); err != nil {
		t.Fatal(err)
	}
	return h, data[8+n:]
}

func withHeader(t testing.TB, h map[string]any, body []byte) []byte {
	t.Helper()
	text, err := json.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text, body)
}

// TestCheckpointIsAStateDict checks the file against the format itself: names,
// types, shapes and the little-endian numbers of a PyTorch state dict.
func TestCheckpointIsAStateDict(t *testing.T) {
	l := nn.NewMLP(3, 4, 2).Layout()
	c := checkpoint(l, nn.Float64, "")
	h, body := header(t, encode(t, c, l))
	for _, s := range l.Segments() {
		a, ok := h[s.Name].(map[string]any)
		if !ok {
			t.Fatalf("no array %s in %v", s.Name, h)
		}
		var shape []int
		for _, n := range a["shape"].([]any) {
			shape = append(shape, int(n.(float64)))
		}
		if a["dtype"] != "F64" || !slices.Equal(shape, s.Shape) {
			t.Errorf("%s is %v of shape %v, want F64 of shape %v", s.Name, a["dtype"], shape, s.Shape)
		}
		at := int(a["data_offsets"].([]any)[0].(float64))
		for i, want := range s.Slice(c.Models[""]) {
			if got := math.Float64frombits(binary.LittleEndian.Uint64(body[at+8*i:])); got != want {
				t.Fatalf("%s[%d] = %v, want %v", s.Name, i, got, want)
			}
		}
	}
	if len(h) != len(l.Segments())+1 { // and __metadata__
		t.Errorf("the header has %d entries, want %d", len(h), len(l.Segments())+1)
	}
}

func TestCheckpointWriteRefuses(t *testing.T) {
	l := blockLayout()
	with := func(p nn.Precision, change func(map[string][]float64)) nn.Checkpoint {
		c := checkpoint(l, p, "")
		change(c.Models)
		return c
	}
	for name, c := range map[string]nn.Checkpoint{
		"no models":         {},
		"wrong length":      with(nn.Float64, func(m map[string][]float64) { m[""] = m[""][1:] }),
		"NaN":               with(nn.Float64, func(m map[string][]float64) { m[""][3] = math.NaN() }),
		"infinite":          with(nn.Float64, func(m map[string][]float64) { m[""][3] = math.Inf(-1) }),
		"overflows float32": with(nn.Float32, func(m map[string][]float64) { m[""][3] = 1e39 }),
		// layer1.0 + conv1.weight is the name of another array.
		"ambiguous key": with(nn.Float64, func(m map[string][]float64) { m["layer1.0"] = m[""] }),
		"not UTF-8":     with(nn.Float64, func(m map[string][]float64) { m["\xff"] = m[""] }),
	} {
		var b bytes.Buffer
		if err := c.Write(&b, l); err == nil {
			t.Errorf("%s: no error", name)
		} else if slices.Contains([]string{"NaN", "infinite", "overflows float32"}, name) && !errors.Is(err, nn.ErrNonFinite) {
			t.Errorf("%s: got %v, want ErrNonFinite", name, err)
		}
	}
	full := errors.New("disk full")
	if err := checkpoint(l, nn.Float64, "").Write(failingWriter{full}, l); !errors.Is(err, full) {
		t.Errorf("writer that fails: got %v", err)
	}
}

type failingWriter struct{ err error }

func (w failingWriter) Write([]byte) (int, error) { return 0, w.err }

// TestCheckpointTruncated cuts a file at every length.
func TestCheckpointTruncated(t *testing.T) {
	l := nn.NewMLP(2, 2, 1).Layout()
	data := encode(t, checkpoint(l, nn.Float32, "client.1"), l)
	for n := range data {
		if _, err := nn.ReadCheckpoint(data[:n:n], l); err == nil {
			t.Errorf("the first %d of %d bytes: no error", n, len(data))
		}
	}
	if _, err := nn.ReadCheckpoint(append(slices.Clone(data), 0), l); err == nil {
		t.Error("a byte too many: no error")
	}
}

// TestCheckpointFlippedBytes damages every byte of length and header in several
// ways. A result, if there is one, must be a whole model: damage in the free
// text or in a key cannot be told.
func TestCheckpointFlippedBytes(t *testing.T) {
	l := nn.NewMLP(2, 2, 1).Layout()
	want := checkpoint(l, nn.Float64, "client.1")
	data := encode(t, want, l)
	end := 8 + int(binary.LittleEndian.Uint64(data))
	refused := 0
	for i := range end {
		for _, mask := range []byte{0x01, 0x02, 0x10, 0x20, 0x80, 0xff} {
			bad := slices.Clone(data)
			bad[i] ^= mask
			got, err := nn.ReadCheckpoint(bad, l)
			if err != nil {
				refused++
				continue
			}
			for key, v := range got.Models {
				if len(got.Models) != 1 || !slices.Equal(v, want.Models["client.1"]) {
					t.Fatalf("byte %d xor %#x: model %q differs without an error", i, mask, key)
				}
			}
		}
	}
	if refused < 3*end {
		t.Errorf("only %d of %d damaged headers were refused", refused, 6*end)
	}
}

// TestReadCheckpointRefuses edits a good file's header or data.
func TestReadCheckpointRefuses(t *testing.T) {
	l := nn.NewMLP(2, 3, 1).Layout() // fc1.weight [3 2], fc1.bias [3], fc2.weight [1 3], fc2.bias [1]
	for name, edit := range map[string]func(h map[string]any, body []byte) []byte{
		"lacks an array": func(h map[string]any, b []byte) []byte {
			// Arrays lie in the order of their names: the last is fc2.weight.
			delete(h, "fc2.weight")
			return b[:len(b)-3*8]
		},
		"unknown array": func(h map[string]any, b []byte) []byte {
			h["fc3.weight"] = h["fc2.weight"]
			delete(h, "fc2.weight")
			return b
		},
		"transposed":     func(h map[string]any, b []byte) []byte { array(h, "fc1.weight")["shape"] = []int{2, 3}; return b },
		"flattened":      func(h map[string]any, b []byte) []byte { array(h, "fc1.weight")["shape"] = []int{6}; return b },
		"integers":       func(h map[string]any, b []byte) []byte { array(h, "fc1.weight")["dtype"] = "I64"; return b },
		"half precision": func(h map[string]any, b []byte) []byte { array(h, "fc1.weight")["dtype"] = "F16"; return b },
		"unknown type":   func(h map[string]any, b []byte) []byte { array(h, "fc1.weight")["dtype"] = "F65"; return b },
		"mixed types": func(h map[string]any, b []byte) []byte {
			a := array(h, "fc2.weight")
			end := len(b) - 3*4
			a["dtype"], a["data_offsets"] = "F32", []int{len(b) - 3*8, end}
			return b[:end]
		},
		"NaN": func(h map[string]any, b []byte) []byte {
			binary.LittleEndian.PutUint64(b[8:], math.Float64bits(math.NaN()))
			return b
		},
		"infinite": func(h map[string]any, b []byte) []byte {
			binary.LittleEndian.PutUint64(b, math.Float64bits(math.Inf(1)))
			return b
		},
		"second model incomplete": func(h map[string]any, b []byte) []byte {
			h["x.fc1.bias"] = map[string]any{"dtype": "F64", "shape": []int{3}, "data_offsets": []int{len(b), len(b) + 24}}
			return append(b, make([]byte, 24)...)
		},
		"offsets overlap": func(h map[string]any, b []byte) []byte {
			array(h, "fc2.bias")["data_offsets"] = array(h, "fc1.bias")["data_offsets"]
			return b
		},
		"offsets beyond the file": func(h map[string]any, b []byte) []byte {
			array(h, "fc2.weight")["data_offsets"] = []uint64{1 << 62, 1<<62 + 24}
			return b
		},
		"negative offset": func(h map[string]any, b []byte) []byte {
			array(h, "fc1.weight")["data_offsets"] = []int{-8, 40}
			return b
		},
		"shape overflows": func(h map[string]any, b []byte) []byte {
			array(h, "fc1.weight")["shape"] = []uint64{1 << 63, 2}
			return b
		},
		"no arrays":          func(h map[string]any, b []byte) []byte { clear(h); return nil },
		"null array":         func(h map[string]any, b []byte) []byte { h["fc1.weight"] = nil; return b },
		"array is a number":  func(h map[string]any, b []byte) []byte { h["fc1.weight"] = 3; return b },
		"metadata no string": func(h map[string]any, b []byte) []byte { h["__metadata__"] = map[string]any{"x": 1}; return b },
	} {
		t.Run(name, func(t *testing.T) {
			h, body := header(t, encode(t, checkpoint(l, nn.Float64, ""), l))
			body = edit(h, body)
			if _, err := nn.ReadCheckpoint(withHeader(t, h, body), l); err == nil {
				t.Error("no error")
			} else if strings.Contains(err.Error(), "\n") {
				t.Errorf("the error has several lines: %v", err)
			}
		})
	}
	for _, data := range [][]byte{nil, []byte("{}"), []byte("not a checkpoint at all"), bytes.Repeat([]byte{0xff}, 100), make([]byte, 100)} {
		if _, err := nn.ReadCheckpoint(data, l); err == nil {
			t.Errorf("%.20q: no error", data)
		}
	}
	// The same file for another model.
	if _, err := nn.ReadCheckpoint(encode(t, checkpoint(l, nn.Float64, ""), l), nn.NewMLP(2, 4, 1).Layout()); err == nil {
		t.Error("a model of another size: no error")
	}
}

func array(h map[string]any, name string) map[string]any { return h[name].(map[string]any) }

// TestReadCheckpointCountsFirst reads a file with one small array under each of
// many keys: it must be refused before a whole model is made for each key.
func TestReadCheckpointCountsFirst(t *testing.T) {
	var l nn.Layout
	l.Add("big", 1<<20)
	l.Add("small", 1)
	h, body := map[string]any{}, []byte{}
	for i := range 200 {
		h["key"+strings.Repeat("x", i)+".small"] = map[string]any{"dtype": "F64", "shape": []int{1}, "data_offsets": []int{8 * i, 8*i + 8}}
		body = append(body, make([]byte, 8)...)
	}
	data := withHeader(t, h, body)
	perRun := testing.Benchmark(func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if _, err := nn.ReadCheckpoint(data, &l); err == nil {
				b.Fatal("no error")
			}
		}
	}).AllocedBytesPerOp()
	if perRun > 8<<20 { // one model takes 8 MiB, 200 would take 1600
		t.Errorf("refusing a file of %d bytes allocated %d bytes", len(data), perRun)
	}
}

// FuzzReadCheckpoint: no input may panic, and what is read can be written and
// read again.
func FuzzReadCheckpoint(f *testing.F) {
	l := nn.NewMLP(1, 1, 1).Layout()
	for _, p := range []nn.Precision{nn.Float64, nn.Float32} {
		good := encode(f, checkpoint(l, p, "", "client.7"), l)
		f.Add(good)
		f.Add(good[:len(good)-1])
		f.Add(good[:20])
	}
	h, body := header(f, encode(f, checkpoint(l, nn.Float64, ""), l))
	array(h, "fc1.bias")["data_offsets"] = []uint64{0, math.MaxUint64}
	f.Add(withHeader(f, h, body))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := nn.ReadCheckpoint(data, l)
		if err != nil {
			return
		}
		again, err := nn.ReadCheckpoint(encode(t, c, l), l)
		if err != nil {
			t.Fatalf("what was read cannot be read again: %v", err)
		}
		sameCheckpoint(t, again, c)
	})
}
