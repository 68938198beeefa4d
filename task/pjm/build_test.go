package pjm

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// twoZones are zones for small raw files.
var twoZones = []Zone{{ID: 1, Name: "AECO", Demand: 6, EIA: "Atlantic Electric Company"}, {ID: 2, Name: "AEP", Demand: 4, EIA: "American Electric Power Co., Inc"}}

// rawPrice is the price of a zone in an hour, in tests; a multiple of 1/4, so
// that sums are exact.
func rawPrice(k int, h hour) float64 { return float64(h%97)/4 - float64(k) }

// rawSky is the weather of an hour at its time stamp, in tests.
func rawSky(k int, h hour) sky {
	return sky{float64(h%31) - 10, float64(40 + h%29), float64(h % 17), float64(h%13) * float64(k+1)}
}

// hoursOf lists the hours of dates.
func hoursOf(first, last Date) (hours []hour) {
	for h := first.begin(); h < (last + 1).begin(); h++ {
		hours = append(hours, h)
	}
	return hours
}

func date(t testing.TB, text string) Date {
	t.Helper()
	d, err := ParseDate(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (h hour) time() time.Time { return time.Unix(int64(h)*3600, 0).UTC() }

// dataMinerFile is an export of the zones' prices.
func dataMinerFile(zones []Zone, hours []hour) string {
	var b strings.Builder
	b.WriteString("datetime_beginning_utc,datetime_beginning_ept,pnode_id,pnode_name,voltage,equipment,type,zone,system_energy_price_da,total_lmp_da,congestion_price_da,marginal_loss_price_da,row_is_current,version_nbr\n")
	for _, h := range hours {
		d, clock := h.local()
		ept := d.at(time.UTC).Add(time.Duration(clock) * time.Hour)
		for k, z := range zones {
			fmt.Fprintf(&b, "%s,%s,1,%s,,,ZONE,,0,%v,0,0,True,1\n", h.time().Format(dataMinerTimes[0]), ept.Format(dataMinerTimes[0]), z.Name, rawPrice(k, h))
		}
	}
	return b.String()
}

// eiaFile is a bulk file of the zones' prices.
func eiaFile(zones []Zone, hours []hour) string {
	var b strings.Builder
	b.WriteString("PJM day-ahead prices\nSource: \"somewhere\n\n" + `UTC Timestamp (Interval Ending),Local Date,Hour Number`)
	for _, z := range zones {
		fmt.Fprintf(&b, `,"%s LMP","%s (Congestion)"`, z.EIA, z.EIA)
	}
	b.WriteString(",PJM Total LMP\n")
	for _, h := range hours {
		fmt.Fprintf(&b, "%s,x,1", (h + 1).time().Format(eiaTimes[0]))
		for k := range zones {
			fmt.Fprintf(&b, ",%v,0", rawPrice(k, h))
		}
		b.WriteString(",1\n")
	}
	return b.String()
}

// weatherFile is an answer of the archive about zone k with times offset hours
// from universal time. Radiation stands under the end of its hour.
func weatherFile(k int, hours []hour, offset int) string {
	list := func(f func(h hour) string) string {
		var parts []string
		for _, h := range hours {
			parts = append(parts, f(h))
		}
		return "[" + strings.Join(parts, ",") + "]"
	}
	var b strings.Builder
	fmt.Fprintf(&b, `{"latitude":39.3,"utc_offset_seconds":%d,"hourly_units":{"time":"iso8601"`, offset*3600)
	for _, v := range variables {
		fmt.Fprintf(&b, `,"%s":"%s"`, v.name, v.unit)
	}
	fmt.Fprintf(&b, `},"hourly":{"time":%s`, list(func(h hour) string { return `"` + (h + hour(offset)).time().Format("2006-01-02T15:04") + `"` }))
	for v, variable := range variables {
		fmt.Fprintf(&b, `,"%s":%s`, variable.name, list(func(h hour) string { return fmt.Sprint(rawSky(k, h-variable.before)[v]) }))
	}
	b.WriteString("}}")
	return b.String()
}

// write writes a file into a new folder.
func writeNamed(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// sources reads files of prices, and of weather by zone.
func sources(t testing.TB, zones []Zone, prices []string, weather map[string][]string) (*Prices, *Weather) {
	t.Helper()
	p, w := NewPrices(zones), NewWeather(zones)
	for _, text := range prices {
		if err := p.Read(writeNamed(t, "p.csv", text)); err != nil {
			t.Fatal(err)
		}
	}
	for zone, texts := range weather {
		for _, text := range texts {
			if err := w.Read(writeNamed(t, "w.json", text), zone); err != nil {
				t.Fatal(err)
			}
		}
	}
	return p, w
}

// TestBuild builds the table over both clock changes from either source of
// prices and weather in GMT or at another offset, in several files, and
// compares it with an obvious twin: loops over the clock of each day.
func TestBuild(t *testing.T) {
	for _, change := range []string{"2025-03-09", "2025-11-02"} {
		mid := date(t, change)
		first, last := mid-4, mid+4
		hours := hoursOf(first, last)
		half := len(hours) / 2
		for name, prices := range map[string][]string{
			"Data Miner":  {dataMinerFile(twoZones, hours[half-3:]), dataMinerFile(twoZones, hours[:half+5])},
			"EIA":         {eiaFile(twoZones, hours)},
			"both":        {eiaFile(twoZones, hours[:half]), dataMinerFile(twoZones, hours[half:])},
			"their order": {dataMinerFile([]Zone{twoZones[0]}, hours), eiaFile(twoZones, hours)},
		} {
			sky := hoursOf(first-1, last+1)
			p, w := sources(t, twoZones, prices, map[string][]string{
				"AECO": {weatherFile(0, sky, 0)},
				"AEP":  {weatherFile(1, sky[:100], -5), weatherFile(1, sky[90:], 3)},
			})
			d, report, err := Build(p, w)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			short := mid.Hours() == 23
			if report.First != first || report.Last != last || report.Kept+len(report.Dropped) != 9 || short != (len(report.Dropped) == 1) {
				t.Errorf("%s: %+v", name, report)
			}
			if short && report.Dropped[0].String() != "2025-03-09: the day has 23 hours" {
				t.Error(report.Dropped[0])
			}
			if worst, dates := d.CheckCongestion(); dates != report.Kept || worst.Dollars != 0 {
				t.Errorf("%s: congestion is off by %v over %d dates", name, worst, dates)
			}
			for k, c := range d.Clients {
				if c.Name != twoZones[k].Name || c.Demand != twoZones[k].Demand || len(c.Days) != report.Kept {
					t.Fatalf("%s: client %+v", name, c)
				}
				for _, day := range c.Days {
					checkBuilt(t, k, day)
				}
			}
		}
	}
}

// checkBuilt compares a built day with loops over its clock.
func checkBuilt(t *testing.T, k int, day Day) {
	t.Helper()
	begin := day.Date.begin()
	var clock [Hours][]hour
	var want DayWeather
	want.TempMin, want.TempMax = math.Inf(1), math.Inf(-1)
	n := hour(day.Date.Hours())
	for i := range n {
		at := begin + i
		if n == 25 && i > 1 {
			i-- // 1:00 is twice
		}
		clock[i] = append(clock[i], at)
		s := rawSky(k, at)
		want.TempMean += s[0] / float64(n)
		want.TempMin, want.TempMax = min(want.TempMin, s[0]), max(want.TempMax, s[0])
		want.Humidity += s[1] / float64(n)
		want.Wind += s[2] / float64(n)
		want.SolarMean += s[3] / float64(n)
		want.SolarMax = max(want.SolarMax, s[3])
	}
	for h, at := range clock {
		sum := 0.0
		for _, x := range at {
			sum += rawPrice(k, x)
		}
		if len(at) == 0 || day.LMP[h] != sum/float64(len(at)) {
			t.Fatalf("%v %d:00: %v, want the mean over %v", day.Date, h, day.LMP[h], at)
		}
	}
	got := day.Weather
	for _, c := range [][2]float64{{got.TempMean, want.TempMean}, {got.TempMin, want.TempMin}, {got.TempMax, want.TempMax}, {got.Humidity, want.Humidity},
		{got.Wind, want.Wind}, {got.SolarMean, want.SolarMean}, {got.SolarMax, want.SolarMax}} {
		if !near(c[0], c[1], 1e-12) {
			t.Fatalf("%v: weather %+v, want %+v", day.Date, got, want)
		}
	}
}

// TestBuildDropsIncompleteDates: a date that lacks an hour anywhere is left out
// of all zones, and the report says what was missing where.
func TestBuildDropsIncompleteDates(t *testing.T) {
	first := date(t, "2025-06-01")
	hours := hoursOf(first, first+5)
	prices := dataMinerFile(twoZones, hours[3:]) // the first date begins at 3:00
	blank := fmt.Sprintf("AEP,,,ZONE,,0,%v,", rawPrice(1, hours[30]))
	at := strings.Index(prices, hours[30].time().Format(dataMinerTimes[0]))
	prices = prices[:at] + strings.Replace(prices[at:], blank, "AEP,,,ZONE,,0,,", 1) // an hour of 2 June
	prices += "1/1/2025 5:00:00 AM,1/1/2025 12:00:00 AM,1,WESTERN HUB,,,HUB,,0,1,0,0,True,1\n"
	prices += fmt.Sprintf("%s,x,1,AEP,,,ZONE,,0,999,0,0,False,1\n", hours[50].time().Format(dataMinerTimes[0]))
	text := weatherFile(0, hoursOf(first, first+5), 0) // lacks the last hour's radiation
	// A null at 4 June, 0:00.
	value := fmt.Sprint(rawSky(0, hours[72])[0])
	parts := strings.SplitN(text, `"temperature_2m":[`, 2)
	list := strings.Split(parts[1], ",")
	if list[72] != value {
		t.Fatal(list[72])
	}
	list[72] = "null"
	text = parts[0] + `"temperature_2m":[` + strings.Join(list, ",")
	p, w := sources(t, twoZones, []string{prices}, map[string][]string{"AECO": {text}, "AEP": {weatherFile(1, hoursOf(first-1, first+6), 0)}})
	d, report, err := Build(p, w)
	if err != nil {
		t.Fatal(err)
	}
	var dropped []string
	for _, drop := range report.Dropped {
		dropped = append(dropped, drop.String())
	}
	if !slices.Equal(dropped, []string{
		"2025-06-01: prices are missing: 6 hours in AECO, AEP",
		"2025-06-02: prices are missing: 1 hours in AEP",
		"2025-06-04: weather is missing: 1 hours in AECO",
		"2025-06-06: weather is missing: 1 hours in AECO",
	}) || report.Kept != 2 || len(d.Clients[0].Days) != 2 || p.Other != 2 || p.Blank != 1 || w.Null != 1 {
		t.Errorf("dropped %q, kept %d; %d other, %d blank, %d null", dropped, report.Kept, p.Other, p.Blank, w.Null)
	}

	empty := NewPrices(twoZones)
	if _, _, err := Build(empty, w); !errors.Is(err, ErrData) || !strings.Contains(err.Error(), "no prices") {
		t.Errorf("no prices: %v", err)
	}
	if _, _, err := Build(p, NewWeather(twoZones)); !errors.Is(err, ErrData) || !strings.Contains(err.Error(), "none of the 6 dates from 2025-06-01 to 2025-06-06 is complete") {
		t.Errorf("no weather: %v", err)
	}
	for _, zones := range [][]Zone{twoZones[:1], {twoZones[1], twoZones[0]}} {
		if _, _, err := Build(p, NewWeather(zones)); !errors.Is(err, ErrConfig) {
			t.Errorf("other zones: %v", err)
		}
	}
}

// TestMalformedSources: a defect in a raw file is one error that names file and
// place.
func TestMalformedSources(t *testing.T) {
	hours := hoursOf(date(t, "2025-11-02"), date(t, "2025-11-02"))
	miner, eia, sky := dataMinerFile(twoZones, hours), eiaFile(twoZones, hours), weatherFile(0, hours, 0)
	replace := func(text, old, new string) string {
		if !strings.Contains(text, old) {
			t.Fatalf("no %q", old)
		}
		return strings.Replace(text, old, new, 1)
	}
	price := fmt.Sprint(rawPrice(0, hours[0]))
	for name, c := range map[string]struct{ text, says string }{
		"miner: real time":       {replace(miner, "total_lmp_da", "total_lmp_rt"), "p.csv: line 1, column total_lmp_da: the column is missing"},
		"miner: time":            {replace(miner, "11/2/2025 4:00:00 AM", "2025-11-02"), `line 2, column datetime_beginning_utc: got "2025-11-02", want a full hour such as 1/2/2006 3:04:05 PM`},
		"miner: half hour":       {replace(miner, "11/2/2025 4:00:00 AM", "11/2/2025 4:30:00 AM"), "line 2, column datetime_beginning_utc: got"},
		"miner: other zone time": {replace(miner, "11/2/2025 12:00:00 AM", "11/1/2025 11:00:00 PM"), "column datetime_beginning_ept: got \"11/1/2025 11:00:00 PM\", want 11/2/2025 12:00:00 AM, which 2025-11-02 04:00 UTC is in Eastern time"},
		"miner: local time":      {replace(miner, "11/2/2025 12:00:00 AM", "midnight"), `column datetime_beginning_ept: got "midnight"`},
		"miner: version":         {replace(miner, "True", "yes"), `line 2, column row_is_current: got "yes", want True or False`},
		"miner: price":           {replace(miner, ",0,"+price+",", ",0,NaN,"), `line 2, column total_lmp_da: got "NaN", want a finite number`},
		"miner: two prices":      {miner + replace(strings.Split(miner, "\n")[1], ",0,"+price+",", ",0,77,"), `line 52, column total_lmp_da: got "77", want one price of AECO for 2025-11-02 04:00 UTC (there is ` + price},
		"miner: short row":       {miner + "1,2,3\n", "line 52: 3 columns, want 14 as in the header"},
		"EIA: zone":              {replace(eia, "Atlantic Electric Company LMP", "Atlantic LMP"), "line 4, column Atlantic Electric Company LMP: the column is missing"},
		"EIA: lines to skip":     {strings.SplitN(eia, "\n", 3)[2], "the column is missing"},
		"EIA: time":              {replace(eia, "2025-11-02 05:00:00", "5 o'clock"), `line 5, column UTC Timestamp (Interval Ending): got "5 o'clock", want a full hour such as 2006-01-02 15:04:05`},
		"EIA: price":             {replace(eia, ",1,"+price+",", ",1,n/a,"), `line 5, column Atlantic Electric Company LMP: got "n/a", want a finite number`},
		"EIA: cut":               {eia[:200], "line 4"},
		"neither":                {"a,b\n", "the file is empty"},
	} {
		p := NewPrices(twoZones)
		if err := p.Read(writeNamed(t, "p.csv", c.text)); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %s", name, err, c.says)
		}
	}
	for name, c := range map[string]struct{ text, says string }{
		"not JSON":      {sky[:len(sky)/2], "w.json: unexpected end of JSON input, want an answer of the Open-Meteo archive in JSON about one place"},
		"two places":    {"[" + sky + "]", "about one place"},
		"error":         {`{"error":true,"reason":"Hourly API request limit exceeded."}`, "column error: Hourly API request limit exceeded., want weather"},
		"no offset":     {replace(sky, "utc_offset_seconds", "x"), "column utc_offset_seconds: it is missing"},
		"half hours":    {replace(sky, `utc_offset_seconds":0`, `utc_offset_seconds":19800`), `got "19800", want full hours`},
		"no times":      {replace(sky, `"time":[`, `"times":[`), "column hourly.time: it is missing"},
		"time":          {replace(sky, "2025-11-02T05:00", "2025-11-02"), `column hourly.time[1]: got "2025-11-02", want a full hour`},
		"no radiation":  {replace(sky, `"shortwave_radiation":[`, `"x":[`), "column hourly.shortwave_radiation: it is missing"},
		"Fahrenheit":    {replace(sky, `"temperature_2m":"°C"`, `"temperature_2m":"°F"`), `column hourly_units.temperature_2m: got "°F", want "°C"`},
		"text":          {replace(sky, `"wind_speed_10m":[`, `"wind_speed_10m":["calm",`), "column hourly.wind_speed_10m"},
		"NaN":           {replace(sky, `"wind_speed_10m":[`, `"wind_speed_10m":[NaN,`), "want an answer of the Open-Meteo archive"},
		"more values":   {replace(sky, `"wind_speed_10m":[`, `"wind_speed_10m":[3,`), `column hourly.wind_speed_10m: got "26 values", want 25, as there are times`},
		"daily answers": {replace(sky, `"hourly":`, `"daily":`), "column hourly.time: it is missing"},
	} {
		w := NewWeather(twoZones)
		if err := w.Read(writeNamed(t, "w.json", c.text), "AECO"); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %s", name, err, c.says)
		}
	}
	w := NewWeather(twoZones)
	path := writeNamed(t, "w.json", sky)
	if err := w.Read(path, "DPL"); !errors.Is(err, ErrConfig) {
		t.Errorf("weather of a zone that is not there: %v", err)
	}
	if err := errors.Join(w.Read(path, "AECO"), w.Read(path, "AECO")); err != nil {
		t.Errorf("the same file twice: %v", err)
	}
	if err := w.Read(writeNamed(t, "w.json", weatherFile(1, hours, 0)), "AECO"); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "want one value of AECO for 2025-11-02T") {
		t.Errorf("two values: %v", err)
	}
	for _, err := range []error{w.Read(path+"x", "AECO"), NewPrices(twoZones).Read(path + "x")} {
		if !errors.Is(err, ErrFormat) || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("no file: %v", err)
		}
	}
}

// TestURL: the address of a zone's weather covers Eastern days in GMT.
func TestURL(t *testing.T) {
	want := "https://archive-api.open-meteo.com/v1/archive?latitude=41.88&longitude=-87.63&start_date=2025-01-01&end_date=2026-01-01&hourly=temperature_2m,relative_humidity_2m,wind_speed_10m,shortwave_radiation&timezone=GMT"
	if got := Zones()[5].URL(date(t, "2025-01-01"), date(t, "2025-12-31")); got != want {
		t.Error(got)
	}
}

// TestRealDataMiner reads a year of day-ahead prices of all of PJM: 8,737 hours,
// of which the short day is left out and the long day has the mean of its two
// prices of 1:00.
func TestRealDataMiner(t *testing.T) {
	rto := []Zone{{ID: 1, Name: "PJM-RTO", Demand: 6}}
	p, w := NewPrices(rto), NewWeather(rto)
	if err := p.Read(realData(t, "pjm/pjm_rto_da_hrl_lmps_2025.csv")); err != nil {
		t.Fatal(err)
	}
	if p.Used != 8737 || p.Other != 0 || p.Blank != 0 {
		t.Errorf("%d prices, %d other rows, %d blank", p.Used, p.Other, p.Blank)
	}
	if first, last, _ := p.span(); first != date(t, "2025-01-01") || last.String()[:4] != "2025" {
		t.Errorf("from %v to %v", first, last)
	}
	first, last, _ := p.span()
	if err := w.Read(writeNamed(t, "w.json", weatherFile(0, hoursOf(first-1, last+1), 0)), "PJM-RTO"); err != nil {
		t.Fatal(err)
	}
	d, report, err := Build(p, w)
	if err != nil {
		t.Fatal(err)
	}
	days := d.Clients[0].Days
	t.Logf("%v to %v: kept %d, dropped %v", report.First, report.Last, report.Kept, report.Dropped)
	if report.Kept < 360 || report.Dropped[0].Reason != ShortDay || report.Dropped[0].Date.String() != "2025-03-09" {
		t.Errorf("report %+v", report)
	}
	if day := days[0]; day.LMP[0] != 21.024537 || day.LMP[18] == 0 || day.Congestion != [Hours]float64{} {
		t.Errorf("first day %+v", day)
	}
	i := slices.IndexFunc(days, func(d Day) bool { return d.Date.Hours() == 25 })
	if i < 0 || !near(days[i].LMP[1], (43.002483+39.234239)/2, 1e-12) || days[i].LMP[0] != 47.782241 || days[i].LMP[2] != 41.349502 {
		t.Errorf("the day of 25 hours: %v", days[i].LMP)
	}
}

// TestRealTimePricesAreRefused: real-time prices of hubs are another table.
func TestRealTimePricesAreRefused(t *testing.T) {
	err := NewPrices(Zones()).Read(realData(t, "pjm/hubs_rt_hrl_lmps_2025-05_2025-08.csv"))
	if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "line 1, column total_lmp_da: the column is missing") {
		t.Errorf("real-time prices: %v", err)
	}
}

// TestRealWeather: a real answer about temperature alone, nine hours behind
// universal time, is refused for what it lacks, not for its form.
func TestRealWeather(t *testing.T) {
	w := NewWeather(twoZones)
	err := w.Read(realData(t, "weather/openmeteo_archive_43cae1.json"), "AEP")
	if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "column hourly_units.relative_humidity_2m") {
		t.Errorf("temperature alone: %v", err)
	}
	if at := hourOf(time.Date(2022, 12, 29, 9, 0, 0, 0, time.UTC)); w.hours[1][at][0] != 25.2 || w.Used != 24 {
		t.Errorf("%d values, the first %v", w.Used, w.hours[1][at])
	}
}
