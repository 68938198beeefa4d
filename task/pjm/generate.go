package pjm

import (
	"math"
	"math/rand/v2"

	"fedrspo/internal/stream"
)

// Generate draws a table like the published one: the zones and demands of the
// paper, weather with seasons, and prices that follow from it. It is a
// caricature of the market, in which the cheap hours depend on the day:
//
//   - Temperatures have a season, persist from day to day and are shared in part
//     between zones, by their place. Cloud, humidity and wind persist too.
//   - The load of each hour is a shape of the working day or the weekend, plus
//     heating below 15 °C and cooling above 18 °C at the hour's temperature. Solar
//     energy, by the irradiance, and wind are taken off it: cold nights are
//     expensive, sunny noons in spring and autumn cheap, hot afternoons the most
//     expensive of all.
//   - The energy price is convex in what is left, times a fuel price that is
//     higher in winter and persists. On some days of high load it spikes.
//   - Four limits of the grid bind on days of their own: from west to east with
//     the load, around Washington on hot afternoons, along the coast, and out of
//     the windy west, where prices fall below zero. Each raises the price at one
//     end and lowers it at the other. Losses and noise are the zone's own.
//
// Prices are rounded to 1e-5 $/MWh as in the published table, hourly weather to
// the digits of Open-Meteo. Days of 23 hours are left out. Congestion is the
// difference to the mean over the generated clients.
//
// The grid and each zone have random streams of their own, so that more clients
// or more days leave the prices that were there as they were. Equal
// configurations give equal bits on one platform; between processor types,
// exponentials may differ in their last digit, which a rounded price seldom
// shows.
//
// The error wraps ErrConfig.
func Generate(cfg Config) (*Dataset, error) {
	cfg, err := cfg.Resolve()
	if err != nil {
		return nil, err
	}
	start, err := ParseDate(cfg.Start)
	if err != nil {
		return nil, err
	}
	zones := Zones()
	d := &Dataset{Generator: &cfg}
	models := make([]*zoneModel, cfg.Clients)
	for k, z := range zones[:cfg.Clients] {
		if cfg.Demand > 0 {
			z.Demand = cfg.Demand
		}
		d.Clients = append(d.Clients, Client{ID: z.ID, Name: z.Name, Demand: z.Demand, Days: make([]Day, 0, cfg.Days)})
		models[k] = newZoneModel(cfg, z)
	}
	grid := newGridModel(cfg)
	for date, n := start, 0; n < cfg.Days; date++ {
		g := grid.next(date)
		for k, m := range models {
			if day := m.next(g); date.Hours() != Hours-1 {
				d.Clients[k].Days = append(d.Clients[k].Days, day)
			}
		}
		if date.Hours() != Hours-1 {
			n++
		}
	}
	d.setCongestion()
	return d, nil
}

// stream returns the random stream of one component of the data; id is the
// zone, or 0 for the grid.
func (c Config) stream(component string, id int) *rand.Rand {
	return stream.New(stream.Key{Seed: c.Seed, Purpose: "pjm/" + component, Client: id})
}

// persistent is an autoregressive process of order one with standard normal
// marginals: tomorrow keeps the share phi of today.
type persistent struct {
	r          *rand.Rand
	phi, value float64
}

func newPersistent(r *rand.Rand, phi float64) persistent {
	return persistent{r, phi, r.NormFloat64()}
}

// next returns the next value.
func (p *persistent) next() float64 {
	p.value = float64(p.phi*p.value) + float64(math.Sqrt(1-p.phi*p.phi)*p.r.NormFloat64())
	return p.value
}

// season returns 1 on the peak, a day counted from 1 January, and -1 half a year
// later: a cosine. Date 0 is a 1 January.
func season(d Date, peak float64) float64 {
	return math.Cos(2 * math.Pi * (float64(d) - peak) / 365.25)
}

// limit is a constraint of the grid.
type limit int

const (
	westEast limit = iota
	washington
	coast
	windyWest
	limits
)

// gridDay is what all zones share on a date.
type gridDay struct {
	date        Date
	warm        float64 // departure of the temperature from the season, °C
	cloud, wind float64 // standard normal
	energy      [Hours]float64
	shadow      [limits][Hours]float64 // shadow prices, $/MWh, not negative
}

// gridModel draws gridDays.
type gridModel struct {
	warm, cloud, wind, fuel, load persistent
	tight                         [limits]persistent
	hours, spikes                 *rand.Rand
}

func newGridModel(cfg Config) *gridModel {
	at := func(name string, phi float64) persistent { return newPersistent(cfg.stream(name, 0), phi) }
	g := &gridModel{
		warm: at("warm", 0.75), cloud: at("cloud", 0.3), wind: at("wind", 0.4), fuel: at("fuel", 0.95), load: at("load", 0.5),
		hours: cfg.stream("hours", 0), spikes: cfg.stream("spikes", 0),
	}
	for k, phi := range [limits]float64{0.6, 0.6, 0.5, 0.3} {
		g.tight[k] = at("limit "+string(rune('1'+k)), phi)
	}
	return g
}

// centre is the place whose weather drives the energy price.
var centre = Zone{Latitude: 40, Longitude: -78}

// next draws the next date.
func (g *gridModel) next(date Date) *gridDay {
	d := &gridDay{date: date, warm: 4.5 * g.warm.next(), cloud: g.cloud.next(), wind: g.wind.next()}
	fuel := math.Exp(float64(0.12*g.fuel.next()) + float64(0.14*season(date, 20)))
	extra := 0.025 * g.load.next()
	weather := hourlyWeather(centre, d, 0, d.cloud)
	weekend := date.Weekday() >= 5
	var rest [Hours]float64 // load that fuel must meet, 1 on a mild working day
	highest := 0.0
	noise := newPersistent(g.hours, 0.6)
	for h := range Hours {
		shape := workday[h]
		if weekend {
			shape = float64(0.92*shape) - float64(0.03*morning(h))
		}
		t := weather.temp[h]
		heating, cooling := max(0, 15-t), max(0, t-18)
		rest[h] = shape + extra + float64(0.0120*heating) + float64(0.0290*cooling) +
			float64(0.0010*heating*morning(h)) -
			float64(0.22*weather.solar[h]/800) - float64(0.025*(d.wind-1)) + float64(0.022*noise.next())
		highest = max(highest, rest[h])
	}
	// Scarce days, more of them the higher the load.
	spike := 0.0
	if chance := g.spikes.Float64(); chance < 0.02+float64(0.5*max(0, highest-1.25)) {
		spike = 1
	}
	size := 60 * g.spikes.ExpFloat64()
	for h := range Hours {
		x := rest[h]
		d.energy[h] = fuel * (13 + float64(21*math.Exp(float64(4.3*(x-1)))))
		if near := x - (highest - 0.08); spike > 0 && near > 0 {
			d.energy[h] += size * near / 0.08
		}
	}
	for k := range g.tight {
		level := g.tight[k].next()
		for h := range Hours {
			d.shadow[k][h] = max(0, shadowPrice(limit(k), level, h, rest[h], d, weather))
		}
	}
	return d
}

// shadowPrice returns what a limit would cost in an hour, in $/MWh; below zero
// it does not bind.
func shadowPrice(k limit, level float64, h int, rest float64, d *gridDay, w *dayHours) float64 {
	level += 0.6
	switch k {
	case westEast: // grows with the load
		return float64(5+float64(4*level)) + float64(170*max(0, rest-1)*max(0.2, level))
	case washington: // hot afternoons, and cold mornings
		return float64(4*max(0, w.temp[h]-24)*level) + float64(4*max(0, -2-w.temp[h])*level*morning(h)) + float64(9*level)
	case coast: // sun and wind that cannot leave in the light load of noon
		return float64(42*level*w.solar[h]/800) - float64(16*max(0, rest-1))
	default: // wind in the light load of the night
		return float64(16*(d.wind+level-1)) - float64(120*max(0, rest-0.92))
	}
}

// workday is the load of each hour of a mild working day, its mean 1.
var workday = [Hours]float64{
	0.91, 0.88, 0.86, 0.855, 0.87, 0.92, 1.00, 1.045, 1.04, 1.035, 1.03, 1.025,
	1.02, 1.015, 1.01, 1.015, 1.04, 1.09, 1.115, 1.12, 1.095, 1.05, 0.99, 0.94,
}

// morning is the shape of the rise in the morning, at most 1.
func morning(h int) float64 { return bell(float64(h), 7.2, 1.4) }

// bell is a Gaussian bell of height 1.
func bell(x, centre, width float64) float64 {
	z := (x - centre) / width
	return math.Exp(-z * z / 2)
}
