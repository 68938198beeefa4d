package pjm

import (
	"encoding/csv"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"
)

func TestGenerateIsDeterministic(t *testing.T) {
	a, b := generated(t, Config{Seed: 5}), generated(t, Config{Seed: 5})
	if !reflect.DeepEqual(a, b) {
		t.Error("one configuration gave two datasets")
	}
	if c := generated(t, Config{Seed: 6}); reflect.DeepEqual(a.Clients, c.Clients) {
		t.Error("two seeds gave one dataset")
	}
	if len(a.Clients) != 19 || len(a.Clients[18].Days) != 403 {
		t.Fatalf("%d clients, %d days", len(a.Clients), len(a.Clients[18].Days))
	}
	// The published table's range but for one missing date.
	dates := a.Dates()
	if dates[0].String() != "2025-01-01" || dates[402].String() != "2026-02-08" {
		t.Errorf("from %v to %v", dates[0], dates[402])
	}
	if gaps := a.Gaps(); len(gaps) != 1 || gaps[0].Date.String() != "2025-03-09" {
		t.Errorf("gaps %v", gaps)
	}
}

// TestClientsAndDaysAreIndependent: more clients or more days leave the prices
// and the weather that were there as they were.
func TestClientsAndDaysAreIndependent(t *testing.T) {
	small := generated(t, Config{Seed: 3, Clients: 3, Days: 80})
	large := generated(t, Config{Seed: 3, Days: 100})
	for k, c := range small.Clients {
		for i, day := range c.Days {
			other := large.Clients[k].Days[i]
			if day.Date != other.Date || day.LMP != other.LMP || day.Weather != other.Weather {
				t.Fatalf("client %d on %v changed", c.ID, day.Date)
			}
		}
	}
}

// TestGolden pins some generated numbers, so that the data of a seed never
// change unnoticed. They were printed by this generator: the test does not say
// that they are right, which the other tests do.
func TestGolden(t *testing.T) {
	d := generated(t, Config{Seed: 42})
	a, b := d.Clients[0].Days[0], d.Clients[18].Days[402]
	got := []float64{a.LMP[0], a.LMP[18], a.Weather.TempMean, a.Weather.Wind, b.LMP[3], b.LMP[23], b.Weather.SolarMax, b.Weather.Humidity}
	for i, want := range golden {
		if !near(got[i], want, 1e-6) {
			t.Errorf("number %d is %v, want %v (all: %v)", i, got[i], want, got)
		}
	}
}

var golden = [...]float64{73.87666, 122.33946, 4.1875, 24.995833333333326, 39.6884, 37.72189, 526, 50.166666666666664}

// statistics of hourly prices.
type statistics struct {
	mean, deviation float64
	negative        float64        // share of hours below zero
	peak            float64        // mean of 17:00 to 20:00 over that of 1:00 to 4:00
	winterMorning   float64        // 7:00 over 13:00 in January
	summer          float64        // 17:00 over 4:00 in July
	weekend         float64        // Saturday and Sunday over the other days
	persistence     float64        // correlation of daily means of neighbouring days
	shape           [Hours]float64 // by hour
	month           [13][Hours]float64
}

// priceStatistics summarises 24 prices a day, by date.
func priceStatistics(days map[Date][Hours]float64) statistics {
	var s statistics
	var n, end, ends float64
	var dates []Date
	daily := map[Date]float64{}
	for date := range days {
		dates = append(dates, date)
	}
	slices.Sort(dates)
	for _, date := range dates {
		month, err := strconv.Atoi(date.String()[5:7])
		if err != nil {
			panic(err)
		}
		for h, p := range days[date] {
			n++
			s.mean += p
			s.deviation += p * p
			daily[date] += p / Hours
			s.shape[h] += p / float64(len(dates))
			s.month[month][h] += p
			if p < 0 {
				s.negative++
			}
			if date.Weekday() >= 5 {
				end += p
				ends++
			}
		}
	}
	total := s.mean
	s.mean /= n
	s.deviation = math.Sqrt(s.deviation/n - s.mean*s.mean)
	s.negative /= n
	mean := func(v [Hours]float64, from, to int) float64 {
		sum := 0.0
		for _, x := range v[from : to+1] {
			sum += x
		}
		return sum / float64(to+1-from)
	}
	s.peak = mean(s.shape, 17, 20) / mean(s.shape, 1, 4)
	s.winterMorning = s.month[1][7] / s.month[1][13]
	s.summer = s.month[7][17] / s.month[7][4]
	s.weekend = end / ends / ((total - end) / (n - ends))
	var sum, square, cross float64
	for i, date := range dates {
		x := daily[date] - s.mean
		sum += x
		square += x * x
		if i > 0 {
			cross += x * (daily[dates[i-1]] - s.mean)
		}
	}
	s.persistence = cross / square
	return s
}

// TestPricesLookLikePJM compares the generated prices, the mean over zones,
// with a whole year of day-ahead prices of PJM: level, spread, shapes of the
// day in winter, spring and summer, weekends and persistence. The bounds are
// wide, because years differ as much as seeds; they exclude prices that are
// flat, have their peaks at the wrong time or no season.
func TestPricesLookLikePJM(t *testing.T) {
	f, err := os.Open(realData(t, "pjm/pjm_rto_da_hrl_lmps_2025.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	actual := map[Date][Hours]float64{}
	for _, r := range records[1:] {
		at, err := time.Parse("1/2/2006 3:04:05 PM", r[1])
		if err != nil {
			t.Fatal(err)
		}
		date, err := ParseDate(at.Format(time.DateOnly))
		if err != nil {
			t.Fatal(err)
		}
		day := actual[date]
		if day[at.Hour()], err = strconv.ParseFloat(r[9], 64); err != nil {
			t.Fatal(err)
		}
		actual[date] = day
	}
	for date := range actual {
		if date.Hours() != 24 {
			delete(actual, date)
		}
	}
	want := priceStatistics(actual)
	for seed := range int64(3) {
		prices := map[Date][Hours]float64{}
		d := generated(t, Config{Seed: seed, Days: 364})
		for _, c := range d.Clients {
			for _, day := range c.Days {
				sum := prices[day.Date]
				for h, p := range day.LMP {
					sum[h] += p / float64(len(d.Clients))
				}
				prices[day.Date] = sum
			}
		}
		got := priceStatistics(prices)
		for _, c := range []struct {
			what      string
			got, want float64
			lo, hi    float64 // of got / want
		}{
			{"mean", got.mean, want.mean, 0.7, 1.4},
			{"standard deviation", got.deviation, want.deviation, 0.6, 1.4},
			{"evening peak over night", got.peak, want.peak, 0.7, 1.4},
			{"morning over noon in January", got.winterMorning, want.winterMorning, 0.7, 1.4},
			{"evening over night in July", got.summer, want.summer, 0.4, 1.5},
			{"weekend over working day", got.weekend, want.weekend, 0.8, 1.2},
		} {
			t.Logf("seed %d: %s %.3g, real %.3g", seed, c.what, c.got, c.want)
			if r := c.got / c.want; !(r >= c.lo && r <= c.hi) {
				t.Errorf("seed %d: %s %.3g, real %.3g", seed, c.what, c.got, c.want)
			}
		}
		if got.persistence < 0.4 || want.persistence < 0.4 {
			t.Errorf("seed %d: persistence %.2f, real %.2f", seed, got.persistence, want.persistence)
		}
	}
}

// TestZonesLookLikePJM compares how zones differ with five winter days of the
// published table: the spread between zones grows with the price, and the east
// is dearer than the west.
func TestZonesLookLikePJM(t *testing.T) {
	excerpt, err := Load(realData(t, "pjm/rspo_pjm_data_excerpt.csv"), Config{})
	if err != nil {
		t.Fatal(err)
	}
	spread := func(d *Dataset, days int) (overall, correlation float64) {
		var s, p []float64
		for i := range days {
			for h := range Hours {
				square, price := 0.0, 0.0
				for _, c := range d.Clients {
					square += c.Days[i].Congestion[h] * c.Days[i].Congestion[h] / 19
					price += c.Days[i].LMP[h] / 19
				}
				s, p = append(s, math.Sqrt(square)), append(p, price)
			}
		}
		return mean(s), correlate(s, p)
	}
	want, wantGrowth := spread(excerpt, 5)
	got, gotGrowth := spread(generated(t, Config{}), 59) // two winter months
	t.Logf("spread between zones %.1f $/MWh, real %.1f; correlation with the price %.2f, real %.2f", got, want, gotGrowth, wantGrowth)
	if got < want/3 || got > want*3 || gotGrowth < 0.3 || wantGrowth < 0.3 {
		t.Errorf("spread %.1f, real %.1f; correlation with the price %.2f, real %.2f", got, want, gotGrowth, wantGrowth)
	}
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

func correlate(a, b []float64) float64 {
	ma, mb := mean(a), mean(b)
	var ab, aa, bb float64
	for i := range a {
		ab += (a[i] - ma) * (b[i] - mb)
		aa += (a[i] - ma) * (a[i] - ma)
		bb += (b[i] - mb) * (b[i] - mb)
	}
	return ab / math.Sqrt(aa*bb)
}

// TestGeneratedIsWorthPredicting: in generated data some hours are negative,
// clients differ, and it matters for the decision what one knows: constant
// prices do worse than the mean of the training days, another client's mean
// does worse than the own, and all of them, yesterday's prices too, leave a
// regret that is a good part of the cost.
func TestGeneratedIsWorthPredicting(t *testing.T) {
	for _, seed := range []int64{0, 42} {
		d := generated(t, Config{Seed: seed})
		negative, hours := 0, 0
		for _, c := range d.Clients {
			for _, day := range c.Days {
				for _, p := range day.LMP {
					hours++
					if p < 0 {
						negative++
					}
				}
			}
		}
		if share := float64(negative) / float64(hours); share < 0.0005 || share > 0.05 {
			t.Errorf("seed %d: %.4f of the hours are negative", seed, share)
		}
		k := buildTask(t, d)
		var constant, average, yesterday, optimum float64
		var foreign float64 // with the average prices of the opposite client
		for j, c := range k.Clients {
			linear := c.Polytope.NewLinear()
			decide := func(theta, cost []float64) float64 {
				w := make([]float64, Hours)
				if _, err := linear.Solve(w, theta); err != nil {
					t.Fatal(err)
				}
				sum := 0.0
				for h := range w {
					sum += w[h] * cost[h]
				}
				return sum
			}
			averages := func(j int) []float64 {
				out := make([]float64, Hours)
				for i := range k.Clients[j].Train.Len() {
					for h, x := range k.Clients[j].Train.C.Row(i) {
						out[h] += x
					}
				}
				return out
			}
			own, other := averages(j), averages(len(k.Clients)-1-j)
			n := float64(c.Test.Len()-1) * float64(len(k.Clients))
			for i := 1; i < c.Test.Len(); i++ {
				cost := c.Test.C.Row(i)
				best := decide(cost, cost)
				optimum += best / n
				constant += (decide(make([]float64, Hours), cost) - best) / n
				average += (decide(own, cost) - best) / n
				foreign += (decide(other, cost) - best) / n
				yesterday += (decide(c.Test.C.Row(i-1), cost) - best) / n
			}
		}
		t.Logf("seed %d: optimum $%.0f; regret of constant prices $%.1f, average $%.1f, another client's average $%.1f, yesterday's $%.1f", seed, optimum, constant, average, foreign, yesterday)
		if !(constant > 1.5*average && average > 0.04*optimum && yesterday > 0.04*optimum && foreign > 1.05*average) {
			t.Errorf("seed %d: optimum $%.0f; regret of constant prices $%.1f, average $%.1f, another client's average $%.1f, yesterday's $%.1f", seed, optimum, constant, average, foreign, yesterday)
		}
	}
}
