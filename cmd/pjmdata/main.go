// Command pjmdata makes the table of PJM prices and weather that train reads
// from raw sources, and checks such tables. Run pjmdata -h for its flags.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"fedrspo/internal/cli"
	"fedrspo/task/pjm"
)

const usage = `pjmdata makes the table of PJM prices and weather that train reads.

    pjmdata -urls 2025-01-01..2025-12-31     # what to download
    pjmdata -o my.csv data/pjm/raw/2025      # join it
    pjmdata -check my.csv                    # look at a table

With -o, the arguments are raw files, or folders of them:

    *.csv    day-ahead prices: exports of da_hrl_lmps from PJM's Data Miner 2,
             or EIA's pjm_lmp_da_hr_zones_YEAR.csv; any number, all zones or one
    *.json   answers of the Open-Meteo archive about one zone, whose name is a
             part of the file's, as in weather_AECO.json or AECO-2025.json

A date is kept when every zone has all its prices and weather, and else left out
with the reason; so is the day of 23 hours. In the day of 25 hours the price of
1:00 is the mean of its two. docs/data.md describes the table.

Flags:
`

func main() { os.Exit(command(os.Args[1:], os.Stdout, os.Stderr)) }

// command runs the program and returns its exit code.
func command(args []string, stdout, stderr io.Writer) int {
	return cli.Main("pjmdata", stdout, stderr, func() string { return "interrupted; nothing was written" }, func(ctx context.Context, stdout io.Writer) error {
		return dispatch(ctx, args, stdout)
	})
}

// dispatch does what the flags say.
func dispatch(ctx context.Context, args []string, stdout io.Writer) error {
	f := flag.NewFlagSet("pjmdata", flag.ContinueOnError)
	f.SetOutput(io.Discard)
	out := f.String("o", "", "join the raw files of the arguments to this `FILE`")
	check := f.String("check", "", "say what is in the table `FILE`, or in a table of one hub")
	urls := f.String("urls", "", "print the addresses of the raw sources for the dates `FIRST..LAST`")
	zones := f.Bool("zones", false, "print the 19 zones: client, name, hours of demand, place")
	err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		f.SetOutput(stdout)
		f.PrintDefaults()
		return nil
	}
	if err != nil {
		return cli.UsageError{Err: err}
	}
	asked := 0
	for _, is := range []bool{*out != "", *check != "", *urls != "", *zones} {
		if is {
			asked++
		}
	}
	switch {
	case asked != 1:
		return cli.Usagef("want one of -o, -check, -urls and -zones")
	case *out == "" && f.NArg() > 0:
		return cli.Usagef("%q would have no effect: only -o takes files", f.Arg(0))
	case *out != "" && f.NArg() == 0:
		return cli.Usagef("-o wants the raw files, or folders of them, as arguments")
	case *check != "":
		return describe(*check, stdout)
	case *urls != "":
		return printURLs(*urls, stdout)
	case *zones:
		for _, z := range pjm.Zones() {
			fmt.Fprintf(stdout, "%2d  %-8s %2d h  %6.2f %7.2f\n", z.ID, z.Name, z.Demand, z.Latitude, z.Longitude)
		}
		return nil
	}
	return build(ctx, *out, f.Args(), stdout)
}

// printURLs prints where the raw sources are.
func printURLs(dates string, stdout io.Writer) error {
	from, to, ok := strings.Cut(dates, "..")
	first, err := pjm.ParseDate(from)
	last, err2 := pjm.ParseDate(to)
	if err := errors.Join(err, err2); !ok || err != nil || last < first {
		return cli.Usagef("-urls %q, want dates as 2025-01-01..2025-12-31", dates)
	}
	for year := first.String()[:4]; ; {
		fmt.Fprintf(stdout, "https://www.eia.gov/electricity/wholesalemarkets/csv/pjm_lmp_da_hr_zones_%s.csv\n", year)
		if year == last.String()[:4] {
			break
		}
		for d := first; d.String()[:4] <= year; d++ {
			first = d + 1
		}
		year = first.String()[:4]
	}
	first, _ = pjm.ParseDate(from)
	for _, z := range pjm.Zones() {
		fmt.Fprintf(stdout, "%s weather_%s.json\n", z.URL(first, last), z.Name)
	}
	return nil
}

// build joins raw files.
func build(ctx context.Context, out string, paths []string, stdout io.Writer) error {
	files, err := rawFiles(paths)
	if err != nil {
		return err
	}
	zones := pjm.Zones()
	prices, weather := pjm.NewPrices(zones), pjm.NewWeather(zones)
	for _, path := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		if strings.EqualFold(filepath.Ext(path), ".csv") {
			err = prices.Read(path)
		} else if zone, zoneErr := zoneOf(path, zones); zoneErr != nil {
			err = zoneErr
		} else {
			err = weather.Read(path, zone)
		}
		if err != nil {
			return err
		}
	}
	fmt.Fprintf(stdout, "%d files: %d prices (%d empty, %d rows of other places or replaced), %d values of weather (%d null)\n",
		len(files), prices.Used, prices.Blank, prices.Other, weather.Used, weather.Null)
	d, report, err := pjm.Build(prices, weather)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%v to %v: %d dates kept, %d left out\n", report.First, report.Last, report.Kept, len(report.Dropped))
	for _, drop := range report.Dropped {
		fmt.Fprintf(stdout, "  %v\n", drop)
	}
	if err := d.Export(out); err != nil {
		return err
	}
	fmt.Fprintf(stdout, "wrote %s\n", out)
	return nil
}

// rawFiles lists the files of the arguments, in their order and sorted within a
// folder.
func rawFiles(paths []string) ([]string, error) {
	var files []string
	for _, root := range paths {
		info, err := os.Stat(root)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			if !raw(root) {
				return nil, cli.Usagef("%s is neither a .csv of prices nor a .json of weather", root)
			}
			files = append(files, root)
			continue
		}
		err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() && raw(path) {
				files = append(files, path)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no .csv of prices and no .json of weather in %s", strings.Join(paths, ", "))
	}
	return files, nil
}

// raw says whether a file is taken for a raw source.
func raw(path string) bool {
	ext := strings.ToLower(filepath.Ext(path))
	return ext == ".csv" || ext == ".json"
}

// zoneOf returns the zone that a file of weather is named after.
func zoneOf(path string, zones []pjm.Zone) (string, error) {
	words := strings.FieldsFunc(strings.ToUpper(filepath.Base(path)), func(r rune) bool { return !unicode.IsLetter(r) })
	var found []string
	for _, z := range zones {
		if slices.Contains(words, z.Name) {
			found = append(found, z.Name)
		}
	}
	if len(found) != 1 {
		return "", fmt.Errorf("%s: the file's name must name one zone, as weather_AECO.json does", path)
	}
	return found[0], nil
}

// describe prints what is in a table.
func describe(path string, stdout io.Writer) error {
	d, err := pjm.Load(path, pjm.Config{})
	if err != nil {
		return err
	}
	dates := d.Dates()
	fmt.Fprintf(stdout, "%d clients, %d dates from %v to %v\n", len(d.Clients), len(dates), dates[0], dates[len(dates)-1])
	gaps := d.Gaps()
	const most = 20
	for k, g := range gaps {
		if k == most {
			fmt.Fprintf(stdout, "  and %d more\n", len(gaps)-most)
			break
		}
		who := "all clients"
		if g.Name != "" {
			who = g.Name
		}
		fmt.Fprintf(stdout, "  no %v for %s\n", g.Date, who)
	}
	worst, checked := d.CheckCongestion()
	fmt.Fprintf(stdout, "congestion is LMP less its mean over clients to within %.2g $/MWh, over %d dates\n", worst.Dollars, checked)
	for _, c := range d.Clients {
		p := c.Summary()
		fmt.Fprintf(stdout, "%4d  %-10s %2d h  %4d days  LMP mean %7.2f  from %9.2f to %9.2f $/MWh, %d hours below zero\n",
			c.ID, c.Name, c.Demand, len(c.Days), p.Mean, p.Min, p.Max, p.Negative)
	}
	if _, err := d.Task(); err != nil {
		return fmt.Errorf("%s is no task: %w", path, err)
	}
	parts := d.Parts()
	for p := range parts {
		fmt.Fprintf(stdout, "%-10v %4d dates from %v to %v\n", pjm.Part(p), len(parts[p]), parts[p][0], parts[p][len(parts[p])-1])
	}
	return nil
}
