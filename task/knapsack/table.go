package knapsack

import (
	"path/filepath"

	"fedrspo/internal/csvtable"
)

// ErrFormat: a file of a dataset folder that cannot be read as what it should
// be. It is wrapped by every FormatError.
var ErrFormat = csvtable.ErrFormat

// FormatError says what is wrong where in a dataset folder.
type FormatError = csvtable.FormatError

// clientColumns is the header of clients.csv.
func (d *Dataset) clientColumns() csvtable.Columns {
	return csvtable.Columns{{Name: "client"}, {Name: "name"}, {Name: "capacity"}, {Name: "weight_", Count: d.Items}}
}

// sampleColumns is the header of a split's table.
func (d *Dataset) sampleColumns() csvtable.Columns {
	return csvtable.Columns{{Name: "client"}, {Name: "x_", Count: d.Features}, {Name: "c_", Count: d.Items}}
}

// readTable reads a table of a dataset folder.
func readTable(dir, name string, cols csvtable.Columns, each func(*csvtable.Row) error) error {
	return csvtable.ReadFile(filepath.Join(dir, name), csvtable.Format{Columns: cols}, each)
}
