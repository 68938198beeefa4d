package pjm

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	set "fedrspo/oracle/knapsack"
	"fedrspo/task"
)

// generated returns the paper's table, generated.
func generated(t testing.TB, cfg Config) *Dataset {
	t.Helper()
	d, err := Generate(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func buildTask(t testing.TB, d *Dataset) *task.Task {
	t.Helper()
	k, err := d.Task()
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// realData returns the path of a file of real data, or skips the test.
func realData(t testing.TB, file string) string {
	t.Helper()
	root := os.Getenv("FEDRSPO_DATA")
	if root == "" {
		t.Skip("FEDRSPO_DATA does not name a folder of real data")
	}
	path := filepath.Join(root, file)
	if _, err := os.Stat(path); err != nil {
		t.Skip(err)
	}
	return path
}

func near(a, b, tol float64) bool { return math.Abs(a-b) <= tol*max(1, math.Abs(a), math.Abs(b)) }

func TestDates(t *testing.T) {
	for text, want := range map[string]struct{ weekday, hours int }{
		"2025-01-01": {2, 24}, "2025-03-09": {6, 23}, "2025-11-02": {6, 25}, "2026-02-09": {0, 24},
		"2024-02-29": {3, 24}, "1970-01-01": {3, 24}, "1969-12-31": {2, 24}, "2024-11-03": {6, 25},
	} {
		d, err := ParseDate(text)
		if err != nil || d.String() != text || d.Weekday() != want.weekday || d.Hours() != want.hours {
			t.Errorf("%s: %v, weekday %d, %d hours, %v", text, d, d.Weekday(), d.Hours(), err)
		}
		// Every hour of the date is local to it.
		for h := d.begin(); h < (d + 1).begin(); h++ {
			if date, _ := h.local(); date != d {
				t.Errorf("%v is on %v, want %v", h, date, d)
			}
		}
	}
	for _, text := range []string{"", "2025-1-1", "2025-02-29", "01/02/2025", "2025-01-01 "} {
		if _, err := ParseDate(text); err == nil {
			t.Errorf("%q is taken for a date", text)
		}
	}
	autumn, _ := ParseDate("2025-11-02")
	var hours []int
	for h := autumn.begin(); h < (autumn + 1).begin(); h++ {
		_, local := h.local()
		hours = append(hours, local)
	}
	if !slices.Equal(hours[:4], []int{0, 1, 1, 2}) {
		t.Errorf("hours %v", hours)
	}
	if autumn.summer() || !(autumn - 1).summer() {
		t.Error("summer time ends on another day")
	}
}

func TestConfigIsChecked(t *testing.T) {
	for name, c := range map[string]struct {
		cfg  Config
		want string
	}{
		"too many clients": {Config{Clients: 20}, "clients is 20, want 1 to 19"},
		"clients":          {Config{Clients: -1}, "clients is -1"},
		"start":            {Config{Start: "1/1/2025"}, `"1/1/2025" is not a date`},
		"early":            {Config{Start: "1999-01-01"}, "start is 1999-01-01"},
		"few days":         {Config{Days: 9}, "days is 9, want 10 to"},
		"many days":        {Config{Days: 1e9}, "days is 1000000000"},
		"negative demand":  {Config{Demand: -1}, "demand is -1"},
		"demand":           {Config{Demand: 25}, "demand is 25 hours"},
	} {
		if _, err := Generate(c.cfg); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one about %q", name, err, c.want)
		}
	}
	path := filepath.Join(t.TempDir(), "a.csv")
	if err := generated(t, Config{Days: 10, Clients: 2}).Export(path); err != nil {
		t.Fatal(err)
	}
	for name, cfg := range map[string]Config{"seed": {Seed: 1}, "clients": {Clients: 2}, "start": {Start: "2025-01-01"}, "days": {Days: 20}, "demand": {Demand: 25}} {
		if _, err := Load(path, cfg); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s for a file: %v", name, err)
		}
	}
	if d, err := Load(path, Config{Demand: 24}); err != nil || d.Clients[1].Demand != 24 {
		t.Errorf("a file with fixed demand: %v", err)
	}
}

// TestTaskStandardises compares the task with an obvious twin: features by the
// formula, costs as the sum of two columns.
func TestTaskStandardises(t *testing.T) {
	d := generated(t, Config{Seed: 3, Days: 61, Start: "2025-02-01"})
	k := buildTask(t, d)
	if k.Name != "pjm" || k.Metric != task.AbsoluteRegret || k.In != 8 || k.Out != 24 || len(k.Clients) != 19 {
		t.Fatalf("task %s: %d in, %d out, %d clients", k.Name, k.In, k.Out, len(k.Clients))
	}
	parts := d.Parts()
	if len(parts[Train]) != 30 || len(parts[Validation]) != 6 || len(parts[Test]) != 25 {
		t.Fatalf("parts of %d, %d and %d dates", len(parts[Train]), len(parts[Validation]), len(parts[Test]))
	}
	for j, c := range k.Clients {
		raw := &d.Clients[j]
		if c.ID != raw.ID || c.Name != raw.Name || c.Polytope.(*set.TopK).K() != float64(raw.Demand) {
			t.Errorf("client %d %s", c.ID, c.Name)
		}
		for f := range featureNames {
			sum, square := 0.0, 0.0
			for _, day := range raw.Days[:30] {
				sum += day.features()[f]
			}
			for _, day := range raw.Days[:30] {
				square += (day.features()[f] - sum/30) * (day.features()[f] - sum/30)
			}
			row, x := 0, make([]float64, 8)
			for p, split := range []task.Split{c.Train, c.Val, c.Test} {
				days := d.Part(raw, Part(p))
				if len(days) != split.Len() || len(days) != len(parts[p]) {
					t.Fatalf("%v: %d days, %d rows", Part(p), len(days), split.Len())
				}
				for i := range split.Len() {
					if days[i].Date != parts[p][i] {
						t.Fatalf("%v row %d is %v", Part(p), i, days[i].Date)
					}
					split.X.Copy(x, i)
					want := (raw.Days[row].features()[f] - sum/30) / (math.Sqrt(square/29) + 1e-8)
					if !near(x[f], want, 1e-9) {
						t.Fatalf("client %d, %v: %s is %v, want %v", c.ID, days[i].Date, featureNames[f], x[f], want)
					}
					for h, cost := range split.C.Row(i) {
						if cost != raw.Days[row].LMP[h]+raw.Days[row].Congestion[h] {
							t.Fatalf("client %d, %v: cost %d is %v", c.ID, days[i].Date, h, cost)
						}
					}
					row++
				}
			}
		}
	}
}

func TestInvalidData(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Dataset)
		says   string
	}{
		"no clients":       {func(d *Dataset) { d.Clients = nil }, "no clients"},
		"order of clients": {func(d *Dataset) { d.Clients[1].ID = 1 }, "client IDs must be unique and ascend, got 1 after 1"},
		"negative client":  {func(d *Dataset) { d.Clients[0].ID = -1 }, "must not be negative"},
		"name":             {func(d *Dataset) { d.Clients[0].Name = "a\nb" }, "client 1: name"},
		"no name":          {func(d *Dataset) { d.Clients[0].Name = "" }, "client 1: name"},
		"names":            {func(d *Dataset) { d.Clients[2].Name = "AEP" }, `clients 2 and 3 are both named "AEP"`},
		"demand":           {func(d *Dataset) { d.Clients[2].Demand = 0 }, "client 3 (APS): demand 0"},
		"no days":          {func(d *Dataset) { d.Clients[2].Days = nil }, "client 3 (APS): no days"},
		"order of dates":   {func(d *Dataset) { d.Clients[1].Days[4].Date-- }, "dates must be unique and ascend, got 2025-01-04 after 2025-01-04"},
		"NaN price":        {func(d *Dataset) { d.Clients[1].Days[4].LMP[7] = math.NaN() }, "client 2 (AEP) on 2025-01-05: total_lmp_7"},
		"infinite":         {func(d *Dataset) { d.Clients[1].Days[4].Congestion[9] = math.Inf(1) }, "congestion_9"},
		"NaN weather":      {func(d *Dataset) { d.Clients[1].Days[4].Weather.Wind = math.NaN() }, "wind_speed_mean"},
		"temperatures":     {func(d *Dataset) { d.Clients[1].Days[4].Weather.TempMin = 99 }, "lowest temperature 99"},
		"few dates": {func(d *Dataset) {
			for k := range d.Clients {
				d.Clients[k].Days = d.Clients[k].Days[:9]
			}
		}, "9 dates, want at least 10"},
		"one-day client": {func(d *Dataset) { d.Clients[2].Days = d.Clients[2].Days[:1] }, "client 3 (APS): 1 training days, want at least 2 from 2025-01-01 to 2025-01-10"},
		"no training":    {func(d *Dataset) { d.Clients[2].Days = d.Clients[2].Days[15:] }, "client 3 (APS): 0 training days"},
		"no test":        {func(d *Dataset) { d.Clients[2].Days = d.Clients[2].Days[:12] }, "client 3 (APS): no test day, want at least one from 2025-01-13 to 2025-01-20"},
		"constant feature": {func(d *Dataset) {
			for i := range 10 {
				d.Clients[0].Days[i].Weather.Wind = 3
			}
		}, "client 1 (AECO): wind_speed_mean is 3 on every training day but not on 2025-01-11"},
		"overflow": {func(d *Dataset) {
			for i := range 10 {
				d.Clients[0].Days[i].Weather.SolarMax = 1e308 * float64(1-i%2*2)
			}
		}, "solar_irradiance_max: mean or standard deviation overflows"},
		"overflow of costs": {func(d *Dataset) { d.Clients[0].Days[3].LMP[2], d.Clients[0].Days[3].Congestion[2] = 1.7e308, 1.7e308 }, "cost 2 is +Inf"},
	} {
		t.Run(name, func(t *testing.T) {
			d := generated(t, Config{Clients: 3, Days: 20})
			c.change(d)
			if k, err := d.Task(); k != nil || !errors.Is(err, ErrData) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("error %v, want %q", err, c.says)
			}
		})
	}
	// A feature that never changes is harmless: it is 0 everywhere.
	d := generated(t, Config{Clients: 1, Days: 20})
	for i := range d.Clients[0].Days {
		d.Clients[0].Days[i].Weather.Wind = 3
	}
	x := make([]float64, 8)
	if buildTask(t, d).Clients[0].Test.X.Copy(x, 0); x[4] != 0 {
		t.Errorf("a constant feature becomes %v", x[4])
	}
}

// TestMissingDates: splits are cut by the dates that any client has; a client
// has in each what it has.
func TestMissingDates(t *testing.T) {
	d := generated(t, Config{Clients: 3, Days: 22})
	for k := range d.Clients { // 2025-01-05 is missing for all
		d.Clients[k].Days = slices.Delete(d.Clients[k].Days, 4, 5)
	}
	d.Clients[1].Days = slices.Delete(d.Clients[1].Days, 0, 1)
	d.Clients[1].Days = slices.Delete(d.Clients[1].Days, 18, 19) // 2025-01-21
	want := []Gap{
		{d.Clients[0].Days[0].Date, 2, "AEP"},
		{d.Clients[0].Days[0].Date + 4, 0, ""},
		{d.Clients[0].Days[0].Date + 20, 2, "AEP"},
	}
	if got := d.Gaps(); !reflect.DeepEqual(got, want) {
		t.Errorf("gaps %v, want %v", got, want)
	}
	k := buildTask(t, d) // 21 dates: 10, 2 and 9
	for j, want := range [][3]int{{10, 2, 9}, {9, 2, 8}, {10, 2, 9}} {
		c := k.Clients[j]
		if got := [3]int{c.Train.Len(), c.Val.Len(), c.Test.Len()}; got != want {
			t.Errorf("client %d has splits of %v, want %v", c.ID, got, want)
		}
	}
	if worst, dates := d.CheckCongestion(); dates != 19 || worst.Dollars != 0 {
		t.Errorf("congestion is off by %v over %d dates", worst, dates)
	}
	d.Clients[2].Days[3].Congestion[5] += 0.25
	if worst, _ := d.CheckCongestion(); !near(worst.Dollars, 0.25, 1e-12) || worst.Client != 3 || worst.Date.String() != "2025-01-04" || worst.Hour != 5 {
		t.Errorf("worst congestion %v", worst)
	}
}

// TestRecent restates the data of tables 11 and 12: a client, or all, keep their
// last n training days, standardised as with all of them.
func TestRecent(t *testing.T) {
	d := generated(t, Config{Clients: 4, Days: 60})
	whole := buildTask(t, d)
	for _, id := range []int{0, 2} {
		for _, n := range []int{0, 1, 3, 30} {
			got, err := d.Recent(id, n)
			if err != nil {
				t.Fatal(err)
			}
			if err := got.Validate(); err != nil || got.Metric != whole.Metric {
				t.Error(err)
			}
			kept := n
			if n == 0 {
				kept = 30
			}
			for j, c := range got.Clients {
				from := whole.Clients[j]
				if id != 0 && c.ID != id {
					if !reflect.DeepEqual(c, from) {
						t.Errorf("client %d differs from the whole task's", c.ID)
					}
					continue
				}
				if !reflect.DeepEqual(c.Val, from.Val) || !reflect.DeepEqual(c.Test, from.Test) || c.Train.Len() != kept || c.Late != (id != 0) {
					t.Errorf("client %d: splits of %d, %d and %d rows", c.ID, c.Train.Len(), c.Val.Len(), c.Test.Len())
				}
				a, b := make([]float64, 8), make([]float64, 8)
				for i := range kept {
					c.Train.X.Copy(a, i)
					from.Train.X.Copy(b, 30-kept+i)
					if !slices.Equal(a, b) || !slices.Equal(c.Train.C.Row(i), from.Train.C.Row(30-kept+i)) {
						t.Errorf("client %d: row %d of %d is another day", c.ID, i, kept)
					}
				}
			}
		}
	}
	for _, c := range []struct{ id, n int }{{2, -1}, {2, 31}, {0, 31}, {5, 3}} {
		if _, err := d.Recent(c.id, c.n); !errors.Is(err, ErrConfig) {
			t.Errorf("client %d, %d days: %v", c.id, c.n, err)
		}
	}
	d.Clients = d.Clients[:1]
	if _, err := d.Recent(1, 3); !errors.Is(err, ErrConfig) {
		t.Errorf("the only client: %v", err)
	}
}

func TestFixedDemand(t *testing.T) {
	d := generated(t, Config{Days: 20})
	fixed, err := d.WithDemand(4)
	if err != nil {
		t.Fatal(err)
	}
	same := generated(t, Config{Days: 20, Demand: 4})
	if !reflect.DeepEqual(fixed, same) {
		t.Error("WithDemand and Config.Demand differ")
	}
	for k, z := range Zones() {
		if fixed.Clients[k].Demand != 4 || d.Clients[k].Demand != z.Demand {
			t.Errorf("client %d: demands %d and %d", k+1, fixed.Clients[k].Demand, d.Clients[k].Demand)
		}
	}
	for _, k := range []int{0, 25} {
		if _, err := d.WithDemand(k); !errors.Is(err, ErrConfig) {
			t.Errorf("demand %d: %v", k, err)
		}
	}
}

func TestSummary(t *testing.T) {
	c := Client{Days: make([]Day, 2)}
	c.Days[0].LMP[3], c.Days[1].LMP[5] = -24, 120
	if got, want := c.Summary(), (Summary{2, -24, 120, 1}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
