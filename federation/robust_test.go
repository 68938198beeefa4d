package federation

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"
)

// robustRules are the rules that bear f adversarial updates among n, as far as
// they are defined.
func robustRules(n, f, workers int) []Aggregator {
	var rules []Aggregator
	for _, a := range []Aggregator{
		Median{workers}, TrimmedMean{f, workers}, Krum{f, workers}, MultiKrum{f, 0, workers}, MultiKrum{f, 2, workers},
	} {
		if n >= a.Quorum() && 2*f < n {
			rules = append(rules, a)
		}
	}
	return rules
}

// contributions returns n updates of p parameters around a common vector.
func contributions(r *rand.Rand, n, p int) []Contribution {
	center := randomVector(r, p)
	updates := make([]Contribution, n)
	for j := range updates {
		v := slices.Clone(center)
		for k := range v {
			v[k] += r.NormFloat64()
		}
		updates[j] = Contribution{Client: 3 * j, Weight: float64(1 + r.IntN(50)), Params: v}
	}
	return updates
}

func aggregate(t testing.TB, a Aggregator, updates []Contribution) []float64 {
	t.Helper()
	p := len(updates[0].Params)
	dst := make([]float64, p)
	for k := range dst {
		dst[k] = math.NaN() // dst has unspecified content
	}
	if err := a.Aggregate(dst, make([]float64, p), updates); err != nil {
		t.Fatalf("%s: %v", a.Name(), err)
	}
	return dst
}

// exactMean is the mean in 300-bit arithmetic.
func exactMean(v []float64) float64 {
	sum := new(big.Float).SetPrec(300)
	for _, x := range v {
		sum.Add(sum, new(big.Float).SetPrec(300).SetFloat64(x))
	}
	mean, _ := sum.Quo(sum, new(big.Float).SetPrec(300).SetInt64(int64(len(v)))).Float64()
	return mean
}

// slowColumns sorts every coordinate and averages all but the trim smallest and
// largest.
func slowColumns(updates []Contribution, trim func(n int) int) []float64 {
	out := make([]float64, len(updates[0].Params))
	for k := range out {
		var column []float64
		for _, u := range updates {
			column = append(column, u.Params[k])
		}
		slices.Sort(column)
		b := trim(len(column))
		out[k] = exactMean(column[b : len(column)-b])
	}
	return out
}

// slowKrum follows Blanchard et al. 2017, section 4, word by word.
func slowKrum(updates []Contribution, f, m int) []float64 {
	n := len(updates)
	type scored struct {
		score float64
		i     int
	}
	var all []scored
	for i, u := range updates {
		var d []float64
		for j, v := range updates {
			if i == j {
				continue
			}
			sum := 0.0
			for k := range u.Params {
				sum += (u.Params[k] - v.Params[k]) * (u.Params[k] - v.Params[k])
			}
			d = append(d, sum)
		}
		slices.Sort(d)
		s := scored{0, i}
		for _, x := range d[:n-f-2] {
			s.score += x
		}
		all = append(all, s)
	}
	slices.SortStableFunc(all, func(a, b scored) int { return cmp.Compare(a.score, b.score) })
	out := make([]float64, len(updates[0].Params))
	for k := range out {
		var column []float64
		for _, s := range all[:m] {
			column = append(column, updates[s.i].Params[k])
		}
		out[k] = exactMean(column)
	}
	return out
}

// TestRobustRulesAgainstTwins compares every rule with its definition.
func TestRobustRulesAgainstTwins(t *testing.T) {
	r := rand.New(rand.NewPCG(21, 22))
	for range 100 {
		n, p := 1+r.IntN(40), 1+r.IntN(150)
		if r.IntN(10) == 0 {
			n = 60 + r.IntN(200) // long enough to be selected, not sorted
		}
		f := 1 + r.IntN(max(1, (n-1)/2))
		updates := contributions(r, n, p)
		for _, a := range robustRules(n, f, 0) {
			var want []float64
			switch a := a.(type) {
			case Median:
				want = slowColumns(updates, func(n int) int { return (n - 1) / 2 })
			case TrimmedMean:
				want = slowColumns(updates, func(int) int { return f })
			case Krum:
				want = slowKrum(updates, f, 1)
			case MultiKrum:
				m := a.Select
				if m == 0 {
					m = n - f - 2
				}
				want = slowKrum(updates, f, m)
			}
			got := aggregate(t, a, updates)
			size := 0.0
			for _, u := range updates {
				for _, x := range u.Params {
					size = max(size, math.Abs(x))
				}
			}
			for k := range got {
				// At most n differences and additions of numbers below 2 size.
				if tol := float64(n+4) * 0x1p-52 * size; !(math.Abs(got[k]-want[k]) <= tol) {
					t.Fatalf("%s of %d: coordinate %d is %v, want %v within %v", a.Name(), n, k, got[k], want[k], tol)
				}
			}
			if _, ok := a.(Krum); ok && !slices.Equal(got, want) {
				t.Fatalf("%s of %d: not one of the updates", a.Name(), n)
			}
		}
	}
}

// TestRobustRulesIgnoreTheOrder: which client sent which update does not
// matter, nor do the weights, nor the number of workers, bit for bit.
func TestRobustRulesIgnoreTheOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(23, 24))
	for range 60 {
		n, p := 5+r.IntN(60), 1+r.IntN(300)
		f := 1 + r.IntN((n-3)/2)
		updates := contributions(r, n, p)
		if r.IntN(2) == 0 { // ties and zeros of both signs
			for _, u := range updates {
				for k := range u.Params {
					u.Params[k] = float64(r.IntN(3)-1) * 0
				}
				u.Params[r.IntN(p)] = r.NormFloat64()
			}
		}
		shuffled := slices.Clone(updates)
		for i, j := range r.Perm(n) {
			shuffled[i].Params, shuffled[i].Weight = updates[j].Params, float64(1+r.IntN(9))
		}
		for i, a := range robustRules(n, f, 0) {
			want := aggregate(t, a, updates)
			for _, other := range []struct {
				what string
				got  []float64
			}{
				{"shuffled", aggregate(t, a, shuffled)},
				{"3 workers", aggregate(t, robustRules(n, f, 3)[i], updates)},
			} {
				for k := range want {
					if math.Float64bits(want[k]) != math.Float64bits(other.got[k]) {
						t.Fatalf("%s of %d, %s: coordinate %d is %v, not %v", a.Name(), n, other.what, k, other.got[k], want[k])
					}
				}
			}
		}
	}
}

// TestBreakdown: f adversarial updates of up to 1.7e308 do not move any
// coordinate beyond the range of the honest ones (Yin et al. 2018, section 4;
// Blanchard et al. 2017, proposition 1).
func TestBreakdown(t *testing.T) {
	r := rand.New(rand.NewPCG(25, 26))
	for range 100 {
		n, p := 5+r.IntN(40), 1+r.IntN(100)
		f := 1 + r.IntN((n-3)/2)
		updates := contributions(r, n, p)
		lo, hi := slices.Clone(updates[n-1].Params), slices.Clone(updates[n-1].Params)
		bad := r.Perm(n)[:f]
		for k := range p {
			lo[k], hi[k] = math.Inf(1), math.Inf(-1)
			for j, u := range updates {
				if !slices.Contains(bad, j) {
					lo[k], hi[k] = min(lo[k], u.Params[k]), max(hi[k], u.Params[k])
				}
			}
		}
		attack := randomVector(r, p)
		kind := r.IntN(3)
		for _, j := range bad {
			for k := range p {
				switch kind {
				case 0: // all at one place
					updates[j].Params[k] = math.Copysign(1e300, attack[k])
				case 1: // everywhere
					updates[j].Params[k] = r.NormFloat64() * 1e300
				case 2: // at the ends of the range of numbers
					updates[j].Params[k] = math.Copysign(1.7e308, r.NormFloat64())
				}
			}
		}
		for _, a := range robustRules(n, f, 0) {
			for k, x := range aggregate(t, a, updates) {
				// MultiKrum rounds a mean; the others return, or bound by, a value.
				slack := 0.0
				if _, ok := a.(MultiKrum); ok {
					slack = float64(n) * 0x1p-52 * max(math.Abs(lo[k]), math.Abs(hi[k]))
				}
				if !(x >= lo[k]-slack && x <= hi[k]+slack) {
					t.Fatalf("%s of %d, attack %d: coordinate %d is %v, the honest ones %v to %v", a.Name(), n, kind, k, x, lo[k], hi[k])
				}
			}
		}
		// The mean breaks: the attack is one that a test would notice.
		dst := make([]float64, p)
		if err := (FedAvg{}).Aggregate(dst, make([]float64, p), updates); err != nil || kind == 0 && math.Abs(dst[0]) < 1e290 {
			t.Fatalf("the mean bears the attack: %v, error %v", dst[0], err)
		}
	}
}

// TestKrumWithoutADistance: scores that are all infinite name no winner.
func TestKrumWithoutADistance(t *testing.T) {
	updates := make([]Contribution, 5)
	for j := range updates {
		updates[j] = Contribution{Client: j, Weight: 1, Params: []float64{float64(j) * 1e200}}
	}
	for _, a := range []Aggregator{Krum{1, 0}, MultiKrum{1, 0, 0}} {
		if err := a.Aggregate(make([]float64, 1), make([]float64, 1), updates); !errors.Is(err, ErrOverflow) {
			t.Errorf("%s: error %v, want %v", a.Name(), err, ErrOverflow)
		}
	}
}

// TestRobustConditions: the conditions on n and f of the articles.
func TestRobustConditions(t *testing.T) {
	for _, c := range []struct {
		rule   Aggregator
		quorum int
		name   string
	}{
		{Median{}, 1, "median"},
		{TrimmedMean{Byzantine: 3}, 7, "trimmed f=3"}, // 2f < n
		{Krum{Byzantine: 3}, 9, "krum f=3"},           // 2f+2 < n
		{MultiKrum{Byzantine: 3}, 9, "multikrum f=3"},
		{MultiKrum{Byzantine: 3, Select: 6}, 11, "multikrum f=3 m=6"}, // m <= n-f-2
	} {
		if c.rule.Quorum() != c.quorum || c.rule.Name() != c.name || c.rule.Validate() != nil {
			t.Errorf("%s: quorum %d, want %d; %v", c.rule.Name(), c.rule.Quorum(), c.quorum, c.rule.Validate())
		}
		r := rand.New(rand.NewPCG(27, 28))
		enough := contributions(r, c.quorum, 3)
		aggregate(t, c.rule, enough)
		if err := c.rule.Aggregate(make([]float64, 3), make([]float64, 3), enough[1:]); !errors.Is(err, ErrTooFewUpdates) {
			t.Errorf("%s of %d: error %v, want %v", c.name, c.quorum-1, err, ErrTooFewUpdates)
		}
	}
	for _, a := range []Aggregator{
		TrimmedMean{}, TrimmedMean{Byzantine: -1}, TrimmedMean{Byzantine: math.MaxInt}, Krum{}, Krum{Byzantine: -2}, MultiKrum{},
		MultiKrum{Byzantine: 1, Select: -1}, Median{Workers: -1}, Krum{1, -1}, MultiKrum{1, 1, -1}, TrimmedMean{1, -1},
	} {
		if err := a.Validate(); !errors.Is(err, ErrSettings) {
			t.Errorf("%+v: error %v, want %v", a, err, ErrSettings)
		}
		if _, err := New(Settings{}, a, uniformClients(20), []float64{1}); !errors.Is(err, ErrSettings) {
			t.Errorf("New with %+v: error %v, want %v", a, err, ErrSettings)
		}
	}
}

// TestKeysOrderNumbers: comparing keys compares numbers, and keys invert.
func TestKeysOrderNumbers(t *testing.T) {
	sorted := []float64{-math.MaxFloat64, -1, -math.SmallestNonzeroFloat64, math.Copysign(0, -1), 0, math.SmallestNonzeroFloat64, 1, math.MaxFloat64, math.Inf(1)}
	for i, x := range sorted {
		if math.Float64bits(keyValue(orderedKey(x))) != math.Float64bits(x) {
			t.Errorf("%v comes back as %v", x, keyValue(orderedKey(x)))
		}
		if i > 0 && orderedKey(x) <= orderedKey(sorted[i-1]) {
			t.Errorf("%v is not after %v", x, sorted[i-1])
		}
	}
}

// TestSelectKey compares with sorting, with many equal keys and in bad orders.
func TestSelectKey(t *testing.T) {
	r := rand.New(rand.NewPCG(29, 30))
	for range 400 {
		n := 1 + r.IntN(300)
		a := make([]int64, n)
		values := 1 + r.Int64N(int64(2*n))
		for i := range a {
			a[i] = r.Int64N(values)
		}
		switch r.IntN(3) {
		case 0:
			slices.Sort(a)
		case 1:
			slices.Sort(a)
			slices.Reverse(a)
		}
		want := slices.Clone(a)
		slices.Sort(want)
		k := r.IntN(n)
		selectKey(a, k)
		if a[k] != want[k] || k > 0 && slices.Max(a[:k]) > a[k] || slices.Min(a[k:]) < a[k] {
			t.Fatalf("n %d k %d: %v", n, k, a)
		}
		slices.Sort(a)
		if !slices.Equal(a, want) {
			t.Fatal("elements were lost")
		}
	}
}

func TestRobustRulesDoNotAllocate(t *testing.T) {
	if race {
		t.Skip("under the race detector pools forget at random")
	}
	r := rand.New(rand.NewPCG(31, 32))
	updates := contributions(r, 50, 300)
	dst, global := make([]float64, 300), make([]float64, 300)
	for _, a := range robustRules(50, 5, 0) {
		if n := testing.AllocsPerRun(20, func() {
			if err := a.Aggregate(dst, global, updates); err != nil {
				t.Fatal(err)
			}
		}); n >= 1 { // sync.Pool may lose a scratch to the garbage collector
			t.Errorf("%s allocates %v times", a.Name(), n)
		}
	}
}

// BenchmarkAggregate measures every rule on the two sizes that matter: the
// paper's ResNet with half of the Warcraft clients, and a small model with a
// thousand clients.
func BenchmarkAggregate(b *testing.B) {
	for _, size := range []struct{ p, n int }{{157_504, 22}, {5_000, 1_000}} {
		r := rand.New(rand.NewPCG(33, 34))
		updates := contributions(r, size.n, size.p)
		dst, global := make([]float64, size.p), make([]float64, size.p)
		f := (size.n - 3) / 4
		for _, workers := range []int{0, 2} {
			for _, a := range append([]Aggregator{FedAvg{}}, robustRules(size.n, f, workers)[:4]...) {
				if _, ok := a.(FedAvg); ok && workers > 0 {
					continue
				}
				b.Run(fmt.Sprintf("params=%d/clients=%d/rule=%.5s/workers=%d", size.p, size.n, a.Name(), workers), func(b *testing.B) {
					b.SetBytes(int64(size.n * size.p * 8))
					b.ReportAllocs()
					for b.Loop() {
						if err := a.Aggregate(dst, global, updates); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
	}
}
