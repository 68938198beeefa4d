package knapsack

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"fedrspo/internal/atomicfile"
	"fedrspo/internal/csvtable"
)

// ErrFolder: Export will not write to a folder because of what is in it.
var ErrFolder = errors.New("the folder holds something else than an unchanged export")

// Export writes d to a dataset folder, which Load reads back bit for bit; the
// package comment describes it. The folder is created if need be. A folder that
// is not empty is only replaced if it holds exactly what an earlier Export
// wrote there, unchanged; anything else is an ErrFolder and nothing is touched.
//
// Each file is written atomically, and the description last: an export that
// was cut short is not taken for a dataset.
func (d *Dataset) Export(dir string) error {
	if err := d.Validate(); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := checkReplaceable(dir); err != nil {
		return err
	}
	descriptionPath := filepath.Join(dir, descriptionFile)
	if err := os.Remove(descriptionPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	desc := description{Format: format, Name: d.Name, Items: d.Items, Features: d.Features, Generator: d.Generator}
	sums := map[string]string{descriptionFile: hexSum(desc.encode())}
	write := func(name string, cols csvtable.Columns, each func(emit func([]string) error) error) error {
		sum := sha256.New()
		err := atomicfile.WriteFile(filepath.Join(dir, name), func(w io.Writer) error {
			return csvtable.Write(io.MultiWriter(w, sum), cols, each)
		})
		sums[name] = hex.EncodeToString(sum.Sum(nil))
		return err
	}
	if err := write(clientsFile, d.clientColumns(), d.emitClients); err != nil {
		return err
	}
	for s, name := range splitNames {
		if err := write(splitFile(name), d.sampleColumns(), d.emitSplit(s)); err != nil {
			return err
		}
	}
	desc.Exported = sums
	return atomicfile.WriteFile(descriptionPath, func(w io.Writer) error {
		_, err := w.Write(desc.encode())
		return err
	})
}

// emitClients emits the records of clients.csv.
func (d *Dataset) emitClients(emit func([]string) error) error {
	var record []string
	for _, c := range d.Clients {
		record = append(record[:0], strconv.Itoa(c.ID), c.Name)
		record = csvtable.AppendNumbers(record, c.Capacity)
		if err := emit(csvtable.AppendNumbers(record, c.Weights...)); err != nil {
			return err
		}
	}
	return nil
}

// emitSplit returns a function that emits the records of split s.
func (d *Dataset) emitSplit(s int) func(emit func([]string) error) error {
	return func(emit func([]string) error) error {
		var record []string
		for k := range d.Clients {
			c := &d.Clients[k]
			split := c.splits()[s]
			for i := range split.Len() {
				record = append(record[:0], strconv.Itoa(c.ID))
				record = csvtable.AppendNumbers(record, split.X.Row(i)...)
				record = csvtable.AppendNumbers(record, split.C.Row(i)...)
				if err := emit(record); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// checkReplaceable returns ErrFolder unless dir is empty or an unchanged
// export.
func checkReplaceable(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) == 0 {
		return err
	}
	desc, err := readDescription(dir)
	if err != nil {
		return fmt.Errorf("export to %s: %w: %w", dir, ErrFolder, err)
	}
	exported := desc.Exported
	desc.Exported = nil
	for _, entry := range entries {
		name := entry.Name()
		sum, err := hexSum(desc.encode()), error(nil)
		if name != descriptionFile {
			sum, err = fileSum(filepath.Join(dir, name))
		}
		if _, ours := exported[name]; !ours || err != nil || sum != exported[name] {
			return fmt.Errorf("export to %s: %w: %s is not as it was exported; choose another folder or remove it yourself", dir, ErrFolder, name)
		}
	}
	return nil
}

// fileSum returns the SHA-256 of a regular file.
func fileSum(path string) (string, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() {
		return "", fmt.Errorf("%s is not a file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
