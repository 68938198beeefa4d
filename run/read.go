package run

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
)

// Timing reads TimingFile. An error about its content wraps ErrFolder.
func (f *Folder) Timing() (t Timing, err error) { return t, f.readJSON(TimingFile, &t) }

// Version reads VersionFile. An error about its content wraps ErrFolder.
func (f *Folder) Version() (v Version, err error) { return v, f.readJSON(VersionFile, &v) }

// readJSON reads a file that is one JSON value.
func (f *Folder) readJSON(name string, v any) error {
	data, err := os.ReadFile(f.Path(name))
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, v); err != nil {
		return fmt.Errorf("%s: %w: %w", f.Path(name), ErrFolder, err)
	}
	return nil
}

// Metrics reads MetricsFile, in the order of its lines. An error about its
// content names the line and wraps ErrFolder.
func (f *Folder) Metrics() ([]Metric, error) {
	data, err := os.ReadFile(f.Path(MetricsFile))
	if err != nil {
		return nil, err
	}
	var out []Metric
	line := 0
	for text := range bytes.Lines(data) {
		line++
		var m Metric
		in := json.NewDecoder(bytes.NewReader(text))
		err := in.Decode(&m)
		if err == nil {
			if _, end := in.Token(); end != io.EOF {
				err = errors.New("more than one value")
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			err = errors.New("an empty line")
		case err == nil && (m.Loss == "" || m.Stage == "" || m.Round < 0):
			err = errors.New("want a loss, a stage and a round from 0")
		}
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w: %w", f.Path(MetricsFile), line, ErrFolder, err)
		}
		out = append(out, m)
	}
	return out, nil
}
