package pjm

import (
	"fmt"
	"strings"
)

// Report says which dates Build kept and why it left others out.
type Report struct {
	// First and Last are the first and the last date that any zone has a price
	// of; Kept counts the dates of the dataset.
	First, Last Date
	Kept        int
	// Dropped are the other dates, ascending.
	Dropped []Drop
}

// Drop is a date that was left out.
type Drop struct {
	Date Date
	// Reason is one of the reasons below.
	Reason Reason
	// Zones are the names of those that lack something.
	Zones []string
	// Missing counts the hours that they lack, added up.
	Missing int
}

// Reason says why a date was left out.
type Reason int

// The reasons, in the order in which they are looked for.
const (
	// ShortDay: the clocks are set forward, the day has 23 hours.
	ShortDay Reason = iota
	// NoPrice: hours without a price.
	NoPrice
	// NoWeather: hours without a value of a weather variable.
	NoWeather
)

// String returns the reason in words.
func (r Reason) String() string {
	return [...]string{"the day has 23 hours", "prices are missing", "weather is missing"}[r]
}

// String returns, for instance,
//
//	2025-03-30: prices are missing: 5 hours in AECO, DPL
func (d Drop) String() string {
	if len(d.Zones) == 0 {
		return fmt.Sprintf("%v: %v", d.Date, d.Reason)
	}
	return fmt.Sprintf("%v: %v: %d hours in %s", d.Date, d.Reason, d.Missing, strings.Join(d.Zones, ", "))
}

// Build joins prices and weather of the same zones to the published table, by
// zone and date of Eastern time. A day needs every hour of both in every zone,
// since the congestion is the difference to the mean over zones: where something
// is missing, the date is left out of all zones, and the report says so. The
// day of 23 hours is left out; in the day of 25 hours the price of 1:00 is the
// mean of its two, and the weather is over 25 hours. The days of Eastern time
// that a file of GMT covers in part, at its ends, are left out like any others.
//
// The error wraps ErrConfig if the zones differ, ErrData if no date is left.
func Build(p *Prices, w *Weather) (*Dataset, *Report, error) {
	if len(p.zones) != len(w.zones) {
		return nil, nil, fmt.Errorf("prices of %d zones, weather of %d: %w", len(p.zones), len(w.zones), ErrConfig)
	}
	d := &Dataset{}
	for k, z := range p.zones {
		if w.zones[k].Name != z.Name {
			return nil, nil, fmt.Errorf("prices of %s beside weather of %s: %w", z.Name, w.zones[k].Name, ErrConfig)
		}
		d.Clients = append(d.Clients, Client{ID: z.ID, Name: z.Name, Demand: z.Demand})
	}
	report := &Report{}
	var ok bool
	if report.First, report.Last, ok = p.span(); !ok {
		return nil, nil, fmt.Errorf("%w: no prices", ErrData)
	}
	for date := report.First; date <= report.Last; date++ {
		days, drop := joinDay(p, w, date)
		if drop != nil {
			report.Dropped = append(report.Dropped, *drop)
			continue
		}
		report.Kept++
		for k, day := range days {
			d.Clients[k].Days = append(d.Clients[k].Days, day)
		}
	}
	if report.Kept == 0 {
		return nil, report, fmt.Errorf("%w: none of the %d dates from %v to %v is complete; the first, %v", ErrData, len(report.Dropped), report.First, report.Last, report.Dropped[0])
	}
	d.setCongestion()
	return d, report, d.Validate()
}

// span returns the first and the last date with a price.
func (p *Prices) span() (first, last Date, ok bool) {
	for _, hours := range p.hours {
		for h := range hours {
			date, _ := h.local()
			if !ok {
				first, last, ok = date, date, true
			}
			first, last = min(first, date), max(last, date)
		}
	}
	return first, last, ok
}

// joinDay returns the days of all zones on a date, without congestion, or why
// there are none.
func joinDay(p *Prices, w *Weather, date Date) ([]Day, *Drop) {
	if date.Hours() < Hours {
		return nil, &Drop{Date: date, Reason: ShortDay}
	}
	days := make([]Day, len(p.zones))
	prices, weather := Drop{Date: date, Reason: NoPrice}, Drop{Date: date, Reason: NoWeather}
	for k, z := range p.zones {
		days[k].Date = date
		missing := 0
		var count [Hours]float64
		for h := date.begin(); h < (date + 1).begin(); h++ {
			price, ok := p.hours[k][h]
			if !ok {
				missing++
				continue
			}
			_, clock := h.local()
			count[clock]++
			days[k].LMP[clock] += price
		}
		for h, n := range count {
			days[k].LMP[h] /= max(n, 1)
		}
		prices.lacks(z.Name, missing)
		days[k].Weather, missing = w.day(k, date)
		weather.lacks(z.Name, missing)
	}
	for _, drop := range []*Drop{&prices, &weather} {
		if drop.Missing > 0 {
			return nil, drop
		}
	}
	return days, nil
}

// lacks notes that a zone lacks hours, if it does.
func (d *Drop) lacks(zone string, hours int) {
	if hours > 0 {
		d.Zones = append(d.Zones, zone)
		d.Missing += hours
	}
}
