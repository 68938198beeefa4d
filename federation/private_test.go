package federation

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"fedrspo/federation/privacy"
)

func private(fraction, clip, noise float64) Settings {
	return Settings{Seed: 3, Fraction: fraction, Clip: clip, Privacy: Privacy{Noise: noise, Delta: 1e-5}}
}

// TestPrivateSensitivity: whatever one client sends, the next model differs by
// at most S/m from the one without it, the noise being the same (McMahan et al.
// 2018, section 3: bounded sensitivity of the fixed-denominator estimator).
func TestPrivateSensitivity(t *testing.T) {
	r := rand.New(rand.NewPCG(51, 52))
	for range 40 {
		n, p, clip := 2+r.IntN(10), 1+r.IntN(1200), math.Exp(r.NormFloat64())
		model := make([]float64, p)
		good := make([][]float64, n)
		for j := range good {
			good[j] = randomVector(r, p)
		}
		attack := randomVector(r, p)
		for k := range attack {
			attack[k] *= []float64{1e-3, 1, 1e290}[r.IntN(3)]
		}
		next := func(first []float64) []float64 {
			s := newServer(t, private(0, clip, 0.7), uniformClients(n), model)
			begin(t, s)
			for j := range n {
				v := good[j]
				if j == 0 {
					v = first
				}
				if v != nil {
					submit(t, s, j, v)
				}
			}
			if _, err := s.Close(); err != nil {
				t.Fatal(err)
			}
			return s.Model()
		}
		without := next(model)
		if !slices.Equal(without, next(nil)) {
			t.Fatal("a zero change and no answer can be told apart")
		}
		norm := 0.0
		for k, x := range next(attack) {
			norm = math.Hypot(norm, x-without[k])
		}
		// Rounding: of every coordinate, a few times, numbers below 20 S/m.
		if limit := clip / float64(n); norm > limit*(1+1e-12*math.Sqrt(float64(p))) {
			t.Fatalf("%d clients, clip %v: one moves the model by %v, at most %v is allowed", n, clip, norm, limit)
		}
	}
}

// TestPrivateNoise: the noise on the model is N(0, (z S/m)²) in every
// coordinate, independent between coordinates and rounds, and the mean of
// clipped changes is under it. Mean and variance pass a test at 4 deviations.
func TestPrivateNoise(t *testing.T) {
	const p, m, clip, z = 20_000, 8, 0.5, 1.3
	s := newServer(t, private(m, clip, z), uniformClients(20), make([]float64, p))
	var last []float64
	for range 2 {
		before := s.Model()
		for _, id := range begin(t, s).Participants {
			v := slices.Clone(before)
			v[0] += 100 // clipped to clip
			submit(t, s, id, v)
		}
		report, err := s.Close()
		if err != nil || len(report.Clipped) != m {
			t.Fatalf("report %+v, error %v", report, err)
		}
		sd := z * clip / m
		noise := make([]float64, p)
		mean, square, cross := 0.0, 0.0, 0.0
		for k, x := range s.Model() {
			noise[k] = (x - before[k]) / sd
			if k == 0 {
				noise[0] -= clip / sd // eight times the clipped change over 8
			}
			mean += noise[k] / p
			square += noise[k] * noise[k] / p
			if last != nil {
				cross += noise[k] * last[k] / p
			}
			if k > 0 {
				cross += noise[k] * noise[k-1] / p
			}
		}
		if math.Abs(noise[0]) > 5 {
			t.Errorf("the first coordinate is off by %v deviations: the changes do not add up", noise[0])
		}
		if tol := 4 / math.Sqrt(p); math.Abs(mean) > tol || math.Abs(square-1) > tol*math.Sqrt2 || math.Abs(cross) > tol*math.Sqrt2 {
			t.Errorf("noise over its deviation: mean %v, square %v, correlation %v", mean, square, cross)
		}
		last = noise
	}
}

// TestPrivateRoundWithoutUpdates releases noise, and counts.
func TestPrivateRoundWithoutUpdates(t *testing.T) {
	s := newServer(t, private(0, 1, 1), uniformClients(3), []float64{1, 2})
	begin(t, s)
	report, err := s.Close()
	if err != nil || report.Outcome != Aggregated || report.Spent.Releases != 1 || s.Model()[0] == 1 {
		t.Errorf("report %+v, error %v, model %v", report, err, s.Model())
	}
	begin(t, s)
	if report := abandon(t, s); report.Spent.Releases != 1 {
		t.Errorf("an abandoned round, which releases nothing, spent: %+v", report.Spent)
	}
}

// TestSpent: the budget is that of the accountant for the share that is drawn,
// with over-selection; it grows with every release and survives in the state.
func TestSpent(t *testing.T) {
	settings := private(8, 1, 1.1)
	settings.OverSelect = 0.5
	s := newServer(t, settings, append(uniformClients(100), Client{ID: 200}), []float64{1, 2})
	if s.Spent() != (Spent{Delta: 1e-5}) {
		t.Errorf("spent at the start: %+v", s.Spent())
	}
	last := 0.0
	for round := range 5 {
		begin(t, s)
		report, err := s.Close()
		if err != nil {
			t.Fatal(err)
		}
		want, _ := privacy.ZeroOutCurve(0.12, 1.1, privacy.Orders()).Times(round + 1).Epsilon(1e-5)
		if report.Spent != (Spent{round + 1, want, 1e-5}) || s.Spent() != report.Spent || settings.SpentAfter(round+1, 100) != report.Spent || !(want > last) {
			t.Fatalf("round %d: spent %+v, want ε %v", round, report.Spent, want)
		}
		last = want
	}
	stored, err := json.Marshal(s.State())
	if err != nil {
		t.Fatal(err)
	}
	var state State
	if err := json.Unmarshal(stored, &state); err != nil {
		t.Fatal(err)
	}
	resumed, err := Resume(state, FedAvg{})
	if err != nil || !reflect.DeepEqual(resumed.Spent(), s.Spent()) {
		t.Errorf("resumed: spent %+v, error %v; before %+v", resumed.Spent(), err, s.Spent())
	}
	plain := newServer(t, Settings{}, uniformClients(2), []float64{1})
	if plain.Spent() != (Spent{}) || (Settings{}).SpentAfter(3, 4) != (Spent{}) {
		t.Error("a round without privacy spends")
	}
}
