package bench

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"
)

// array is a parsed npy file of float64, int64 or bytes.
type array struct {
	shape  string
	floats []float64
	ints   []int64
	text   []byte
}

// readNPZ parses an npz archive by the format's description (NEP 1).
func readNPZ(t *testing.T, data []byte) map[string]array {
	t.Helper()
	archive, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	header := regexp.MustCompile(`^\{'descr': '([^']*)', 'fortran_order': False, 'shape': \(([0-9, ]*)\), \} *\n$`)
	out := map[string]array{}
	for _, f := range archive.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if string(raw[:8]) != "\x93NUMPY\x01\x00" {
			t.Fatalf("%s begins with %q", f.Name, raw[:8])
		}
		n := 10 + int(binary.LittleEndian.Uint16(raw[8:]))
		m := header.FindSubmatch(raw[10:n])
		if m == nil || n%64 != 0 {
			t.Fatalf("%s has header %q of %d bytes", f.Name, raw[10:n], n)
		}
		a, body := array{shape: string(m[2])}, raw[n:]
		switch string(m[1]) {
		case "<f8":
			a.floats = make([]float64, len(body)/8)
			err = binary.Read(bytes.NewReader(body), binary.LittleEndian, a.floats)
		case "<i8":
			a.ints = make([]int64, len(body)/8)
			err = binary.Read(bytes.NewReader(body), binary.LittleEndian, a.ints)
		default:
			a.text = body
		}
		if err != nil {
			t.Fatal(err)
		}
		out[strings.TrimSuffix(f.Name, ".npy")] = a
	}
	return out
}

// An exported file holds what its description says: answers that belong to its
// costs and sets.
func TestExport(t *testing.T) {
	var problems []Problem
	for _, name := range Oracles() {
		problems = append(problems, problemOf(name))
	}
	var buf bytes.Buffer
	if err := Export(t.Context(), &buf, problems, 10, time.Microsecond); err != nil {
		t.Fatal(err)
	}
	// One name cannot stand for two cases.
	if err := Export(t.Context(), io.Discard, []Problem{problems[0], problems[1], problems[0]}, 10, time.Microsecond); !errors.Is(err, ErrProblem) {
		t.Errorf("a problem given twice: error %v, want %v", err, ErrProblem)
	}
	arrays := readNPZ(t, buf.Bytes())
	var meta struct {
		Machine Machine
		Cases   []struct {
			Name    string
			Oracle  string
			Results []struct {
				Nanoseconds float64 `json:"ns_per_solve"`
			}
		}
	}
	if err := json.Unmarshal(arrays["meta"].text, &meta); err != nil {
		t.Fatal(err)
	}
	if len(meta.Cases) != len(problems) || meta.Machine.Go == "" {
		t.Fatalf("%+v", meta)
	}
	for k, c := range meta.Cases {
		w := mustWorkload(t, problems[k])
		costs, sets := arrays[c.Name+".cost"], arrays[c.Name+".set"]
		if len(sets.ints) != 10 || len(costs.floats) != 10*w.d || !(c.Results[0].Nanoseconds > 0) {
			t.Fatalf("%s: %+v", c.Name, c)
		}
		cert := newCertificate(w.d)
		for i, set := range sets.ints {
			exact := w.sets[set].NewLinear()
			gap, err := cert.gap(exact, w.row(arrays[c.Name+".linear"].floats, i), w.row(costs.floats, i), 0)
			if err != nil || gap > 1e-9 {
				t.Errorf("%s: row %d has linear gap %v, %v", c.Name, i, gap, err)
			}
			if c.Oracle == Dijkstra {
				continue
			}
			gap, err = cert.gap(exact, w.row(arrays[c.Name+".project"].floats, i), w.row(arrays[c.Name+".theta"].floats, i), arrays[c.Name+".lambda"].floats[i])
			if err != nil || gap > 1e-9 {
				t.Errorf("%s: row %d has gap %v, %v", c.Name, i, gap, err)
			}
		}
	}
	if a := arrays["polyhedron-good-calibrated.A"]; a.shape != "4, 4, 9" {
		t.Errorf("A has shape %s", a.shape)
	}
}
