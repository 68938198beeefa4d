package pjm

import (
	"errors"
	"fmt"
)

// ErrConfig: a Config that makes no data.
var ErrConfig = errors.New("invalid PJM configuration")

// bounds of generated data: beyond them a number is a slip.
const maxDays = 20_000

// firstStart and lastStart bound Config.Start: between them the clocks change
// by today's rules.
const firstStart, lastStart = "2007-04-01", "2100-01-01"

// Config are the choices of the data. The zero value of every field but Seed
// stands for the paper's choice.
type Config struct {
	// Seed seeds every draw of generated data.
	Seed int64 `json:"seed"`
	// Clients is the number of generated clients, the first of Zones; 0 means
	// all 19.
	Clients int `json:"clients"`
	// Start is the first generated date, YYYY-MM-DD; empty means 2025-01-01, the
	// published table's first.
	Start string `json:"start"`
	// Days is the number of generated dates, days of 23 hours not counted; 0
	// means 403, the published table's number.
	Days int `json:"days"`
	// Demand replaces the demand k_j of every client, as in the paper's runs with
	// fixed demand (table 13): 1 to 24 hours; 0 keeps the demands.
	Demand int `json:"demand"`
}

// Resolve returns c with its zero values replaced by what they stand for; a
// Demand of 0 stays. It returns an error wrapping ErrConfig if a field is out
// of its range.
func (c Config) Resolve() (Config, error) {
	if c.Clients == 0 {
		c.Clients = len(Zones())
	}
	if c.Start == "" {
		c.Start = "2025-01-01"
	}
	if c.Days == 0 {
		c.Days = 403
	}
	if c.Clients < 1 || c.Clients > len(Zones()) {
		return c, fmt.Errorf("clients is %d, want 1 to %d: %w", c.Clients, len(Zones()), ErrConfig)
	}
	if _, err := ParseDate(c.Start); err != nil {
		return c, fmt.Errorf("start: %w: %w", err, ErrConfig)
	}
	if c.Start < firstStart || c.Start > lastStart {
		return c, fmt.Errorf("start is %s, want a date from %s to %s: %w", c.Start, firstStart, lastStart, ErrConfig)
	}
	if c.Days < minDates || c.Days > maxDays {
		return c, fmt.Errorf("days is %d, want %d to %d: %w", c.Days, minDates, maxDays, ErrConfig)
	}
	return c, c.checkDemand()
}

func (c Config) checkDemand() error {
	if c.Demand < 0 || c.Demand > Hours {
		return fmt.Errorf("demand is %d hours, want 1 to %d, or 0 for the demands of the data: %w", c.Demand, Hours, ErrConfig)
	}
	return nil
}

// forFile checks c as a configuration of data that are not generated.
func (c Config) forFile() error {
	for _, f := range []struct {
		name string
		set  bool
	}{{"seed", c.Seed != 0}, {"clients", c.Clients != 0}, {"start", c.Start != ""}, {"days", c.Days != 0}} {
		if f.set {
			return fmt.Errorf("%s concerns generated data, not a file: %w", f.name, ErrConfig)
		}
	}
	return c.checkDemand()
}
