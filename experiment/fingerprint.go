package experiment

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"hash"
	"iter"
	"math"
	"weak"

	"fedrspo/oracle/dijkstra"
	"fedrspo/task"
)

// fingerprints makes the fingerprint of one task after another, once each. It
// does not keep a task in memory.
type fingerprints struct {
	of  weak.Pointer[task.Task]
	sum string
}

func (f *fingerprints) get(t *task.Task) string {
	if w := weak.Make(t); f.of != w {
		f.of, f.sum = w, Fingerprint(t)
	}
	return f.sum
}

// Fingerprint is the SHA-256, in hexadecimal, of the bits of everything a
// result depends on: the clients' IDs, the features and costs of all splits,
// and the feasible sets: dimension, radius, the weights and capacity of a
// knapsack, the grid that a path runs on, and which clients are late. Features that
// clients share count once. Names play no part.
func Fingerprint(t *task.Task) string {
	d := digest{Hash: sha256.New()}
	d.ints(t.In, t.Out, len(t.Clients))
	row, row32 := make([]float64, t.In), []float32(nil)
	var seen [3]task.Features // by split
	for _, c := range t.Clients {
		d.ints(c.ID, c.Polytope.Dim())
		d.floats(c.Polytope.Radius())
		if set, ok := c.Polytope.(interface {
			Weights() iter.Seq2[int, float64]
			Capacity() float64
		}); ok {
			d.floats(set.Capacity())
			for _, w := range set.Weights() {
				d.floats(w)
			}
		}
		if set, ok := c.Polytope.(interface{ Grid() *dijkstra.Grid }); ok {
			g := set.Grid().Config()
			d.ints(g.Height, g.Width, int(g.Neighbours), g.Source.Row, g.Source.Col, g.Sink.Row, g.Sink.Col, int(g.Negative), int(g.Ties))
		}
		for k, s := range []task.Split{c.Train, c.Val, c.Test} {
			d.ints(s.Len())
			shared := task.Same(seen[k], s.X)
			x32, narrow := s.X.(task.Features32)
			if narrow && row32 == nil {
				row32 = make([]float32, t.In)
			}
			for i := range s.Len() {
				switch {
				case shared:
				case narrow:
					x32.Copy32(row32, i)
					d.floats32(row32)
				default:
					s.X.Copy(row, i)
					d.floats(row...)
				}
				d.floats(s.C.Row(i)...)
			}
			seen[k] = s.X
		}
		if c.Late {
			d.ints(1)
		}
	}
	return hex.EncodeToString(d.Sum(nil))
}

// digest is a hash of numbers.
type digest struct {
	hash.Hash
	buf []byte
}

func (d *digest) ints(v ...int) {
	d.buf = d.buf[:0]
	for _, n := range v {
		d.buf = binary.LittleEndian.AppendUint64(d.buf, uint64(n))
	}
	d.Write(d.buf) // a hash never fails
}

func (d *digest) floats32(v []float32) {
	d.buf = d.buf[:0]
	for _, x := range v {
		d.buf = binary.LittleEndian.AppendUint32(d.buf, math.Float32bits(x))
	}
	d.Write(d.buf)
}

func (d *digest) floats(v ...float64) {
	d.buf = d.buf[:0]
	for _, x := range v {
		d.buf = binary.LittleEndian.AppendUint64(d.buf, math.Float64bits(x))
	}
	d.Write(d.buf)
}
