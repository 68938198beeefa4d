package pjm

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"

	"fedrspo/internal/csvtable"
)

// hubPrefix is how the price columns of a hub's table begin.
const hubPrefix = "lmp_opr_hour_"

// hubHours is the number of price columns: that of the longest day.
const hubHours = 25

// hubColumns is the header of a hub's table.
var hubColumns = func() csvtable.Columns {
	cols := csvtable.Columns{
		{Name: "date"}, {Name: "min_temp_c"}, {Name: "max_temp_c"}, {Name: "mean_temp_c"}, {Name: "mean_humidity"}, {Name: "mean_wind_speed"},
		{Name: "mean_solar_irradiance"}, {Name: "max_solar_irradiance"}, {Name: "day_of_week"},
	}
	for h := range hubHours {
		cols = append(cols, csvtable.Column{Name: fmt.Sprintf("%s%02d", hubPrefix, h+1)})
	}
	return cols
}()

// isHub says whether a file has the header of a hub's table.
func isHub(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, csvtable.OpenError(path, "a table of "+columns.String(), err)
	}
	defer f.Close()
	// A file that cannot be read is reported by who reads it.
	line, _ := bufio.NewReader(f).ReadSlice('\n')
	return strings.Contains(string(line), hubPrefix), nil
}

// LoadHub reads the table of one hub, whose data then all 19 clients of the
// paper share: they differ in their demand only. The congestion is zero, as it
// must be where all prices are equal, so that c_h = LMP_h. The columns are
//
//	date,min_temp_c,max_temp_c,mean_temp_c,mean_humidity,mean_wind_speed,
//	mean_solar_irradiance,max_solar_irradiance,day_of_week,
//	lmp_opr_hour_01,...,lmp_opr_hour_25
//
// in any order, in the units of the published table, with hour n beginning at
// n-1 o'clock. On the day of 23 hours, which is left out, the hour that the
// clocks skip is empty, or the last one. Hour 25 is empty but on the day of 25
// hours, where it is the second 1:00: the price of that hour is the mean of
// hours 2 and 25.
//
// Only the Demand of cfg may be set. Errors are as those of Load.
func LoadHub(path string, cfg Config) (*Dataset, error) {
	if err := cfg.forFile(); err != nil {
		return nil, err
	}
	var days []Day
	lines := map[Date]int{}
	rows := 0
	err := csvtable.ReadFile(path, csvtable.Format{Columns: hubColumns, Header: csvtable.AnyOrder}, func(r *csvtable.Row) error {
		rows++
		day, keep, err := hubDay(r)
		if err != nil {
			return err
		}
		if line, twice := lines[day.Date]; twice {
			return r.Fail(0, fmt.Sprintf("one row for each date (this one is in line %d too)", line))
		}
		lines[day.Date] = r.Line()
		if keep {
			days = append(days, day)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(days) == 0 {
		return nil, &FormatError{File: path, Want: "at least one day of 24 or 25 hours", Err: fmt.Errorf("%d rows without one", rows)}
	}
	slices.SortFunc(days, func(a, b Day) int { return int(a.Date - b.Date) })
	d := &Dataset{}
	for _, z := range Zones() {
		d.Clients = append(d.Clients, Client{ID: z.ID, Name: z.Name, Demand: z.Demand, Days: days})
	}
	return withDemandOf(d, cfg)
}

// hubDay reads a row of a hub's table, and says whether the day is kept.
func hubDay(r *csvtable.Row) (day Day, keep bool, err error) {
	const weather, weekday, price = 1, 8, 9
	day.Date, err = ParseDate(strings.TrimSpace(r.Field(0)))
	if err != nil {
		return day, false, r.Fail(0, "a date as YYYY-MM-DD")
	}
	w := &day.Weather
	for k, x := range []*float64{&w.TempMin, &w.TempMax, &w.TempMean, &w.Humidity, &w.Wind, &w.SolarMean, &w.SolarMax} {
		if *x, err = r.Number(weather + k); err != nil {
			return day, false, err
		}
	}
	if w.TempMin > w.TempMax {
		return day, false, r.Fail(weather, fmt.Sprintf("at most max_temp_c, %v", w.TempMax))
	}
	if number, err := r.Number(weekday); err != nil {
		return day, false, err
	} else if want := day.Date.Weekday(); number != float64(want) {
		return day, false, r.Fail(weekday, fmt.Sprintf("%d, the day of the week of %v (Monday is 0)", want, day.Date))
	}
	var hours [hubHours]float64
	empty := -1 // hour of the first 24 without a price
	for h := range hubHours {
		if blank := strings.TrimSpace(r.Field(price+h)) == ""; blank {
			switch length := day.Date.Hours(); {
			case h == hubHours-1 && length < hubHours:
			case h < hubHours-1 && length == Hours-1 && empty < 0 && (h == 2 || h == Hours-1):
				empty = h
			default:
				return day, false, r.Fail(price+h, fmt.Sprintf("a finite number: the day has %d hours", length))
			}
			continue
		}
		if hours[h], err = r.Number(price + h); err != nil {
			return day, false, err
		}
		if h == hubHours-1 && day.Date.Hours() < hubHours {
			return day, false, r.Fail(price+h, fmt.Sprintf("no price: the day has %d hours", day.Date.Hours()))
		}
	}
	copy(day.LMP[:], hours[:])
	switch day.Date.Hours() {
	case Hours - 1:
		if empty < 0 {
			return day, false, r.Fail(price+2, "no price: the day has 23 hours")
		}
		return day, false, nil
	case Hours + 1:
		day.LMP[1] = (hours[1] + hours[hubHours-1]) / 2
	}
	return day, true, nil
}
