package qp

import "fedrspo/oracle/dijkstra"

// pathFrame numbers the cells of a grid so that neighbours are a fixed step
// apart: cell (r, c) has the place (r+1) stride + c + 1, with padding around.
type pathFrame struct {
	height, width int
	eight         bool
	acyclic       bool
	stride, size  int
	words         int   // of a set of places, 64 bits each
	steps         []int // to the neighbours
	forward       []int // the steps that are > 0, so that each pair counts once
	place         []int32
	source, sink  int32
	// inner is 1 at cells other than the endpoints, which alone form cycles.
	inner []uint8
	// fingerprint tells frames apart in a warm start.
	fingerprint uint64
}

func newPathFrame(cfg dijkstra.Config) pathFrame {
	h, w := cfg.Height, cfg.Width
	f := pathFrame{height: h, width: w, eight: cfg.Neighbours == dijkstra.Eight, acyclic: cfg.Acyclic, stride: w + 1}
	s := f.stride
	f.size = (h+2)*s + 2
	f.words = (f.size + 63) / 64
	f.forward = []int{1, s}
	if f.eight {
		f.forward = []int{1, s - 1, s, s + 1}
	}
	for _, step := range f.forward {
		f.steps = append(f.steps, -step, step)
	}
	at := func(c dijkstra.Cell) int32 { return int32((c.Row+1)*s + c.Col + 1) }
	f.inner = make([]uint8, f.size)
	for r := range h {
		for c := range w {
			p := at(dijkstra.Cell{Row: r, Col: c})
			f.place = append(f.place, p)
			f.inner[p] = 1
		}
	}
	f.source, f.sink = at(cfg.Source), at(cfg.Sink)
	f.inner[f.source], f.inner[f.sink] = 0, 0
	kind := int(cfg.Neighbours)
	if f.acyclic {
		kind += 2
	}
	for _, x := range []int{h, w, kind, int(f.source), int(f.sink)} {
		f.fingerprint = (f.fingerprint ^ uint64(x)) * 0x100000001b3 // FNV-1a
	}
	return f
}

// positivePairs counts the pairs of inner neighbours with p_u + p_v > 0; it
// stops at one more than limit.
func (f *pathFrame) positivePairs(p []float64, limit int) int {
	n := 0
	for _, u := range f.place {
		if p[u] <= 0 || f.inner[u] == 0 {
			continue
		}
		for _, step := range f.steps {
			v := u + int32(step)
			// Where both are positive the pair is met twice.
			if f.inner[v] != 0 && p[u]+p[v] > 0 && (p[v] <= 0 || u < v) {
				if n++; n > limit {
					return n
				}
			}
		}
	}
	return n
}
