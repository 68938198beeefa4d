package knapsack

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fedrspo/internal/csvtable"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// The files of a dataset folder.
const (
	descriptionFile = "dataset.json"
	clientsFile     = "clients.csv"
)

// format names this layout of a dataset folder.
const format = "fedrspo-knapsack-1"

// splitFile returns the file of a split.
func splitFile(split string) string { return split + ".csv" }

// description is the content of dataset.json.
type description struct {
	Format   string `json:"format"`
	Name     string `json:"name"`
	Items    int    `json:"items"`
	Features int    `json:"features"`
	// Generator is the configuration of generated data.
	Generator *Config `json:"generator,omitempty"`
	// Exported has the SHA-256 of every file that Export wrote, by which it
	// knows them again before it replaces them. Reading ignores it, so that an
	// exported table may be edited. The sum under dataset.json is that of the
	// description without this field.
	Exported map[string]string `json:"exported_sha256,omitempty"`
}

// encode returns the description as it is written to the file.
func (d description) encode() []byte {
	var buf bytes.Buffer
	e := json.NewEncoder(&buf)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(d); err != nil {
		panic(err) // plain strings and checked numbers always encode
	}
	return buf.Bytes()
}

// readDescription reads and checks dataset.json.
func readDescription(dir string) (description, error) {
	var d description
	path := filepath.Join(dir, descriptionFile)
	fail := func(err error, want string) (description, error) {
		return d, &FormatError{File: path, Want: want, Err: err}
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return fail(err, "the description of a dataset folder")
	} else if err != nil {
		return fail(err, "a readable file")
	}
	in := json.NewDecoder(bytes.NewReader(bytes.TrimPrefix(content, []byte(csvtable.ByteOrderMark))))
	in.DisallowUnknownFields()
	if err := in.Decode(&d); err != nil {
		return fail(err, `an object such as {"format": "`+format+`", "name": "my-task", "items": 50, "features": 8}`)
	}
	if _, err := in.Token(); err != io.EOF {
		return fail(errors.New("there is more after the object"), "one JSON object")
	}
	if d.Format != format {
		return d, &FormatError{File: path, Column: "format", Got: d.Format, Want: `"` + format + `"`}
	}
	if err := checkSize(d.Items, d.Features); err != nil {
		return fail(err, "the fields items and features to say the number of columns")
	}
	if err := csvtable.CheckText(d.Name); err != nil {
		return fail(err, "a printable name")
	}
	if d.Generator != nil {
		if _, err := d.Generator.Resolve(); err != nil {
			return fail(err, "the field generator to be a configuration of the generator, or absent")
		}
	}
	return d, nil
}

// hexSum returns a SHA-256 as text.
func hexSum(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
