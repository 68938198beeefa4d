package pjm

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"fedrspo/internal/csvtable"
)

// Weather collects the hourly weather of zones from any number of answers of
// the Open-Meteo archive (CC BY 4.0).
type Weather struct {
	// Used counts the values read, Null those that were null.
	Used, Null int

	zones []Zone
	index map[string]int
	hours []map[hour]sky
}

// sky is the weather of an hour; NaN is missing.
type sky [4]float64

// variables are the variables of sky: their names, their units, and how many
// hours before its time stamp the hour that a value describes begins. Radiation
// is the mean over the preceding hour, the others are readings.
var variables = [len(sky{})]struct {
	name, unit string
	before     hour
}{
	{"temperature_2m", "°C", 0}, {"relative_humidity_2m", "%", 0}, {"wind_speed_10m", "km/h", 0}, {"shortwave_radiation", "W/m²", 1},
}

// NewWeather returns Weather of the zones without any hours yet.
func NewWeather(zones []Zone) *Weather {
	w := &Weather{zones: zones, index: map[string]int{}}
	for k, z := range zones {
		w.index[z.Name] = k
		w.hours = append(w.hours, map[hour]sky{})
	}
	return w
}

// URL returns the address of the zone's weather from first to last: hourly
// values of the Open-Meteo archive in GMT, a day more at the end, because days
// of Eastern time end in the next day of GMT.
func (z Zone) URL(first, last Date) string {
	list := ""
	for k, v := range variables {
		if k > 0 {
			list += ","
		}
		list += v.name
	}
	return fmt.Sprintf("https://archive-api.open-meteo.com/v1/archive?latitude=%g&longitude=%g&start_date=%v&end_date=%v&hourly=%s&timezone=GMT", z.Latitude, z.Longitude, first, last+1, list)
}

// answer is what Open-Meteo sends.
type answer struct {
	Error  bool                       `json:"error"`
	Reason string                     `json:"reason"`
	Offset *int                       `json:"utc_offset_seconds"`
	Units  map[string]string          `json:"hourly_units"`
	Hourly map[string]json.RawMessage `json:"hourly"`
}

// Read reads an answer of the Open-Meteo archive about a zone, in JSON, with
// the hourly variables that Zone.URL asks for in their standard units. Its times
// have one offset from universal time, that of the answer. Null and absent
// hours are missing. The same value may be in several files, but not two values
// of one hour. The error is a *[FormatError], or wraps ErrConfig if there is no
// such zone.
func (w *Weather) Read(path, zone string) error {
	k, ok := w.index[zone]
	if !ok {
		return fmt.Errorf("weather of %q, which is no zone: %w", zone, ErrConfig)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		return csvtable.OpenError(path, "an answer of the Open-Meteo archive", err)
	}
	fail := func(field, want string, err error) error {
		return &FormatError{File: path, Column: field, Want: want, Err: err}
	}
	var a answer
	if err := json.Unmarshal(bytes.TrimPrefix(content, []byte(csvtable.ByteOrderMark)), &a); err != nil {
		return fail("", "an answer of the Open-Meteo archive in JSON about one place", err)
	}
	switch {
	case a.Error:
		return fail("error", "weather, not an error message", errors.New(a.Reason))
	case a.Offset == nil:
		return fail("utc_offset_seconds", "the offset of the times from universal time", errors.New("it is missing"))
	case *a.Offset%(60*60) != 0:
		return &FormatError{File: path, Column: "utc_offset_seconds", Got: fmt.Sprint(*a.Offset), Want: "full hours: ask for timezone=GMT"}
	}
	offset := hour(*a.Offset / (60 * 60))
	var times []string
	if err := decode(a.Hourly, "time", &times); err != nil {
		return fail("hourly.time", "a list of times", err)
	}
	hours := make([]hour, len(times))
	for i, text := range times {
		t, err := time.Parse("2006-01-02T15:04", text)
		if err != nil || t.Truncate(time.Hour) != t {
			return &FormatError{File: path, Column: fmt.Sprintf("hourly.time[%d]", i), Got: text, Want: "a full hour such as 2025-01-31T23:00"}
		}
		hours[i] = hourOf(t) - offset
	}
	for v, variable := range variables {
		field := "hourly." + variable.name
		if unit := a.Units[variable.name]; unit != variable.unit {
			return &FormatError{File: path, Column: "hourly_units." + variable.name, Got: unit, Want: fmt.Sprintf("%q: ask for hourly=%s in its standard unit", variable.unit, variable.name)}
		}
		var values []*float64
		if err := decode(a.Hourly, variable.name, &values); err != nil {
			return fail(field, "a list of numbers and nulls", err)
		}
		if len(values) != len(hours) {
			return &FormatError{File: path, Column: field, Got: fmt.Sprintf("%d values", len(values)), Want: fmt.Sprintf("%d, as there are times", len(hours))}
		}
		for i, value := range values {
			if value == nil {
				w.Null++
				continue
			}
			at := hours[i] - variable.before
			now, ok := w.hours[k][at]
			if !ok {
				now = sky{math.NaN(), math.NaN(), math.NaN(), math.NaN()}
			}
			if old := now[v]; !math.IsNaN(old) && old != *value {
				return &FormatError{File: path, Column: fmt.Sprintf("%s[%d]", field, i), Got: fmt.Sprint(*value),
					Want: fmt.Sprintf("one value of %s for %s (there is %v already)", zone, times[i], old)}
			}
			now[v] = *value
			w.hours[k][at] = now
			w.Used++
		}
	}
	return nil
}

// decode reads a list of the answer.
func decode(hourly map[string]json.RawMessage, name string, to any) error {
	raw, ok := hourly[name]
	if !ok {
		return errors.New("it is missing")
	}
	return json.Unmarshal(raw, to)
}

// day returns the weather columns of a date, and how many of its hours lack a
// value.
func (w *Weather) day(k int, date Date) (out DayWeather, missing int) {
	out.TempMin, out.TempMax = math.Inf(1), math.Inf(-1)
	n := 0.0
	for h := date.begin(); h < (date + 1).begin(); h++ {
		now, ok := w.hours[k][h]
		if !ok || math.IsNaN(now[0]+now[1]+now[2]+now[3]) {
			missing++
			continue
		}
		n++
		out.TempMean += now[0]
		out.TempMin, out.TempMax = min(out.TempMin, now[0]), max(out.TempMax, now[0])
		out.Humidity += now[1]
		out.Wind += now[2]
		out.SolarMean += now[3]
		out.SolarMax = max(out.SolarMax, now[3])
	}
	for _, x := range []*float64{&out.TempMean, &out.Humidity, &out.Wind, &out.SolarMean} {
		*x /= n
	}
	return out, missing
}
