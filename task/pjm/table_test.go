package pjm

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"fedrspo/internal/csvtable"
)

// grid is a table as records, header first.
type grid [][]string

// small is a table of two clients and three dates.
func small(t testing.TB) grid {
	t.Helper()
	var b strings.Builder
	if err := generated(t, Config{Clients: 2, Days: 10}).write(&b); err != nil {
		t.Fatal(err)
	}
	var g grid
	for k, line := range strings.Split(strings.TrimSpace(b.String()), "\n") {
		if k == 0 || (k-1)%10 < 3 {
			g = append(g, strings.Split(line, ","))
		}
	}
	return g
}

func (g grid) String() string {
	var b strings.Builder
	for _, record := range g {
		b.WriteString(strings.Join(record, ",") + "\n")
	}
	return b.String()
}

// set replaces the field of a column in a line, counted from 1.
func (g grid) set(line int, column, value string) {
	i := slices.Index(g[0], column)
	if i < 0 {
		panic(column)
	}
	g[line-1][i] = value
}

func writeFile(t testing.TB, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), fileName)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestLoadTolerates: what may differ in a file without changing the data.
func TestLoadTolerates(t *testing.T) {
	want, err := Load(writeFile(t, small(t).String()), Config{})
	if err != nil {
		t.Fatal(err)
	}
	if len(want.Clients) != 2 || want.Clients[1].Name != "AEP" || want.Clients[1].Demand != 6 || len(want.Clients[1].Days) != 3 {
		t.Fatalf("%+v", want)
	}
	reversed := func(g grid) grid { slices.Reverse(g[1:]); return g }
	for name, change := range map[string]func(grid) string{
		"order of rows": func(g grid) string { return reversed(g).String() },
		"order of columns": func(g grid) string {
			for _, record := range g {
				slices.Reverse(record)
			}
			return g.String()
		},
		"byte order mark": func(g grid) string { return csvtable.ByteOrderMark + g.String() },
		"CRLF":            func(g grid) string { return strings.ReplaceAll(g.String(), "\n", "\r\n") },
		"no last newline": func(g grid) string { return strings.TrimSpace(g.String()) },
		"blank lines":     func(g grid) string { return strings.ReplaceAll(g.String(), "\n", "\n\n") },
		"spaces":          func(g grid) string { return strings.ReplaceAll(g.String(), ",-", ", -") },
		"whole numbers as decimals": func(g grid) string {
			g.set(2, "bess", "6.0")
			g.set(2, "day_of_week", "2.0")
			return g.String()
		},
	} {
		got, err := Load(writeFile(t, change(small(t))), Config{})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	path := writeFile(t, small(t).String())
	if got, err := Load(filepath.Dir(path), Config{}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("the folder: %v", err)
	}
	// Negative prices are prices.
	g := small(t)
	g.set(3, "total_lmp_4", "-31.5")
	if got, err := Load(writeFile(t, g.String()), Config{}); err != nil || got.Clients[0].Days[1].LMP[4] != -31.5 {
		t.Errorf("a negative price: %v", err)
	}
}

// TestMalformed: every defect is one error that names the file, the line and
// the column, what was found and what was expected.
func TestMalformed(t *testing.T) {
	set := func(line int, column, value string) func(grid) string {
		return func(g grid) string { g.set(line, column, value); return g.String() }
	}
	rename := func(from, to string) func(grid) string { return set(1, from, to) }
	without := func(column string) func(grid) string {
		return func(g grid) string {
			i := slices.Index(g[0], column)
			for k := range g {
				g[k] = slices.Delete(g[k], i, i+1)
			}
			return g.String()
		}
	}
	for name, c := range map[string]struct {
		change       func(grid) string
		line         int
		column, says string
	}{
		"empty file":           {func(grid) string { return "" }, 1, "", "the file is empty, want a header of 60 columns"},
		"no rows":              {func(g grid) string { return g[:1].String() }, 0, "", "no rows"},
		"unknown column":       {rename("bess", "demand"), 1, "demand", "no such column belongs here"},
		"missing column":       {without("bess"), 1, "bess", "the column is missing"},
		"missing hour":         {without("total_lmp_17"), 1, "total_lmp_17", "the column is missing"},
		"duplicate column":     {rename("temp_c_min", "temp_c_max"), 1, "temp_c_max", "the column is there twice"},
		"column too many":      {func(g grid) string { return strings.ReplaceAll(g.String(), "\n", ",x\n") }, 1, "x", "no such column"},
		"semicolons":           {func(g grid) string { return strings.ReplaceAll(g.String(), ",", ";") }, 1, "", "1 columns, want 60 columns"},
		"row too long":         {func(g grid) string { return strings.TrimSpace(g.String()) + ",1\n" }, 7, "", "61 columns"},
		"row cut short":        {func(g grid) string { s := g.String(); return s[:len(s)-200] }, 7, "", "columns, want 60"},
		"cut in the last name": {func(g grid) string { s := g.String(); return s[:len(s)-2] }, 7, "client_name", `got "AE", want "AEP" as in line 5`},
		"open quote":           {set(3, "client_name", `"AECO`), 7, "", "comma-separated values"},
		"no client":            {set(3, "client_id", ""), 3, "client_id", "a whole number"},
		"client of a name":     {set(3, "client_id", "AECO"), 3, "client_id", `got "AECO"`},
		"no date":              {set(3, "date", ""), 3, "date", `got "", want a date as YYYY-MM-DD`},
		"American date":        {set(3, "date", "1/2/2025"), 3, "date", `got "1/2/2025", want a date as YYYY-MM-DD`},
		"impossible date":      {set(3, "date", "2025-02-30"), 3, "date", "2025-02-30"},
		"duplicate date":       {func(g grid) string { g.set(3, "day_of_week", "2"); return set(3, "date", "2025-01-01")(g) }, 3, "date", "one row for each date of client 1 (this one is in line 2 too)"},
		"NaN price":            {set(3, "total_lmp_23", "NaN"), 3, "total_lmp_23", `got "NaN", want a finite number`},
		"infinite price":       {set(3, "congestion_0", "-inf"), 3, "congestion_0", "want a finite number"},
		"overflow":             {set(3, "congestion_9", "1e999"), 3, "congestion_9", "want a finite number"},
		"empty price":          {set(3, "total_lmp_0", ""), 3, "total_lmp_0", `got "", want a finite number`},
		"text for a price":     {set(4, "total_lmp_5", "n/a"), 4, "total_lmp_5", `got "n/a"`},
		"decimal comma":        {set(4, "total_lmp_5", `"4,5"`), 4, "total_lmp_5", `got "4,5"`},
		"empty weather":        {set(4, "humidity_mean", " "), 4, "humidity_mean", "want a finite number"},
		"temperatures":         {set(4, "temp_c_min", "99"), 4, "temp_c_min", `got "99", want at most temp_c_max`},
		"wrong weekday":        {set(2, "day_of_week", "3"), 2, "day_of_week", `got "3", want 2, the day of the week of 2025-01-01 (Monday is 0)`},
		"no weekday":           {set(2, "day_of_week", "Wed"), 2, "day_of_week", "want a finite number"},
		"demand of 0":          {set(2, "bess", "0"), 2, "bess", `got "0", want a whole number of hours, 1 to 24`},
		"demand of 25":         {set(2, "bess", "25"), 2, "bess", "1 to 24"},
		"fractional demand":    {set(2, "bess", "6.5"), 2, "bess", "a whole number"},
		"huge demand":          {set(2, "bess", "1e300"), 2, "bess", "1 to 24"},
		"other demand":         {set(3, "bess", "8"), 3, "bess", `got "8", want 6 as in line 2: a client's demand is constant`},
		"other name":           {set(4, "client_name", "AEP"), 4, "client_name", `got "AEP", want "AECO" as in line 2`},
		"no name":              {set(2, "client_name", ""), 2, "client_name", "the client's name"},
		"control characters":   {set(2, "client_name", "A\x00"), 2, "client_name", "control characters"},
		"name of another": {func(g grid) string {
			for line := 5; line <= 7; line++ {
				g.set(line, "client_name", "AECO")
			}
			return g.String()
		}, 5, "client_name", "a name of its own for client 2: client 1 has this one"},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeFile(t, c.change(small(t)))
			d, err := Load(path, Config{})
			f, ok := errors.AsType[*FormatError](err)
			if d != nil || !ok || !errors.Is(err, ErrFormat) {
				t.Fatalf("data %v, error %v", d, err)
			}
			if f.File != path || f.Line != c.line || f.Column != c.column || f.Want == "" || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %q\nat line %d, column %q; want line %d, column %q and %q", err, f.Line, f.Column, c.line, c.column, c.says)
			}
		})
	}
	dir := t.TempDir()
	for _, path := range []string{dir, filepath.Join(dir, "none.csv")} {
		if _, err := Load(path, Config{}); !errors.Is(err, ErrFormat) || !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("nothing there: %v", err)
		}
	}
	// A client that is not in the file is not missed, one day is a client: what
	// they make impossible is for Task to say.
	g := small(t)
	if d, err := Load(writeFile(t, g[:5].String()), Config{}); err != nil || len(d.Clients) != 2 || len(d.Clients[1].Days) != 1 {
		t.Errorf("a client of one day: %v", err)
	} else if _, err := d.Task(); !errors.Is(err, ErrData) {
		t.Errorf("a task of three dates: %v", err)
	}
}

// TestRoundTrip: what is exported is loaded back bit for bit.
func TestRoundTrip(t *testing.T) {
	want := generated(t, Config{Seed: 5, Clients: 4, Days: 40})
	want.Clients[0].Name = `A, "quoted" zone`
	dir := filepath.Join(t.TempDir(), "new", "folder")
	for range 2 { // again over the same content
		if err := want.Export(dir); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Load(dir, Config{})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Clients, want.Clients) {
		t.Error("the data differ")
	}
	path := filepath.Join(dir, fileName)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	other := generated(t, Config{Seed: 6, Clients: 4, Days: 40})
	for _, to := range []string{dir, path} {
		if err := other.Export(to); !errors.Is(err, ErrExists) {
			t.Errorf("exported over other data: %v", err)
		}
	}
	if after, _ := os.ReadFile(path); string(after) != string(before) {
		t.Error("a refused export changed the file")
	}
	other.Clients[0].Demand = 0
	if err := other.Export(filepath.Join(dir, "other.csv")); !errors.Is(err, ErrData) {
		t.Errorf("exported invalid data: %v", err)
	}
}

// TestExcerpt reads five days of the published table and checks what it says
// about itself: the congestion is the difference to the mean over the 19 zones,
// whose names and demands are ours.
func TestExcerpt(t *testing.T) {
	d, err := Load(realData(t, "pjm/rspo_pjm_data_excerpt.csv"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	if worst, dates := d.CheckCongestion(); dates != 5 || worst.Dollars > 1e-9 {
		t.Errorf("congestion is off by %v over %d dates", worst, dates)
	}
	for k, z := range Zones() {
		c := d.Clients[k]
		if c.ID != z.ID || c.Name != z.Name || c.Demand != z.Demand || len(c.Days) != 5 {
			t.Errorf("client %d %s: demand %d, %d days; want %s, %d", c.ID, c.Name, c.Demand, len(c.Days), z.Name, z.Demand)
		}
	}
	day := d.Clients[0].Days[0]
	if day.Date.String() != "2025-01-05" || day.LMP[7] != 50.21322 || !near(day.Cost(7), 50.21322+0.35345157894736445, 1e-15) || day.Weather.SolarMax != 483 {
		t.Errorf("%+v", day)
	}
	if gaps := d.Gaps(); len(gaps) != 0 {
		t.Errorf("gaps %v", gaps)
	}
}

// TestPublishedClockChanges reads the published rows around the clock changes:
// the 23-hour day is missing, the 25-hour day is there with 24 hours.
func TestPublishedClockChanges(t *testing.T) {
	d, err := Load(realData(t, "pjm/rspo_pjm_dst_rows.csv"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	var dates []string
	for _, date := range d.Dates() {
		if date.Hours() == 23 {
			t.Errorf("%v is there", date)
		}
		dates = append(dates, date.String()+" "+strconv.Itoa(date.Hours()))
	}
	if !slices.Equal(dates, []string{"2025-03-08 24", "2025-03-10 24", "2025-11-02 25"}) {
		t.Errorf("dates %v", dates)
	}
	// Means of the weather over 25 hours have one more digit than over 24.
	if w := d.Clients[0].Days[2].Weather; !near(w.TempMean*25, float64(int(w.TempMean*250+0.5))/10, 1e-9) {
		t.Errorf("temperature %v is no mean over 25 hours", w.TempMean)
	}
}
