package pjm

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"fedrspo/internal/atomicfile"
	"fedrspo/internal/csvtable"
)

// ErrFormat: a file that cannot be read as what it should be. It is wrapped by
// every FormatError.
var ErrFormat = csvtable.ErrFormat

// FormatError says what is wrong where in a file.
type FormatError = csvtable.FormatError

// ErrExists: Export will not write over a file with other content.
var ErrExists = errors.New("the file is there with other content")

// fileName is the published table's.
const fileName = "pjm_data.csv"

// columns is the header of the published table.
var columns = csvtable.Columns{
	{Name: "client_id"}, {Name: "date"}, {Name: "total_lmp_", Count: Hours}, {Name: "congestion_", Count: Hours},
	{Name: "temp_c_mean"}, {Name: "temp_c_min"}, {Name: "temp_c_max"}, {Name: "humidity_mean"}, {Name: "wind_speed_mean"},
	{Name: "solar_irradiance_mean"}, {Name: "solar_irradiance_max"}, {Name: "day_of_week"}, {Name: "bess"}, {Name: "client_name"},
}

// The numbers of the columns.
const (
	colClient = iota
	colDate
	colLMP
	colCongestion = colLMP + Hours
	colWeather    = colCongestion + Hours
	colWeekday    = colWeather + 7
	colDemand     = colWeekday + 1
	colName       = colDemand + 1
)

// Load reads the published table, one row per client and date, in columns and
// rows of any order; path is the file, or a folder that holds it as
// pjm_data.csv. A table of one hub ([LoadHub]) is known by its header. Days
// that clients lack are no error ([Dataset.Gaps]).
//
// Only the Demand of cfg may be set. The error wraps ErrConfig or is a
// *[FormatError] that names the file, and the line and the column where there
// is one.
func Load(path string, cfg Config) (*Dataset, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		path = filepath.Join(path, fileName)
	}
	hub, err := isHub(path)
	if err != nil {
		return nil, err
	}
	if hub {
		return LoadHub(path, cfg)
	}
	if err := cfg.forFile(); err != nil {
		return nil, err
	}
	t := table{path: path, clients: map[int]*entry{}, names: map[string]int{}}
	if err := csvtable.ReadFile(path, csvtable.Format{Columns: columns, Header: csvtable.AnyOrder}, t.add); err != nil {
		return nil, err
	}
	if len(t.clients) == 0 {
		return nil, &FormatError{File: path, Want: "at least one row", Err: errors.New("no rows")}
	}
	d := &Dataset{}
	for _, c := range t.clients {
		slices.SortFunc(c.Days, func(a, b Day) int { return cmp.Compare(a.Date, b.Date) })
		d.Clients = append(d.Clients, c.Client)
	}
	slices.SortFunc(d.Clients, func(a, b Client) int { return cmp.Compare(a.ID, b.ID) })
	return withDemandOf(d, cfg)
}

// withDemandOf applies a configuration to data of a file.
func withDemandOf(d *Dataset, cfg Config) (*Dataset, error) {
	if cfg.Demand == 0 {
		return d, nil
	}
	return d.WithDemand(cfg.Demand)
}

// table is a published table while it is read.
type table struct {
	path    string
	clients map[int]*entry
	names   map[string]int // client of each name
}

// entry is a client while it is read.
type entry struct {
	Client
	first int          // line that the client is first in
	lines map[Date]int // line of each date
}

// add reads a row.
func (t *table) add(r *csvtable.Row) error {
	id, err := r.ID(colClient)
	if err != nil {
		return err
	}
	date, err := ParseDate(strings.TrimSpace(r.Field(colDate)))
	if err != nil {
		return r.Fail(colDate, "a date as YYYY-MM-DD")
	}
	day := Day{Date: date}
	for h := range Hours {
		if day.LMP[h], err = r.Number(colLMP + h); err != nil {
			return err
		}
		if day.Congestion[h], err = r.Number(colCongestion + h); err != nil {
			return err
		}
	}
	w := &day.Weather
	for k, x := range []*float64{&w.TempMean, &w.TempMin, &w.TempMax, &w.Humidity, &w.Wind, &w.SolarMean, &w.SolarMax} {
		if *x, err = r.Number(colWeather + k); err != nil {
			return err
		}
	}
	if w.TempMin > w.TempMax {
		return r.Fail(colWeather+1, fmt.Sprintf("at most temp_c_max, %v", w.TempMax))
	}
	if weekday, err := r.Number(colWeekday); err != nil {
		return err
	} else if want := date.Weekday(); weekday != float64(want) {
		return r.Fail(colWeekday, fmt.Sprintf("%d, the day of the week of %v (Monday is 0)", want, date))
	}
	demand, err := r.Number(colDemand)
	if err != nil {
		return err
	}
	if demand < 1 || demand > Hours || demand != float64(int(demand)) {
		return r.Fail(colDemand, fmt.Sprintf("a whole number of hours, 1 to %d", Hours))
	}
	name, err := r.Text(colName)
	if err != nil {
		return err
	}
	if name == "" {
		return r.Fail(colName, "the client's name")
	}

	c := t.clients[id]
	if c == nil {
		if other, ok := t.names[name]; ok {
			return r.Fail(colName, fmt.Sprintf("a name of its own for client %d: client %d has this one", id, other))
		}
		t.names[name] = id
		c = &entry{Client: Client{ID: id, Name: name, Demand: int(demand)}, first: r.Line(), lines: map[Date]int{}}
		t.clients[id] = c
	}
	switch line, twice := c.lines[date]; {
	case twice:
		return r.Fail(colDate, fmt.Sprintf("one row for each date of client %d (this one is in line %d too)", id, line))
	case c.Demand != int(demand):
		return r.Fail(colDemand, fmt.Sprintf("%d as in line %d: a client's demand is constant", c.Demand, c.first))
	case c.Name != name:
		return r.Fail(colName, fmt.Sprintf("%q as in line %d: a client has one name", c.Name, c.first))
	}
	c.lines[date] = r.Line()
	c.Days = append(c.Days, day)
	return nil
}

// Export writes d as the published table, which Load reads back bit for bit:
// to path if that ends in .csv, else to pjm_data.csv in the folder path, which
// is created if need be. A file that is there already must have the same
// content, or Export leaves it alone and returns an ErrExists.
func (d *Dataset) Export(path string) error {
	if err := d.Validate(); err != nil {
		return err
	}
	if !strings.EqualFold(filepath.Ext(path), ".csv") {
		path = filepath.Join(path, fileName)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	old, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return atomicfile.WriteFile(path, d.write)
	} else if err != nil {
		return err
	}
	var b strings.Builder
	if err := d.write(&b); err != nil {
		return err
	}
	if b.String() != string(old) {
		return fmt.Errorf("export to %s: %w; choose another or remove it yourself", path, ErrExists)
	}
	return nil
}

// write writes the published table.
func (d *Dataset) write(w io.Writer) error {
	return csvtable.Write(w, columns, func(emit func([]string) error) error {
		var record []string
		for _, c := range d.Clients {
			for i := range c.Days {
				day := &c.Days[i]
				record = append(record[:0], strconv.Itoa(c.ID), day.Date.String())
				record = csvtable.AppendNumbers(record, day.LMP[:]...)
				record = csvtable.AppendNumbers(record, day.Congestion[:]...)
				x := day.features()
				record = csvtable.AppendNumbers(record, x[:]...)
				if err := emit(append(record, strconv.Itoa(c.Demand), c.Name)); err != nil {
					return err
				}
			}
		}
		return nil
	})
}
