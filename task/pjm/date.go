package pjm

import (
	"fmt"
	"time"
	_ "time/tzdata" // so that Eastern time is known on every machine
)

// Hours is the length of a cost vector.
const Hours = 24

// Date is a calendar date of Eastern Prevailing Time: the number of days since
// 1970-01-01.
type Date int

// ParseDate reads YYYY-MM-DD.
func ParseDate(text string) (Date, error) {
	t, err := time.Parse(time.DateOnly, text)
	if err != nil {
		return 0, fmt.Errorf("%.30q is not a date as YYYY-MM-DD", text)
	}
	return Date(floorDiv(t.Unix(), 24*60*60)), nil
}

// String returns the date as YYYY-MM-DD.
func (d Date) String() string { return d.at(time.UTC).Format(time.DateOnly) }

// Weekday returns the day of the week, Monday being 0.
func (d Date) Weekday() int { return int(d.at(time.UTC).Weekday()+6) % 7 }

// Hours returns the length of the date in hours: 24, or 23 and 25 when the
// clocks change.
func (d Date) Hours() int { return int((d + 1).begin() - d.begin()) }

// summer says whether the clocks are ahead at the end of the date.
func (d Date) summer() bool { return (d + 1).at(eastern).Add(-1).IsDST() }

// at returns midnight at the begin of d.
func (d Date) at(loc *time.Location) time.Time {
	return time.Date(1970, time.January, 1+int(d), 0, 0, 0, 0, loc)
}

// begin returns the first hour of d.
func (d Date) begin() hour { return hourOf(d.at(eastern)) }

// hour is an hour of universal time: the number of hours from 1970-01-01 to
// its begin.
type hour int64

// hourOf returns the hour that t lies in.
func hourOf(t time.Time) hour { return hour(floorDiv(t.Unix(), 60*60)) }

// local returns the hour's date, and the hour of the day at its begin, which
// 1:00 is twice when the clocks are set back.
func (h hour) local() (Date, int) {
	t := time.Unix(int64(h)*60*60, 0).In(eastern)
	_, offset := t.Zone()
	return Date(floorDiv(t.Unix()+int64(offset), 24*60*60)), t.Hour()
}

// String returns the hour's begin.
func (h hour) String() string {
	return time.Unix(int64(h)*60*60, 0).UTC().Format("2006-01-02 15:04 UTC")
}

// eastern is the time of all of PJM, the part in Central Time included.
var eastern = func() *time.Location {
	loc, err := time.LoadLocation("America/New_York")
	if err != nil {
		panic(err) // the database is part of the program
	}
	return loc
}()

// floorDiv returns a/b rounded down, for b > 0.
func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
