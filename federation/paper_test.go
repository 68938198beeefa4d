package federation

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// Every test in this file restates a claim of the paper, or of the article the
// paper takes the rule from.

// TestParticipantsPerRound: the client fraction 0.4 gives 8 of 20 knapsack
// clients (paper, Table 7) and 8 of 19 PJM zones (Table 10), also with one
// zone left out (section C.4); 0.5 gives 22 of 44 Warcraft clients (Table 8).
func TestParticipantsPerRound(t *testing.T) {
	for _, c := range []struct {
		fraction float64
		n, want  int
	}{
		{0.4, 20, 8}, {0.4, 19, 8}, {0.4, 18, 8}, {0.5, 44, 22},
		{0, 20, 20}, {1, 20, 20}, // everybody
		{1e-12, 20, 1}, {0.4, 1, 1}, // never nobody
		{0.07, 100, 7}, {0.55, 100, 55}, // products that round up
		{8, 20, 8}, {20, 20, 20}, {21, 20, 20}, {1e300, 20, 20}, {2, 1, 1}, // absolute counts
		{0.4, 0, 0}, {8, 0, 0},
	} {
		if got := (Settings{Fraction: c.fraction}).RoundSize(c.n); got != c.want {
			t.Errorf("fraction %v of %d clients: %d take part, want %d", c.fraction, c.n, got, c.want)
		}
	}
}

// TestParticipantsHaveDataAndAscend: participants are distinct clients with
// training data, in ascending ID, and the model they get is the global one
// (paper, Table 1; McMahan et al. 2017, Algorithm 1).
func TestParticipantsHaveDataAndAscend(t *testing.T) {
	var clients []Client
	for id := range 30 {
		clients = append(clients, Client{ID: 3 * id, Weight: float64(id % 3)})
	}
	s := newServer(t, Settings{Seed: 1, Fraction: 0.4}, clients, []float64{1, 2})
	for round := range 50 {
		plan := begin(t, s)
		if plan.Round != round || len(plan.Participants) != 8 || !slices.Equal(plan.Model, []float64{1, 2}) {
			t.Fatalf("round %d: plan %+v", round, plan)
		}
		for k, id := range plan.Participants {
			if k > 0 && id <= plan.Participants[k-1] || id%3 != 0 || clients[id/3].Weight == 0 {
				t.Fatalf("round %d: participants %v", round, plan.Participants)
			}
		}
		abandon(t, s)
	}
}

// TestSamplingIsUniform: participants are chosen uniformly without replacement
// (McMahan et al. 2017, Algorithm 1: "random set of m clients"). Counts of
// every client and of every pair pass a chi-square test at the level 0.001.
func TestSamplingIsUniform(t *testing.T) {
	const rounds, n, m = 4000, 6, 2
	var single [n]float64
	var pair [n][n]float64
	for round := range rounds {
		p := participants(Settings{Seed: 7, Fraction: m}, uniformClients(n), round, 0)
		single[p[0]]++
		single[p[1]]++
		pair[p[0]][p[1]]++
	}
	chi1, chi2 := 0.0, 0.0
	for i := range n {
		// The counts have variance R p (1-p) and sum to R m; the factor makes
		// the statistic chi-square with n-1 degrees of freedom.
		p := float64(m) / n
		chi1 += math.Pow(single[i]-rounds*p, 2) / (rounds * p * (1 - p)) * (n - 1) / n
		for j := i + 1; j < n; j++ {
			const want = rounds / 15.0
			chi2 += math.Pow(pair[i][j]-want, 2) / want
		}
	}
	if chi1 > 20.5 { // 0.999 quantile, 5 degrees of freedom
		t.Errorf("clients chosen %v times: chi-square %.1f", single, chi1)
	}
	if chi2 > 36.1 { // 0.999 quantile, 14 degrees of freedom
		t.Errorf("pairs chosen %v times: chi-square %.1f", pair, chi2)
	}
}

// TestSamplingDependsOnSeedAndRound: rounds and seeds draw independently.
func TestSamplingDependsOnSeedAndRound(t *testing.T) {
	seen := map[string]int{}
	for seed := range int64(10) {
		for round := range 10 {
			seen[fmt.Sprint(participants(Settings{Seed: seed, Fraction: 0.4}, uniformClients(20), round, 0))]++
		}
	}
	// 125970 subsets of 8 out of 20: 100 draws repeat one with probability 4 %.
	if len(seen) < 99 {
		t.Errorf("100 draws gave only %d different sets", len(seen))
	}
}

// TestFedAvgWeighsBySamples: the aggregate is the mean of the clients' models
// weighted with n_j (paper, Table 1: FedAvg ∝ n_j).
func TestFedAvgWeighsBySamples(t *testing.T) {
	s := newServer(t, Settings{}, []Client{{1, 100}, {2, 300}, {3, 0}}, []float64{8, -8})
	begin(t, s)
	submit(t, s, 1, []float64{0, 4})
	submit(t, s, 2, []float64{16, -12})
	report, err := s.Close()
	if err != nil {
		t.Fatal(err)
	}
	// 8 + 1/4 (0-8) + 3/4 (16-8) = 12;  -8 + 1/4 (4+8) + 3/4 (-12+8) = -8.
	if want := []float64{12, -8}; !slices.Equal(s.Model(), want) {
		t.Errorf("model %v, want %v", s.Model(), want)
	}
	if report.Weight != 400 || !slices.Equal(report.Accepted, []int{1, 2}) || len(report.Missing) != 0 {
		t.Errorf("report %+v", report)
	}
}

// TestFedAvgAgainstExactArithmetic compares FedAvg with the formula of the
// paper (Table 1) in 300-bit arithmetic.
func TestFedAvgAgainstExactArithmetic(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	exact := func(x float64) *big.Float { return new(big.Float).SetPrec(300).SetFloat64(x) }
	for range 60 {
		m, p := 1+r.IntN(9), 1+r.IntN(3*fedAvgBlock/2)
		global := randomVector(r, p)
		updates := make([]Contribution, m)
		for j := range updates {
			updates[j] = Contribution{Client: j, Weight: float64(1 + r.IntN(200)), Params: randomVector(r, p)}
		}
		got := make([]float64, p)
		for k := range got {
			got[k] = math.NaN() // dst has unspecified content
		}
		if err := (FedAvg{}).Aggregate(got, global, updates); err != nil {
			t.Fatal(err)
		}
		for k := range got {
			total, sum, size := exact(0), exact(0), math.Abs(global[k])
			for _, u := range updates {
				total.Add(total, exact(u.Weight))
			}
			for _, u := range updates {
				d := exact(u.Params[k])
				d.Sub(d, exact(global[k])).Mul(d, exact(u.Weight))
				sum.Add(sum, d.Quo(d, total))
				size += math.Abs(u.Params[k] - global[k])
			}
			want, _ := sum.Add(sum, exact(global[k])).Float64()
			// Each of the m terms is rounded 3 times and added to a partial sum
			// that is below size: at most (m+4) roundings of at most 2^-53 size.
			if tol := float64(m+4) * 0x1p-53 * size; !(math.Abs(got[k]-want) <= tol) {
				t.Fatalf("m %d p %d: coordinate %d is %v, want %v within %v", m, p, k, got[k], want, tol)
			}
		}
	}
}

// TestNobodyAnswers: the sum over active clients is empty (paper, Table 1), so
// there is no average; the model stays, and the round can be retried.
func TestNobodyAnswers(t *testing.T) {
	s := newServer(t, Settings{}, uniformClients(3), []float64{1})
	begin(t, s)
	report, err := s.Close()
	if !errors.Is(err, ErrNoUpdates) || !slices.Equal(report.Missing, []int{0, 1, 2}) {
		t.Fatalf("report %+v, error %v", report, err)
	}
	if !slices.Equal(s.Model(), []float64{1}) {
		t.Fatalf("model %v after a failed round", s.Model())
	}
	submit(t, s, 1, []float64{5})
	if report, err = s.Close(); err != nil || !slices.Equal(report.Accepted, []int{1}) || !slices.Equal(s.Model(), []float64{5}) {
		t.Fatalf("retried: report %+v, error %v, model %v", report, err, s.Model())
	}
	if s.Round() != 1 {
		t.Errorf("next round is %d, want 1", s.Round())
	}
}
