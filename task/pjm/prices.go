package pjm

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"time"

	"fedrspo/internal/csvtable"
)

// Prices collects the hourly day-ahead prices of zones from any number of
// files. Hours are those of universal time, so that the clock changes neither
// hide nor double one.
type Prices struct {
	// Used counts the prices read, Other the rows of other places or of versions
	// that PJM has replaced, Blank the prices that were empty.
	Used, Other, Blank int

	zones []Zone
	index map[string]int // zone of each name
	hours []map[hour]float64
}

// NewPrices returns Prices of the zones without any hours yet.
func NewPrices(zones []Zone) *Prices {
	p := &Prices{zones: zones, index: map[string]int{}}
	for k, z := range zones {
		p.index[z.Name] = k
		p.hours = append(p.hours, map[hour]float64{})
	}
	return p
}

// Read reads a file of prices, of the kind that its first line says: an export
// of PJM's Data Miner 2 (ReadDataMiner), or a bulk file of the U.S. Energy
// Information Administration (ReadEIA).
func (p *Prices) Read(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return csvtable.OpenError(path, "a file of prices", err)
	}
	line, _ := bufio.NewReader(f).ReadSlice('\n') // reported by who reads the file
	f.Close()
	if strings.Contains(string(line), "datetime_beginning") {
		return p.ReadDataMiner(path)
	}
	return p.ReadEIA(path)
}

// dataMiner are the columns of da_hrl_lmps that matter.
var dataMiner = csvtable.Columns{
	{Name: "datetime_beginning_utc"}, {Name: "datetime_beginning_ept"}, {Name: "pnode_name"}, {Name: "type"}, {Name: "total_lmp_da"}, {Name: "row_is_current"},
}

// dataMinerTimes are the forms of its timestamps: of an export and of the API.
var dataMinerTimes = []string{"1/2/2006 3:04:05 PM", "2006-01-02T15:04:05"}

// ReadDataMiner reads an export of da_hrl_lmps from PJM's Data Miner 2, one row
// for each hour and place, named by the begin of the hour. Rows of other places
// than the zones, and those that PJM has replaced, are counted and passed over;
// an empty price is a missing hour. The same price may be in several files, but
// not two prices of one hour. The error is a *[FormatError].
func (p *Prices) ReadDataMiner(path string) error {
	const utc, ept, name, kind, price, current = 0, 1, 2, 3, 4, 5
	return csvtable.ReadFile(path, csvtable.Format{Columns: dataMiner, Header: csvtable.Superset}, func(r *csvtable.Row) error {
		k, ours := p.index[strings.TrimSpace(r.Field(name))]
		if ours && !strings.EqualFold(strings.TrimSpace(r.Field(kind)), "ZONE") {
			ours = false // a place of the same name that is not the zone
		}
		switch flag := strings.ToLower(strings.TrimSpace(r.Field(current))); flag {
		case "true", "1":
		case "false", "0":
			ours = false
		default:
			return r.Fail(current, "True or False")
		}
		if !ours {
			p.Other++
			return nil
		}
		at, err := hourField(r, utc, dataMinerTimes)
		if err != nil {
			return err
		}
		// Eastern time is there twice in autumn; it only has to agree.
		local, err := parseTime(r.Field(ept), dataMinerTimes)
		if err != nil {
			return r.Fail(ept, "a time such as "+dataMinerTimes[0])
		}
		date, clock := at.local()
		if want := date.at(time.UTC).Add(time.Duration(clock) * time.Hour); !local.Equal(want) {
			return r.Fail(ept, fmt.Sprintf("%s, which %v is in Eastern time", want.Format(dataMinerTimes[0]), at))
		}
		return p.add(r, k, at, price)
	})
}

// eiaTime is the column of EIA's files that says when an hour ends.
const eiaTime = "UTC Timestamp (Interval Ending)"

// eiaSkip is the number of lines before the header of EIA's files.
const eiaSkip = 3

// eiaTimes are forms that EIA's timestamps have had.
var eiaTimes = []string{"2006-01-02 15:04:05", "2006-01-02 15:04", "1/2/2006 15:04:05", "1/2/2006 15:04", "1/2/2006 3:04:05 PM", "2006-01-02T15:04:05Z", "2006-01-02T15:04:05"}

// ReadEIA reads a bulk file pjm_lmp_da_hr_zones_YEAR.csv of the U.S. Energy
// Information Administration: three lines, a header, and a row for each hour,
// named by its end in universal time, with a column "NAME LMP" for each zone
// (Zone.EIA). Other columns are passed over; an empty price is a missing hour.
// The error is a *[FormatError].
func (p *Prices) ReadEIA(path string) error {
	cols := csvtable.Columns{{Name: eiaTime}}
	var zone []int // of each further column
	for k, z := range p.zones {
		if z.EIA != "" {
			cols = append(cols, csvtable.Column{Name: z.EIA + " LMP"})
			zone = append(zone, k)
		}
	}
	return csvtable.ReadFile(path, csvtable.Format{Columns: cols, Header: csvtable.Superset, Skip: eiaSkip}, func(r *csvtable.Row) error {
		end, err := hourField(r, 0, eiaTimes)
		if err != nil {
			return err
		}
		for i, k := range zone {
			if err := p.add(r, k, end-1, 1+i); err != nil {
				return err
			}
		}
		return nil
	})
}

// add stores the price of zone k in an hour.
func (p *Prices) add(r *csvtable.Row, k int, at hour, col int) error {
	if strings.TrimSpace(r.Field(col)) == "" {
		p.Blank++
		return nil
	}
	price, err := r.Number(col)
	if err != nil {
		return err
	}
	if old, ok := p.hours[k][at]; ok && old != price {
		return r.Fail(col, fmt.Sprintf("one price of %s for %v (there is %v already)", p.zones[k].Name, at, old))
	}
	p.hours[k][at] = price
	p.Used++
	return nil
}

// hourField returns a field as an hour of universal time.
func hourField(r *csvtable.Row, col int, layouts []string) (hour, error) {
	t, err := parseTime(r.Field(col), layouts)
	if err != nil || t.Truncate(time.Hour) != t {
		return 0, r.Fail(col, "a full hour such as "+layouts[0])
	}
	return hourOf(t), nil
}

// parseTime reads a time in one of several forms.
func parseTime(text string, layouts []string) (t time.Time, err error) {
	for _, layout := range layouts {
		if t, err = time.Parse(layout, strings.TrimSpace(text)); err == nil {
			return t, nil
		}
	}
	return t, err
}
