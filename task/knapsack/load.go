package knapsack

import (
	"cmp"
	"fedrspo/internal/csvtable"
	"fmt"
	"path/filepath"
	"slices"
)

// Load reads a dataset folder; the package comment describes it. What Export
// wrote comes back bit for bit. Every error is a *[FormatError] that names the
// file, and the line and column where there is one, and wraps ErrFormat.
func Load(dir string) (*Dataset, error) {
	desc, err := readDescription(dir)
	if err != nil {
		return nil, err
	}
	d := &Dataset{Name: desc.Name, Items: desc.Items, Features: desc.Features, Generator: desc.Generator}
	if err := d.loadClients(dir); err != nil {
		return nil, err
	}
	index := make(map[int]int, len(d.Clients))
	for k, c := range d.Clients {
		index[c.ID] = k
	}
	for s, name := range splitNames {
		if err := d.loadSplit(dir, s, index); err != nil {
			return nil, err
		}
		if name == "train" && !slices.ContainsFunc(d.Clients, func(c Client) bool { return c.Train.Len() > 0 }) {
			return nil, &FormatError{File: filepath.Join(dir, splitFile(name)), Want: "at least one training sample", Err: fmt.Errorf("no rows")}
		}
	}
	return d, nil
}

// loadClients reads clients.csv.
func (d *Dataset) loadClients(dir string) error {
	firstLine := map[int]int{}
	const capacityCol, weightCol = 2, 3
	cols := d.clientColumns()
	err := readTable(dir, clientsFile, cols, func(r *csvtable.Row) error {
		c := Client{Train: newSamples(d.Items, d.Features), Val: newSamples(d.Items, d.Features), Test: newSamples(d.Items, d.Features)}
		var err error
		if c.ID, err = r.ID(0); err != nil {
			return err
		}
		if line, ok := firstLine[c.ID]; ok {
			return r.Fail(0, fmt.Sprintf("a client that is listed once (first in line %d)", line))
		}
		firstLine[c.ID] = r.Line()
		if c.Name, err = r.Text(1); err != nil {
			return err
		}
		if c.Capacity, err = r.Number(capacityCol); err != nil {
			return err
		}
		if c.Capacity < 0 {
			return r.Fail(capacityCol, "a capacity that is not negative")
		}
		if c.Weights, err = r.Numbers(nil, weightCol, cols.Count()); err != nil {
			return err
		}
		for i, a := range c.Weights {
			if a <= 0 {
				return r.Fail(weightCol+i, "a positive weight")
			}
		}
		d.Clients = append(d.Clients, c)
		return nil
	})
	if err != nil {
		return err
	}
	if len(d.Clients) == 0 {
		return &FormatError{File: filepath.Join(dir, clientsFile), Want: "at least one client", Err: fmt.Errorf("no rows")}
	}
	slices.SortFunc(d.Clients, func(a, b Client) int { return cmp.Compare(a.ID, b.ID) })
	return nil
}

// loadSplit reads the table of split s; index finds a client by its ID.
func (d *Dataset) loadSplit(dir string, s int, index map[int]int) error {
	cols := d.sampleColumns()
	return readTable(dir, splitFile(splitNames[s]), cols, func(r *csvtable.Row) error {
		id, err := r.ID(0)
		if err != nil {
			return err
		}
		k, ok := index[id]
		if !ok {
			return r.Fail(0, "a client of "+clientsFile)
		}
		split := d.Clients[k].splits()[s]
		if split.X.Data, err = r.Numbers(split.X.Data, 1, 1+d.Features); err != nil {
			return err
		}
		split.C.Data, err = r.Numbers(split.C.Data, 1+d.Features, cols.Count())
		return err
	})
}
