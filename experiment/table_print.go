package experiment

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"fedrspo/run"
)

// plusMinus is mean ± deviation; the deviation is left out if it is not known.
func plusMinus(mean, std float64, digits int) string {
	if math.IsNaN(mean) {
		return ""
	}
	if math.IsNaN(std) {
		return fmt.Sprintf("%.*f", digits, mean)
	}
	return fmt.Sprintf("%.*f ± %.*f", digits, mean, digits, std)
}

func (f *Finished) ours(e Entry) string {
	if len(f.Options.Seeds) == 1 {
		return plusMinus(e.Mean, math.NaN(), e.Digits)
	}
	return plusMinus(e.Mean, e.Std, e.Digits)
}

// zText prints z; what rounds to 0 has no sign.
func zText(z float64) string {
	if math.Abs(z) < 0.05 {
		return "0.0"
	}
	return fmt.Sprintf("%+.1f", z)
}

func paperText(t *Target) string {
	switch {
	case t == nil:
		return ""
	case t.HasStd:
		return plusMinus(t.Mean, t.Std, t.Digits)
	}
	return plusMinus(t.Mean, math.NaN(), t.Digits)
}

// numbered says whether the paper has it as a table with that number.
func (t *Table) numbered() bool { return isNumber(t.ID) }

// isNumber says whether an ID is a number of the paper's, or a part of such a
// table, as 4-pjm is.
func isNumber(id string) bool {
	_, err := strconv.Atoi(strings.TrimSuffix(id, "-pjm"))
	return err == nil
}

// Name is what the table is called in a sentence, such as "table 3".
func (t *Table) Name() string {
	if t.numbered() {
		return "table " + t.ID
	}
	return t.ID
}

// heading is the table's title with its number.
func (t *Table) heading() string {
	if t.numbered() {
		return "Table " + t.ID + ": " + t.Title
	}
	return t.Title
}

func seedText(seeds []int64) string {
	text := make([]string, 0, 6)
	for _, s := range seeds {
		if len(text) == 5 && len(seeds) > 6 {
			return strings.Join(text, ", ") + fmt.Sprintf(", ... (%d)", len(seeds))
		}
		text = append(text, strconv.FormatInt(s, 10))
	}
	return strings.Join(text, ", ")
}

// Markdown writes the table for people.
func (f *Finished) Markdown(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n", f.heading())
	if f.Note != "" {
		fmt.Fprintf(&b, "%s\n\n", f.Note)
	}
	fmt.Fprintf(&b, "Learning rates: %s. Seeds: %s.\n\n", f.Options.Rates, seedText(f.Options.Seeds))
	f.cellsMarkdown(&b)
	f.claimsMarkdown(&b)
	f.ratesMarkdown(&b)
	f.pairedMarkdown(&b)
	fmt.Fprintln(&b)
	_, err := io.WriteString(w, b.String())
	return err
}

// cellsMarkdown writes the cells; a column that would be empty is left out.
func (f *Finished) cellsMarkdown(b *strings.Builder) {
	ours := "ours"
	if n := len(f.Options.Seeds); n > len(f.Table.Seeds) {
		ours = fmt.Sprintf("ours, %d seeds", n)
	}
	columns := []struct {
		name string
		text func(Entry) string
	}{
		{"setting", func(e Entry) string { return e.Setting }},
		{"method", func(e Entry) string { return e.Method }},
		{"stage", func(e Entry) string { return e.Stage }},
		{"paper", func(e Entry) string { return paperText(e.Target) }},
		{"ours, the paper's seeds", func(e Entry) string { return plusMinus(e.PaperMean, e.PaperStd, e.Digits) }},
		{ours, f.ours},
		{"z", func(e Entry) string {
			if math.IsNaN(e.Z) {
				return ""
			}
			return zText(e.Z)
		}},
		{"verdict", func(e Entry) string { return e.Verdict }},
	}
	var names, rules []string
	rows := make([][]string, len(f.Entries))
	for k, c := range columns {
		if k > 2 && !slices.ContainsFunc(f.Entries, func(e Entry) bool { return c.text(e) != "" }) {
			continue
		}
		names, rules = append(names, c.name), append(rules, "---")
		for i, e := range f.Entries {
			rows[i] = append(rows[i], c.text(e))
		}
	}
	for _, row := range slices.Concat([][]string{names, rules}, rows) {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
	}
	for _, e := range f.Entries {
		if e.Reason != "" {
			fmt.Fprintf(b, "\n- Known difference, %s: %s\n", e.ID, e.Reason)
		}
	}
}

func (f *Finished) claimsMarkdown(b *strings.Builder) {
	if len(f.Judged) > 0 {
		fmt.Fprint(b, "\nClaims:\n\n")
	}
	for _, j := range f.Judged {
		switch j.Verdict {
		case Holds:
			fmt.Fprintf(b, "- %s: holds\n", j.Text)
		case Known:
			fmt.Fprintf(b, "- %s: **does not hold**, which is known: %s\n", j.Text, j.Reason)
		default:
			fmt.Fprintf(b, "- %s: **does not hold**\n", j.Text)
		}
	}
}

func (f *Finished) ratesMarkdown(b *strings.Builder) {
	if len(f.Rates) == 0 {
		return
	}
	fmt.Fprint(b, "\nChosen rates (least regret on validation samples):\n\n")
	for _, k := range slices.Sorted(maps.Keys(f.Rates)) {
		fmt.Fprintf(b, "- `%s`: %g\n", k, f.Rates[k])
	}
}

// stem is Name as a file name.
func (t *Table) stem() string { return strings.ReplaceAll(t.Name(), " ", "-") }

// name is the folder of the table's files: a table over other seeds or rates
// does not replace it.
func (f *Finished) name() string {
	name := f.stem() + "-" + f.Options.Rates
	if f.Variant != "" {
		name += "-" + f.Variant
	}
	switch n := len(f.Options.Seeds); {
	case slices.Equal(f.Options.Seeds, f.Table.Seeds):
	case n == 1:
		name += "-seed-" + strconv.FormatInt(f.Options.Seeds[0], 10)
	default:
		name += fmt.Sprintf("-%d-seeds", n)
	}
	return name
}

// Write writes the table as Markdown, CSV and JSON, the resolved settings of
// every run, and the plots, below the folder. It returns the name of the
// table's own folder there.
func (f *Finished) Write(folder *run.Folder) (string, error) {
	dir := f.name()
	recipes, err := f.recipes()
	err = errors.Join(err,
		folder.Write(filepath.Join(dir, "table.md"), f.Markdown),
		folder.Write(filepath.Join(dir, "cells.csv"), f.csv),
		folder.WriteJSON(filepath.Join(dir, "table.json"), f.document()),
		folder.WriteJSON(filepath.Join(dir, "recipes.json"), recipes))
	for _, p := range f.Plots {
		err = errors.Join(err, p.write(f, folder, dir))
	}
	return dir, err
}

// recipes maps the train command of every run, less its seed, to all settings
// it stands for.
func (f *Finished) recipes() (map[string]map[string]any, error) {
	out := map[string]map[string]any{}
	for _, j := range f.Jobs {
		if _, ok := out[j.recipe()]; ok {
			continue
		}
		s, err := j.setting()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", j.Command(), err)
		}
		resolved := s.Resolved()
		delete(resolved, "seed")
		out[j.recipe()] = resolved
	}
	return out, nil
}

// document is table.json.
type document struct {
	Table   string             `json:"table"`
	Title   string             `json:"title"`
	Note    string             `json:"note,omitempty"`
	Rates   string             `json:"rates"`
	Seeds   []int64            `json:"seeds"`
	Std     string             `json:"std"`
	Cells   []record           `json:"cells"`
	Claims  []claimRecord      `json:"claims,omitempty"`
	Tuned   map[string]float64 `json:"tuned_rates,omitempty"`
	Paired  []pairedRecord     `json:"paired,omitempty"`
	Program run.Version        `json:"program"`
}

// record is a cell in table.json.
type record struct {
	ID        string    `json:"id"`
	Setting   string    `json:"setting"`
	Method    string    `json:"method"`
	Stage     string    `json:"stage"`
	Mean      *float64  `json:"mean"`
	Std       *float64  `json:"std,omitempty"`
	Values    []float64 `json:"values,omitempty"`
	PaperMean *float64  `json:"mean_over_paper_seeds,omitempty"`
	PaperStd  *float64  `json:"std_over_paper_seeds,omitempty"`
	Target    *float64  `json:"paper,omitempty"`
	TargetStd *float64  `json:"paper_std,omitempty"`
	Z         *float64  `json:"z,omitempty"`
	Verdict   string    `json:"verdict,omitempty"`
	Reason    string    `json:"reason,omitempty"`
	// Commands are of the first seed; other seeds differ in -seed.
	Commands []string `json:"commands"`
}

// claimRecord is a claim in table.json.
type claimRecord struct {
	ID      string `json:"id"`
	Text    string `json:"text"`
	Verdict string `json:"verdict"`
	Reason  string `json:"reason,omitempty"`
}

// pairedRecord is a paired comparison in table.json.
type pairedRecord struct {
	ID       string   `json:"id"`
	Baseline string   `json:"baseline"`
	Mean     float64  `json:"difference"`
	Low      *float64 `json:"low"`
	High     *float64 `json:"high"`
	P        float64  `json:"p"`
	N        int      `json:"n"`
}

func (f *Finished) document() document {
	d := document{Table: f.Table.ID, Title: f.Title, Note: f.Note, Rates: f.Options.Rates, Seeds: f.Options.Seeds, Std: "sample", Tuned: f.Rates, Program: Version()}
	if f.Options.Population {
		d.Std = "population"
	}
	for _, e := range f.Entries {
		r := record{ID: e.ID, Setting: e.Setting, Method: e.Method, Stage: e.Stage, Mean: finiteOrNil(e.Mean), Std: finiteOrNil(e.Std), Values: e.Values,
			PaperMean: finiteOrNil(e.PaperMean), PaperStd: finiteOrNil(e.PaperStd), Z: finiteOrNil(e.Z), Verdict: e.Verdict, Reason: e.Reason}
		if e.Target != nil {
			r.Target = &e.Target.Mean
			if e.Target.HasStd {
				r.TargetStd = &e.Target.Std
			}
		}
		for _, j := range f.jobs(e.Cell, f.Options.Seeds[0]) {
			r.Commands = append(r.Commands, j.Command())
		}
		d.Cells = append(d.Cells, r)
	}
	for _, j := range f.Judged {
		d.Claims = append(d.Claims, claimRecord(j))
	}
	for _, c := range f.comparisons() {
		d.Paired = append(d.Paired, pairedRecord{c.e.ID, f.Baseline, c.Mean, finiteOrNil(c.Low), finiteOrNil(c.High), c.P, c.N})
	}
	return d
}

func finiteOrNil(x float64) *float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return nil
	}
	return &x
}

func (f *Finished) csv(w io.Writer) error {
	c := csv.NewWriter(w)
	err := c.Write([]string{"id", "setting", "method", "stage", "mean", "std", "seeds", "mean_over_paper_seeds", "std_over_paper_seeds", "paper_mean", "paper_std", "z", "verdict"})
	for _, e := range f.Entries {
		row := []string{e.ID, e.Setting, e.Method, e.Stage, optional(e.Mean), optional(e.Std), strconv.Itoa(len(f.Options.Seeds)), optional(e.PaperMean), optional(e.PaperStd), "", "", optional(e.Z), e.Verdict}
		if e.Target != nil {
			row[9] = number(e.Target.Mean)
			if e.Target.HasStd {
				row[10] = number(e.Target.Std)
			}
		}
		err = errors.Join(err, c.Write(row))
	}
	c.Flush()
	return errors.Join(err, c.Error())
}

// optional prints x, or nothing if it is not finite.
func optional(x float64) string {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return ""
	}
	return number(x)
}
