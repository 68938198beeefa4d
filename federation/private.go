package federation

import (
	"fmt"

	"fedrspo/federation/privacy"
	"fedrspo/internal/stream"
)

// Privacy makes the rounds differentially private at the level of clients
// (McMahan, Ramage, Talwar and Zhang 2018): every change is clipped to the norm
// S = Settings.Clip, and the model moves by
//
//	(Σ_j (θ_j - θ) + N(0, (z S)² I)) / m
//
// over the accepted updates. Every client counts alike, since n_j is its secret
// too, and m is the fixed RoundSize, however many updates came: neither may tell
// who took part. For the same reason a round closes without any update, and
// moves the model by noise alone.
//
// What is guaranteed, [Server.Spent]: an observer of all models the rounds
// produce learns about as little as if a client had sent a zero change whenever
// it was drawn (zero-out adjacency; package privacy). Participants are a sample
// of fixed size without replacement, and the accounting is for that.
//
// The guarantee presumes that the seed is secret, since participants and noise
// follow from it, and is about real numbers: what the rounding of sums and of
// noise gives away is not counted (Mironov 2012). An update's arrival, size and
// failure to arrive are taken to be independent of the client's data. A state
// that is resumed must not be closed again with other updates after its model
// was handed out: the noise would be the same.
type Privacy struct {
	// Noise is z, the standard deviation of the noise over S; 0 means no
	// privacy.
	Noise float64
	// Delta is the δ at which the spent ε is reported, in (0, 1); customarily
	// far below one over the number of clients.
	Delta float64
}

// Spent is a privacy budget that was used up.
type Spent struct {
	// Releases is the number of models that were made from clients' updates.
	Releases int `json:"releases"`
	// Epsilon and Delta are ε and δ of all releases together.
	Epsilon float64 `json:"epsilon"`
	Delta   float64 `json:"delta"`
}

func (p Privacy) enabled() bool { return p.Noise != 0 }

// noise multipliers that are accepted: beyond them ε overflows, or the model.
const (
	leastNoise = 1e-3
	mostNoise  = 1e6
)

func (s Settings) validatePrivacy() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("privacy: %s: %w", fmt.Sprintf(format, args...), ErrSettings)
	}
	p := s.Privacy
	switch {
	case !p.enabled() && p.Delta != 0:
		return bad("delta %v without noise has no effect", p.Delta)
	case !p.enabled():
		return nil
	case !(p.Noise >= leastNoise && p.Noise <= mostNoise):
		return bad("noise multiplier %v, want %v to %v", p.Noise, leastNoise, mostNoise)
	case !(p.Delta > 0 && p.Delta < 1):
		return bad("delta %v, want a number in (0, 1)", p.Delta)
	case s.Clip == 0:
		return bad("noise needs a clipping norm")
	case s.MinUpdates != 0:
		return bad("a least number of updates would tell who took part: %d, want 0", s.MinUpdates)
	}
	return nil
}

// curve returns the RDP of one private round of n clients with training data.
func (s Settings) curve(n int) privacy.Curve {
	q := float64(s.drawn(n)) / float64(n)
	return privacy.ZeroOutCurve(q, s.Privacy.Noise, privacy.Orders())
}

// SpentAfter returns the budget that a number of private rounds of n clients
// with training data uses up; the zero value without privacy. The settings must
// be valid.
func (s Settings) SpentAfter(releases, n int) Spent {
	if !s.Privacy.enabled() {
		return Spent{}
	}
	return s.spent(s.curve(n), releases)
}

func (s Settings) spent(curve privacy.Curve, releases int) Spent {
	epsilon, _ := curve.Times(releases).Epsilon(s.Privacy.Delta)
	return Spent{Releases: releases, Epsilon: epsilon, Delta: s.Privacy.Delta}
}

// Spent returns the privacy budget that the rounds so far used up; the zero
// value without privacy.
func (s *Server) Spent() Spent {
	st := &s.state
	if !st.Settings.Privacy.enabled() {
		return Spent{}
	}
	if s.curve.RDP == nil {
		s.curve = st.Settings.curve(withData(st.Clients))
	}
	return st.Settings.spent(s.curve, st.Releases)
}

// noiseBlock is how many coordinates share a stream of noise.
const noiseBlock = 512

// aggregatePrivately writes the next model, by the formula of Privacy, to dst.
// Changes are summed in ascending client ID.
func (s *State) aggregatePrivately(dst []float64, updates []Contribution) {
	clear(dst)
	for _, u := range updates {
		for k, x := range u.Params {
			dst[k] += x - s.Model[k]
		}
	}
	noise := stream.NewFamily(stream.Key{Seed: s.Settings.Seed, Purpose: "privacy noise", Round: s.Round, Epoch: s.Attempt})
	r := stream.NewStream()
	sd, m := s.Settings.Privacy.Noise*s.Settings.Clip, float64(s.target())
	for lo := 0; lo < len(dst); lo += noiseBlock {
		noise.Open(r, lo/noiseBlock)
		for k := lo; k < min(lo+noiseBlock, len(dst)); k++ {
			dst[k] = s.Model[k] + (dst[k]+float64(sd*r.NormFloat64()))/m
		}
	}
}
