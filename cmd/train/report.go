package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"fedrspo/experiment"
	"fedrspo/internal/cli"
	"fedrspo/report"
	"fedrspo/run"
)

// reportDefault is the default of -report.
var reportDefault = "on"

// writeReport writes the report of a run into its folder.
func writeReport(ctx context.Context, o *options, s experiment.Setting, folder *run.Folder, show []experiment.Shown) error {
	s, err := s.WithAbsolutePaths()
	if err != nil {
		return err
	}
	return s.Report(ctx, folder, show, experiment.ReportText{Title: title(s), Table: func(w io.Writer, results []run.Result) error {
		if err := printRows(w, s, results, o.std == "population"); err != nil {
			return err
		}
		if note := constantNote(results); note != "" {
			fmt.Fprintf(w, "\n%s\n", note)
		}
		return nil
	}})
}

// rewriteReport is -report-of.
func rewriteReport(ctx context.Context, o *options, s experiment.Setting, stdout io.Writer) error {
	folder, err := run.Open(o.reportOf)
	if err != nil {
		return err
	}
	var show []experiment.Shown
	if o.show != "" {
		for _, text := range strings.Split(o.show, ",") {
			one, err := experiment.ParseShown(strings.TrimSpace(text))
			if err != nil {
				return cli.Usagef("-show: %s", cli.OneLine(err))
			}
			show = append(show, one)
		}
	}
	if err := writeReport(ctx, o, s, folder, show); err != nil {
		return err
	}
	fmt.Fprintln(stdout, folder.Path(report.File))
	return nil
}
