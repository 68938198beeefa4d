package pjm

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// hubTable is a table of one hub around the clock change of a date, with hour h
// at price 100*row+h.
func hubTable(t testing.TB, first string, n int) grid {
	t.Helper()
	g := grid{nil}
	for i := range hubColumns.Count() {
		g[0] = append(g[0], hubColumns.Name(i))
	}
	date, err := ParseDate(first)
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		d := date + Date(i)
		record := []string{d.String(), "1", "9", fmt.Sprint(5 + i), "60", fmt.Sprint(10 + i), "100", fmt.Sprint(400 + i), fmt.Sprint(d.Weekday())}
		for h := 1; h <= hubHours; h++ {
			price := fmt.Sprint(100*i + h)
			if h == 3 && d.Hours() == 23 || h == 25 && d.Hours() < 25 {
				price = ""
			}
			record = append(record, price)
		}
		g = append(g, record)
	}
	return g
}

func TestHub(t *testing.T) {
	g := hubTable(t, "2025-10-20", 20)
	slices.Reverse(g[1:])
	d, err := Load(writeFile(t, g.String()), Config{})
	if err != nil {
		t.Fatal(err)
	}
	for k, z := range Zones() {
		if c := d.Clients[k]; c.Name != z.Name || c.Demand != z.Demand || len(c.Days) != 20 {
			t.Errorf("client %s: demand %d, %d days", c.Name, c.Demand, len(c.Days))
		}
	}
	day := d.Clients[3].Days[13] // 2025-11-02
	if day.Date.Hours() != 25 || day.LMP[0] != 1301 || day.LMP[1] != (1302+1325)/2. || day.LMP[2] != 1303 || day.LMP[23] != 1324 || day.Cost(5) != 1306 {
		t.Errorf("the day of 25 hours: %+v", day)
	}
	if w := day.Weather; w != (DayWeather{18, 1, 9, 60, 23, 100, 413}) {
		t.Errorf("weather %+v", w)
	}
	if worst, dates := d.CheckCongestion(); dates != 20 || worst.Dollars != 0 {
		t.Errorf("congestion %v over %d dates", worst, dates)
	}
	for h, empty := range map[int]string{3: "the skipped hour", 24: "the last hour"} {
		g := hubTable(t, "2025-03-01", 20)
		g.set(10, "lmp_opr_hour_03", "1")
		g.set(10, fmt.Sprintf("lmp_opr_hour_%02d", h), "")
		d, err := Load(writeFile(t, g.String()), Config{Demand: 5})
		if err != nil {
			t.Fatalf("%s is empty: %v", empty, err)
		}
		gaps := d.Gaps()
		if len(gaps) != 1 || gaps[0].Date.String() != "2025-03-09" || d.Clients[0].Demand != 5 {
			t.Errorf("%s is empty: gaps %v", empty, gaps)
		}
	}
}

func TestMalformedHub(t *testing.T) {
	const spring, autumn = 10, 14 // lines of the short and of the long day
	for name, c := range map[string]struct {
		first        string
		line         int
		column, text string
		says         string
	}{
		"date":               {"2025-03-01", 3, "date", "3/2/2025", "a date as YYYY-MM-DD"},
		"duplicate":          {"2025-03-01", 9, "date", "2025-03-01", "one row for each date (this one is in line 2 too)"},
		"weekday":            {"2025-03-01", 3, "day_of_week", "5", "want 6, the day of the week"},
		"weather":            {"2025-03-01", 3, "mean_humidity", "", "a finite number"},
		"temperatures":       {"2025-03-01", 3, "min_temp_c", "10", "at most max_temp_c"},
		"missing hour":       {"2025-03-01", 3, "lmp_opr_hour_03", "", "a finite number: the day has 24 hours"},
		"hour 25":            {"2025-03-01", 3, "lmp_opr_hour_25", "7", "no price: the day has 24 hours"},
		"text":               {"2025-03-01", 3, "lmp_opr_hour_04", "-", "a finite number"},
		"23 hours, full":     {"2025-03-01", spring, "lmp_opr_hour_03", "7", "no price: the day has 23 hours"},
		"23 hours, another":  {"2025-03-01", spring, "lmp_opr_hour_05", "", "a finite number: the day has 23 hours"},
		"23 hours, two":      {"2025-03-01", spring, "lmp_opr_hour_24", "", "a finite number: the day has 23 hours"},
		"23 hours, hour 25":  {"2025-03-01", spring, "lmp_opr_hour_25", "7", "no price: the day has 23 hours"},
		"25 hours, missing":  {"2025-10-20", autumn + 1, "lmp_opr_hour_25", "", "a finite number: the day has 25 hours"},
		"25 hours, infinite": {"2025-10-20", autumn + 1, "lmp_opr_hour_25", "inf", "a finite number"},
	} {
		g := hubTable(t, c.first, 20)
		g.set(c.line, c.column, c.text)
		if name == "duplicate" {
			g.set(c.line, "day_of_week", "5")
		}
		_, err := Load(writeFile(t, g.String()), Config{})
		f, ok := errors.AsType[*FormatError](err)
		if !ok || f.Line != c.line || f.Column != c.column || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want line %d, column %s: %s", name, err, c.line, c.column, c.says)
		}
	}
	g := hubTable(t, "2025-03-09", 1)
	if _, err := Load(writeFile(t, g.String()), Config{}); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "1 rows without one") {
		t.Errorf("no day left: %v", err)
	}
	if _, err := LoadHub(writeFile(t, g.String()), Config{Seed: 1}); !errors.Is(err, ErrConfig) {
		t.Errorf("a seed for a file: %v", err)
	}
}

// TestRealHub reads 1,198 days of one hub: four days of 23 hours are dropped,
// and on the three of 25 hours the sun says that hour 25 is the second 1:00 and
// not the last hour of the day: the price falls when the sun rises, in the same
// hour as on the next day.
func TestRealHub(t *testing.T) {
	d, err := Load(realData(t, "energy/caiso_sp15_daily_lmp_weather.csv"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	days := d.Clients[0].Days
	negative := 0
	for i, day := range days {
		for _, p := range day.LMP {
			if p < 0 {
				negative++
			}
		}
		if day.Date.Hours() != 25 {
			continue
		}
		drop := func(day Day) (hour int) {
			for h := range 12 {
				if day.LMP[h]-day.LMP[h+1] > day.LMP[hour]-day.LMP[hour+1] {
					hour = h
				}
			}
			return hour
		}
		if a, b := drop(day), drop(days[i+1]); a != b {
			t.Errorf("%v: the price falls after hour %d, on the next day after hour %d", day.Date, a, b)
		}
	}
	if len(days) != 1198-4 || len(d.Clients) != 19 || negative < 3000 || negative > 3088 {
		t.Errorf("%d days, %d clients, %d negative hours", len(days), len(d.Clients), negative)
	}
	if gaps := d.Gaps(); len(gaps) != 4 {
		t.Errorf("gaps %v", gaps)
	}
	k := buildTask(t, d)
	if c := k.Clients[7]; c.Train.Len() != 597 || c.Val.Len() != 119 || c.Test.Len() != 478 {
		t.Errorf("splits of %d, %d and %d", c.Train.Len(), c.Val.Len(), c.Test.Len())
	}
}
