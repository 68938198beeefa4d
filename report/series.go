package report

import (
	"math"
	"slices"

	"fedrspo/run"
)

// curve is a number over the rounds of a stage: mean, least and greatest over
// seeds. Rounds without the number hold NaN.
type curve struct{ mean, lo, hi []float64 }

// curve takes a number of a method's metrics in a stage. In stages of clients it
// is the mean over clients in each seed; a client that stopped early keeps its
// last number, as it keeps its model. pick returns NaN where there is none.
func (p *Page) curve(loss, stage string, pick func(run.Metric) float64) curve {
	type visit struct {
		seed   int64
		client int
	}
	var order []visit
	numbers := map[visit][]float64{}
	perClient, rounds := false, 0
	for _, m := range p.Metrics {
		if m.Loss != loss || m.Stage != stage {
			continue
		}
		v := visit{seed: m.Seed, client: -1}
		if m.Client != nil {
			v.client, perClient = *m.Client, true
		}
		s, ok := numbers[v]
		if !ok {
			order = append(order, v)
		}
		for len(s) <= m.Round {
			s = append(s, math.NaN())
		}
		s[m.Round] = pick(m)
		numbers[v], rounds = s, max(rounds, m.Round+1)
	}
	var seeds []int64
	for _, v := range order {
		if !slices.Contains(seeds, v.seed) {
			seeds = append(seeds, v.seed)
		}
	}
	c := curve{mean: make([]float64, rounds), lo: make([]float64, rounds), hi: make([]float64, rounds)}
	for round := range rounds {
		var overSeeds []float64
		for _, seed := range seeds {
			sum, n := 0.0, 0
			for _, v := range order {
				s := numbers[v]
				at := round
				if perClient {
					at = min(round, len(s)-1)
				}
				if v.seed == seed && at < len(s) && !math.IsNaN(s[at]) {
					sum += s[at]
					n++
				}
			}
			if n > 0 {
				overSeeds = append(overSeeds, sum/float64(n))
			}
		}
		c.mean[round], c.lo[round], c.hi[round] = summary(overSeeds)
	}
	return c
}

// frozen is the share, in percent, of clients whose schedule had frozen after
// each of a stage's rounds, over the seeds' results; empty where no client has
// a freeze statistic.
func (p *Page) frozen(r run.Result, s Stage, rounds int) curve {
	c := curve{mean: make([]float64, rounds), lo: make([]float64, rounds), hi: make([]float64, rounds)}
	for round := range rounds {
		var overSeeds []float64
		for _, seed := range r.Seeds {
			stage := s.of(seed)
			if stage == nil {
				continue
			}
			monitored, frozen := 0, 0
			for _, client := range stage.Clients {
				if client.Freeze != nil || client.FrozenAfter != nil {
					monitored++
				}
				if client.FrozenAfter != nil && *client.FrozenAfter <= round {
					frozen++
				}
			}
			if monitored > 0 {
				overSeeds = append(overSeeds, 100*float64(frozen)/float64(len(stage.Clients)))
			}
		}
		c.mean[round], c.lo[round], c.hi[round] = summary(overSeeds)
	}
	return c
}

// summary is the mean, the least and the greatest of v, NaN of none.
func summary(v []float64) (mean, lo, hi float64) {
	if len(v) == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	mean, _ = run.MeanStd(v)
	return mean, slices.Min(v), slices.Max(v)
}
