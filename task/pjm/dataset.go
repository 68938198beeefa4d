package pjm

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"fedrspo/internal/csvtable"
)

// ErrData: a Dataset whose content makes no task.
var ErrData = errors.New("invalid PJM data")

// Dataset is the content of a table: data as they were measured, not
// standardised.
type Dataset struct {
	// Clients in ascending ID.
	Clients []Client
	// Generator is the resolved configuration of generated data, nil for other
	// data. It is a record; nothing is computed from it.
	Generator *Config
}

// Client is one zone.
type Client struct {
	// ID identifies the client; not negative.
	ID int
	// Name is the zone's, unique.
	Name string
	// Demand is k_j, the hours of full power that the client needs each day, 1 to
	// 24.
	Demand int
	// Days in ascending order of their dates, at least one.
	Days []Day
}

// Day is one date of a client.
type Day struct {
	Date Date
	// LMP is the day-ahead locational marginal price of each hour, in $/MWh.
	LMP [Hours]float64
	// Congestion is LMP less the mean of all zones' LMP, in $/MWh.
	Congestion [Hours]float64
	// Weather of the day.
	Weather DayWeather
}

// DayWeather are the weather columns of a day.
type DayWeather struct {
	// TempMean, TempMin and TempMax are of the hourly temperature 2 m above
	// ground, in °C.
	TempMean, TempMin, TempMax float64
	// Humidity is the mean relative humidity, in %.
	Humidity float64
	// Wind is the mean speed 10 m above ground, in km/h.
	Wind float64
	// SolarMean and SolarMax are of the hourly shortwave irradiance, in W/m².
	SolarMean, SolarMax float64
}

// Cost returns c_h = LMP_h + congestion_h, in $/MWh, minimised.
func (d *Day) Cost(h int) float64 { return d.LMP[h] + d.Congestion[h] }

// featureNames are the columns of a day's features, in their order.
var featureNames = [...]string{
	"temp_c_mean", "temp_c_min", "temp_c_max", "humidity_mean", "wind_speed_mean",
	"solar_irradiance_mean", "solar_irradiance_max", "day_of_week",
}

// features returns the day's features, not standardised.
func (d *Day) features() [len(featureNames)]float64 {
	w := &d.Weather
	return [...]float64{w.TempMean, w.TempMin, w.TempMax, w.Humidity, w.Wind, w.SolarMean, w.SolarMax, float64(d.Date.Weekday())}
}

// Validate checks that IDs and dates ascend, that names are unique and
// printable, demands 1 to 24, all numbers finite, and that no day's lowest
// temperature is above its highest. The error wraps ErrData and says where.
func (d *Dataset) Validate() error {
	fail := func(format string, args ...any) error {
		return fmt.Errorf("%w: %s", ErrData, fmt.Sprintf(format, args...))
	}
	if len(d.Clients) == 0 {
		return fail("no clients")
	}
	names := map[string]int{}
	for k := range d.Clients {
		c := &d.Clients[k]
		if err := csvtable.CheckText(c.Name); err != nil || c.Name == "" {
			return fail("client %d: name %q: want printable text", c.ID, c.Name)
		}
		if other, ok := names[c.Name]; ok {
			return fail("clients %d and %d are both named %q", other, c.ID, c.Name)
		}
		names[c.Name] = c.ID
		if c.ID < 0 {
			return fail("client %d: IDs must not be negative", c.ID)
		}
		if k > 0 && c.ID <= d.Clients[k-1].ID {
			return fail("client IDs must be unique and ascend, got %d after %d", c.ID, d.Clients[k-1].ID)
		}
		if c.Demand < 1 || c.Demand > Hours {
			return fail("client %d (%s): demand %d, want 1 to %d hours", c.ID, c.Name, c.Demand, Hours)
		}
		if len(c.Days) == 0 {
			return fail("client %d (%s): no days", c.ID, c.Name)
		}
		for i := range c.Days {
			day := &c.Days[i]
			if i > 0 && day.Date <= c.Days[i-1].Date {
				return fail("client %d (%s): dates must be unique and ascend, got %v after %v", c.ID, c.Name, day.Date, c.Days[i-1].Date)
			}
			if name := day.notFinite(); name != "" {
				return fail("client %d (%s) on %v: %s is not a finite number", c.ID, c.Name, day.Date, name)
			}
			if w := day.Weather; w.TempMin > w.TempMax {
				return fail("client %d (%s) on %v: the lowest temperature %v is above the highest %v", c.ID, c.Name, day.Date, w.TempMin, w.TempMax)
			}
		}
	}
	return nil
}

// notFinite names a column of the day that is not finite, or returns "".
func (d *Day) notFinite() string {
	for h := range Hours {
		// 0 for finite numbers, NaN otherwise.
		if x := d.LMP[h]; x-x != 0 {
			return fmt.Sprintf("total_lmp_%d", h)
		}
		if x := d.Congestion[h]; x-x != 0 {
			return fmt.Sprintf("congestion_%d", h)
		}
	}
	for k, x := range d.features() {
		if x-x != 0 {
			return featureNames[k]
		}
	}
	return ""
}

// Dates returns the dates that any client has, ascending.
func (d *Dataset) Dates() []Date {
	seen := map[Date]bool{}
	var dates []Date
	for _, c := range d.Clients {
		for i := range c.Days {
			if date := c.Days[i].Date; !seen[date] {
				seen[date] = true
				dates = append(dates, date)
			}
		}
	}
	slices.Sort(dates)
	return dates
}

// Summary says what a client's prices are like.
type Summary struct {
	// Mean, Min and Max are of the hourly LMP, in $/MWh.
	Mean, Min, Max float64
	// Negative counts the hours with an LMP below zero.
	Negative int
}

// Summary looks at all prices of the client, which has at least one day.
func (c *Client) Summary() Summary {
	s := Summary{Min: math.Inf(1), Max: math.Inf(-1)}
	for i := range c.Days {
		for _, p := range c.Days[i].LMP {
			s.Mean += p
			s.Min, s.Max = min(s.Min, p), max(s.Max, p)
			if p < 0 {
				s.Negative++
			}
		}
	}
	s.Mean /= float64(Hours * len(c.Days))
	return s
}

// Gap is a date that is not in the data.
type Gap struct {
	Date Date
	// Client lacks the date; 0 and an empty Name if every client does.
	Client int
	Name   string
}

// Gaps returns the dates between the first and the last that all clients, or
// some of them, lack, ascending. They are no error: a client's splits hold the
// dates that it has.
func (d *Dataset) Gaps() []Gap {
	dates := d.Dates()
	var gaps []Gap
	at := make([]int, len(d.Clients)) // next day of each client
	for i, date := range dates {
		if i > 0 {
			for missing := dates[i-1] + 1; missing < date; missing++ {
				gaps = append(gaps, Gap{Date: missing})
			}
		}
		for k, c := range d.Clients {
			if at[k] < len(c.Days) && c.Days[at[k]].Date == date {
				at[k]++
			} else {
				gaps = append(gaps, Gap{date, c.ID, c.Name})
			}
		}
	}
	return gaps
}

// WithDemand returns d with the demand of every client replaced by k, 1 to 24
// hours (paper, table 13). The days are shared. The error wraps ErrConfig.
func (d *Dataset) WithDemand(k int) (*Dataset, error) {
	if k < 1 || k > Hours {
		return nil, fmt.Errorf("demand is %d hours, want 1 to %d: %w", k, Hours, ErrConfig)
	}
	out := *d
	out.Clients = slices.Clone(d.Clients)
	for j := range out.Clients {
		out.Clients[j].Demand = k
	}
	if d.Generator != nil {
		g := *d.Generator
		g.Demand = k
		out.Generator = &g
	}
	return &out, nil
}

// CheckCongestion compares the congestion columns with what they are in the
// published table: congestion_ih = LMP_ih - mean_i LMP_ih, the mean over all
// clients. It returns the largest difference, in $/MWh, where it is, and over
// how many dates it was looked for: those that all clients have.
func (d *Dataset) CheckCongestion() (worst Deviation, dates int) {
	days := map[Date][]*Day{}
	for k := range d.Clients {
		for i := range d.Clients[k].Days {
			day := &d.Clients[k].Days[i]
			days[day.Date] = append(days[day.Date], day)
		}
	}
	for _, date := range d.Dates() {
		all := days[date]
		if len(all) != len(d.Clients) {
			continue
		}
		dates++
		for h := range Hours {
			mean := meanLMP(all, h)
			for k, day := range all {
				if diff := math.Abs(day.Congestion[h] - (day.LMP[h] - mean)); diff > worst.Dollars {
					worst = Deviation{diff, d.Clients[k].ID, date, h}
				}
			}
		}
	}
	return worst, dates
}

// Deviation is a number of the data that is not what it should be.
type Deviation struct {
	// Dollars is the absolute difference, in $/MWh.
	Dollars float64
	// Client, Date and Hour are where.
	Client int
	Date   Date
	Hour   int
}

// meanLMP returns the mean price of an hour over days of one date.
func meanLMP(days []*Day, h int) float64 {
	sum := 0.0
	for _, d := range days {
		sum += d.LMP[h]
	}
	return sum / float64(len(days))
}

// setCongestion fills the congestion of clients that all have the same dates.
func (d *Dataset) setCongestion() {
	days := make([]*Day, len(d.Clients))
	for i := range d.Clients[0].Days {
		for k := range d.Clients {
			days[k] = &d.Clients[k].Days[i]
		}
		for h := range Hours {
			mean := meanLMP(days, h)
			for _, day := range days {
				day.Congestion[h] = day.LMP[h] - mean
			}
		}
	}
}
