package experiment

import (
	_ "embed" // the tables below
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// Target is a number the paper prints.
type Target struct {
	// Table is "3", "text-C.5", "text-fig3", ...
	Table string
	// Setting, Method and Stage locate the cell as the paper labels it; Metric
	// and Unit say what is printed.
	Setting, Method, Stage, Metric, Unit string
	Mean                                 float64
	// Std is the deviation over seeds; HasStd says whether the paper gives one.
	Std    float64
	HasStd bool
	// Digits is the number of decimals printed for the mean.
	Digits int
	Note   string
}

//go:embed targets.csv
var targetsCSV string

// Targets returns all numbers of the paper, in its order.
var Targets = sync.OnceValue(func() []Target {
	rows := mustRead("targets.csv", targetsCSV, 10)
	out := make([]Target, len(rows))
	for i, r := range rows {
		t := Target{Table: r[0], Setting: r[1], Method: r[2], Stage: r[3], Metric: r[4], Unit: r[7], Note: r[9]}
		var err error
		if t.Mean, err = strconv.ParseFloat(r[5], 64); err != nil {
			panic(fmt.Sprintf("experiment: targets.csv: row %d: %v", i+2, err))
		}
		if _, fraction, ok := strings.Cut(r[5], "."); ok {
			t.Digits = len(fraction)
		}
		if r[6] != "" {
			t.HasStd = true
			if t.Std, err = strconv.ParseFloat(r[6], 64); err != nil {
				panic(fmt.Sprintf("experiment: targets.csv: row %d: %v", i+2, err))
			}
		}
		out[i] = t
	}
	return out
})

// findTarget returns the paper's number for a cell, an element of Targets, or
// nil.
func findTarget(table, setting, method, stage, metric string) *Target {
	all := Targets()
	for k := range all {
		if t := &all[k]; t.Table == table && t.Setting == setting && t.Method == method && t.Stage == stage && t.Metric == metric {
			return t
		}
	}
	return nil
}

// where names the place of a number in the paper.
func (t *Target) where() string {
	place := "Table " + t.Table
	if name, ok := strings.CutPrefix(t.Table, "text-"); ok {
		place = "Text, " + name
	}
	for _, data := range []string{"PJM", "Warcraft"} {
		if strings.HasPrefix(t.Setting, data) {
			place += ", " + data
		}
	}
	return place
}

//go:embed known.csv
var knownCSV string

// knownDifferences maps the ID of a cell whose number differs from the paper's
// to the reason and the evidence.
var knownDifferences = sync.OnceValue(func() map[string]string {
	out := map[string]string{}
	for _, r := range mustRead("known.csv", knownCSV, 3) {
		out[r[0]] = r[1] + " Evidence: " + r[2]
	}
	return out
})

// mustRead reads an embedded table with a header. The tables are part of the
// program: a defect is a programmer's error, and a test reads them.
func mustRead(name, text string, columns int) [][]string {
	r := csv.NewReader(strings.NewReader(text))
	r.FieldsPerRecord = columns
	rows, err := r.ReadAll()
	if err != nil || len(rows) == 0 {
		panic(fmt.Sprintf("experiment: %s: %v", name, err))
	}
	return rows[1:]
}
