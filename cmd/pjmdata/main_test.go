package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"fedrspo/internal/cli"
	"fedrspo/task/pjm"
)

// runCommand returns the exit code and the output.
func runCommand(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = command(args, &out, &err)
	return code, out.String(), err.String()
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {"-x"}, {"-o", "a", "-zones"}, {"-zones", "file"}, {"-o", "a.csv"}, {"-urls", "2025"}, {"-urls", "2025-02-01..2025-01-01"}, {"-urls", "x..y"}} {
		if code, stdout, stderr := runCommand(args...); code != cli.Usage || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "pjmdata: ") {
			t.Errorf("%q: code %d, output %q, error %q", args, code, stdout, stderr)
		}
	}
	if code, stdout, _ := runCommand("-h"); code != cli.OK || !strings.Contains(stdout, "-urls FIRST..LAST") {
		t.Errorf("help: code %d, %q", code, stdout)
	}
	code, stdout, _ := runCommand("-urls", "2024-12-31..2026-01-01")
	if lines := strings.Split(strings.TrimSpace(stdout), "\n"); code != cli.OK || len(lines) != 3+19 || !strings.HasSuffix(lines[2], "_2026.csv") || !strings.Contains(lines[3], "start_date=2024-12-31&end_date=2026-01-02") {
		t.Errorf("addresses: code %d, %q", code, stdout)
	}
	if code, stdout, _ := runCommand("-zones"); code != cli.OK || strings.Count(stdout, "\n") != 19 {
		t.Errorf("zones: code %d, %q", code, stdout)
	}
}

// TestBuildAndCheck joins made-up raw files of all zones, one of whose days
// lacks a price, and looks at the result.
func TestBuildAndCheck(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const days = 14
	start := time.Date(2025, 7, 1, 4, 0, 0, 0, time.UTC) // midnight in Eastern summer time
	var miner strings.Builder
	miner.WriteString("datetime_beginning_utc,datetime_beginning_ept,pnode_name,type,total_lmp_da,row_is_current\n")
	const form = "1/2/2006 3:04:05 PM"
	for i := range days * 24 {
		at := start.Add(time.Duration(i) * time.Hour)
		for k, z := range pjm.Zones() {
			if i == 30 && z.Name == "RECO" {
				continue
			}
			fmt.Fprintf(&miner, "%s,%s,%s,ZONE,%d,True\n", at.Format(form), at.Add(-4*time.Hour).Format(form), z.Name, (i*7)%41+k-5)
		}
	}
	write("prices.csv", miner.String())
	for k, z := range pjm.Zones() {
		var times, values []string
		for i := range (days + 1) * 24 {
			times = append(times, start.Add(time.Duration(i)*time.Hour).Format(`"2006-01-02T15:04"`))
			values = append(values, fmt.Sprint((i*i+k)%(37+i/24)))
		}
		v := strings.Join(values, ",")
		write("weather_"+strings.ToLower(z.Name)+"-2025.json", fmt.Sprintf(`{"utc_offset_seconds":0,
			"hourly_units":{"temperature_2m":"°C","relative_humidity_2m":"%%","wind_speed_10m":"km/h","shortwave_radiation":"W/m²"},
			"hourly":{"time":[%s],"temperature_2m":[%s],"relative_humidity_2m":[%s],"wind_speed_10m":[%s],"shortwave_radiation":[%s]}}`, strings.Join(times, ","), v, v, v, v))
	}
	write("sums.txt", "not a source")
	out := filepath.Join(t.TempDir(), "table.csv")
	code, stdout, stderr := runCommand("-o", out, dir)
	if code != cli.OK || !strings.Contains(stdout, "2025-07-01 to 2025-07-14: 13 dates kept, 1 left out") ||
		!strings.Contains(stdout, "2025-07-02: prices are missing: 1 hours in RECO") || !strings.Contains(stdout, "wrote "+out) {
		t.Fatalf("code %d, output %q, error %q", code, stdout, stderr)
	}
	code, stdout, stderr = runCommand("-check", out)
	for _, want := range []string{"19 clients, 13 dates from 2025-07-01 to 2025-07-14", "no 2025-07-02 for all clients", "over 13 dates", "AECO", "below zero", "training      6 dates from 2025-07-01 to 2025-07-07"} {
		if code != cli.OK || !strings.Contains(stdout, want) {
			t.Errorf("code %d, output %q, error %q; want %q", code, stdout, stderr, want)
		}
	}

	write("weather_OTHER.json", "{}")
	for _, args := range [][]string{
		{"-o", out, dir},                                   // a file of weather of no zone
		{"-o", out, filepath.Join(dir, "none")},            // no such file
		{"-o", out, t.TempDir()},                           // nothing there
		{"-o", out, filepath.Join(dir, "prices.csv")},      // no weather
		{"-check", filepath.Join(dir, "prices.csv")},       // another table
		{"-check", filepath.Join(dir, "none.csv")},         // no such table
		{"-o", filepath.Join(dir, "prices.csv", "a"), dir}, // no such folder
	} {
		if code, _, stderr := runCommand(args...); code != cli.Failed || strings.Count(stderr, "\n") != 1 {
			t.Errorf("%q: code %d, error %q", args, code, stderr)
		}
	}
	if code, _, stderr := runCommand("-o", out, filepath.Join(dir, "sums.txt")); code != cli.Usage {
		t.Errorf("a file of another kind: code %d, error %q", code, stderr)
	}
}
