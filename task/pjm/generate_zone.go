package pjm

import (
	"math"
	"math/rand/v2"
)

// dayHours is the weather of a date by the hour of the day.
type dayHours struct {
	temp, solar [Hours]float64 // °C, W/m²
}

// hourlyWeather returns the weather of a place: local is its departure from the
// grid's temperature in °C, cloud a standard normal number.
func hourlyWeather(z Zone, d *gridDay, local, cloud float64) *dayHours {
	w := &dayHours{}
	// Half of the place's days are at least half covered.
	cover := 1 / (1 + math.Exp(-1.6*cloud))
	mean := 12.5 - float64(0.9*(z.Latitude-40)) - float64(13*season(d.date, 22)) + d.warm + local
	swing := 3 + float64(2.6*(1-cover))
	// The sun: declination and hour angle (Cooper, 1969), irradiance under a clear
	// sky (Haurwitz, 1945). Clocks are an hour ahead in summer.
	latitude := z.Latitude * math.Pi / 180
	declination := -23.45 * math.Pi / 180 * season(d.date, -10)
	noon := 12.2 + (-75-z.Longitude)/15
	if d.date.summer() {
		noon++
	}
	for h := range Hours {
		middle := float64(h) + 0.5
		w.temp[h] = mean + float64(swing*math.Cos(2*math.Pi*(middle-15.5)/24))
		angle := (middle - noon) * math.Pi / 12
		height := float64(math.Sin(latitude)*math.Sin(declination)) + float64(math.Cos(latitude)*math.Cos(declination)*math.Cos(angle))
		if height > 0.01 {
			w.solar[h] = 1098 * height * math.Exp(-0.059/height) * (1 - float64(0.78*cover*cover))
		}
	}
	return w
}

// zoneModel draws the days of a zone.
type zoneModel struct {
	Zone
	share       [limits]float64 // of a limit's shadow price in the zone's price
	loss        float64         // marginal losses, as a share of the energy price
	warm, cloud persistent
	gust        persistent
	noise       *rand.Rand
	air         *rand.Rand
}

func newZoneModel(cfg Config, z Zone) *zoneModel {
	at := func(name string, phi float64) persistent { return newPersistent(cfg.stream(name, z.ID), phi) }
	m := &zoneModel{
		Zone: z,
		warm: at("zone warm", 0.6), cloud: at("zone cloud", 0.2), gust: at("zone wind", 0.3),
		noise: cfg.stream("zone hours", z.ID), air: cfg.stream("zone air", z.ID),
	}
	// The east is behind the first limit, the other ends of the others are where
	// their names say.
	east := (z.Longitude + 79.5) / 4.5
	m.share[westEast] = float64(0.55*math.Tanh(east)) + float64(0.15*bell(z.Latitude, 41, 0.5)*math.Tanh(max(0, east)))
	distance := math.Hypot(z.Latitude-38.6, (z.Longitude+77)/1.3)
	m.share[washington] = float64(0.9*bell(distance, 0, 0.9)) - 0.15
	m.share[coast] = 0.08 - float64(0.5*bell(z.Longitude, -74.6, 0.9)*bell(z.Latitude, 39.5, 0.6))
	m.share[windyWest] = 0.05 - float64(1.1*bell(z.Longitude, -87.6, 2.2)) - float64(0.25*bell(z.Longitude, -83.5, 1.5))
	m.loss = 0.012 * math.Tanh(east)
	return m
}

// next draws the zone's day.
func (m *zoneModel) next(g *gridDay) Day {
	cloud := float64(0.8*g.cloud) + float64(0.6*m.cloud.next())
	// The west has its weather a day earlier, roughly, and so a different one.
	local := float64(1.8*m.warm.next()) + float64(0.06*g.warm*(m.Longitude-centre.Longitude)/5)
	w := hourlyWeather(m.Zone, g, local, cloud)
	gust := float64(0.75*g.wind) + float64(0.66*m.gust.next())
	day := Day{Date: g.date}
	noise := newPersistent(m.noise, 0.7)
	for h := range Hours {
		price := g.energy[h] * (1 + m.loss)
		for k, shadow := range g.shadow {
			price += float64(m.share[k] * shadow[h])
		}
		// The zone's own weather: heat and cold that the grid's centre does not have.
		strain := max(0, w.temp[h]-26) + float64(0.5*max(0, -4-w.temp[h]))
		price += float64(0.8*strain) + float64((0.8+float64(0.03*math.Abs(price)))*noise.next())
		day.LMP[h] = round(price, 1e5)
	}
	day.Weather = m.observe(w, gust, cloud)
	return day
}

// observe returns the day's weather columns of hourly values with the digits of
// Open-Meteo.
func (m *zoneModel) observe(w *dayHours, gust, cloud float64) DayWeather {
	var out DayWeather
	out.TempMin, out.TempMax = math.Inf(1), math.Inf(-1)
	damp := 64 + float64(11*cloud) + float64(5*m.air.NormFloat64())
	speed := 13.5 * math.Exp(float64(0.38*gust))
	for h := range Hours {
		swing := math.Cos(2 * math.Pi * (float64(h) - 15) / 24)
		t, s := round(w.temp[h]+float64(0.3*m.air.NormFloat64()), 10), round(w.solar[h], 1)
		out.TempMean += t
		out.TempMin, out.TempMax = min(out.TempMin, t), max(out.TempMax, t)
		out.Humidity += round(min(100, max(15, damp-float64(14*swing))), 1)
		out.Wind += round(speed*(1+float64(0.25*swing)), 10)
		out.SolarMean += s
		out.SolarMax = max(out.SolarMax, s)
	}
	for _, x := range []*float64{&out.TempMean, &out.Humidity, &out.Wind, &out.SolarMean} {
		*x /= Hours
	}
	return out
}

// round rounds x to multiples of 1/per.
func round(x, per float64) float64 { return math.Round(x*per) / per }
