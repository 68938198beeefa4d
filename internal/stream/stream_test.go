package stream

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// goldenKeys differ from the first key in one field each.
var goldenKeys = []struct {
	key  Key
	want [3]uint64
}{
	{Key{Seed: 42, Purpose: "shuffle", Round: 1, Client: 2, Epoch: 3}, [3]uint64{0x9b216c13bdaaab11, 0xa36bea4571e90f52, 0x479ceeb21d867895}},
	{Key{Seed: -42, Purpose: "shuffle", Round: 1, Client: 2, Epoch: 3}, [3]uint64{0x93753ccced84faa3, 0x5ad34a1ce292e49c, 0xe6531b9b8368b75}},
	{Key{Seed: 42, Purpose: "init", Round: 1, Client: 2, Epoch: 3}, [3]uint64{0x4ede17380d60dd64, 0xf40fd98f03c507b5, 0xca95ee5f194f3ad4}},
	{Key{Seed: 42, Purpose: "shuffle", Round: 2, Client: 2, Epoch: 3}, [3]uint64{0xfdf04dd0d1ec0dca, 0x3d388804ec11eef4, 0xef80cc5c33f199b6}},
	{Key{Seed: 42, Purpose: "shuffle", Round: 1, Client: 3, Epoch: 3}, [3]uint64{0x8cb0bdb198fa48b2, 0x78c5b8549d79a1d8, 0xc05a6e508062191}},
	{Key{Seed: 42, Purpose: "shuffle", Round: 1, Client: 2, Epoch: 4}, [3]uint64{0xb0fc583d0d94874b, 0xd2f44b4763788494, 0xf94a978cc31811c1}},
	{Key{}, [3]uint64{0xd3c1edfdee49fb6c, 0xadf8596e1fab8587, 0x31aeed1ed3d9e087}},
}

// TestGolden pins the first numbers of some streams: results on record were
// made with them, so they must never change. The values come from an independent
// implementation in Python: concatenate seed, round, client and epoch as
// little-endian 64-bit words and the bytes of the purpose, take SHA-256; the
// first two little-endian words of the digest are the high and low half of the
// state s of PCG-DXSM with Go's constants,
//
//	s = s*(2549297995355413924<<64 | 4865540595714422341) +
//	     (6364136223846793005<<64 | 1442695040888963407)
//	h, l = s>>64, s & (1<<64 - 1)
//	h ^= h>>32;  h *= 0xda942042e4dd58b5;  h ^= h>>48;  h *= l|1
//
// with h the next number.
func TestGolden(t *testing.T) {
	for _, g := range goldenKeys {
		r := New(g.key)
		got := [3]uint64{r.Uint64(), r.Uint64(), r.Uint64()}
		if got != g.want {
			t.Errorf("%+v: got %#x, want %#x", g.key, got, g.want)
		}
	}
}

// TestSameKeySameNumbers: a stream is a function of its key; other streams and
// the kind of numbers drawn from them do not disturb it.
func TestSameKeySameNumbers(t *testing.T) {
	k := Key{Seed: 1, Purpose: "x"}
	a, b, source, other := New(k), New(k), Source(k), New(Key{Seed: 1, Purpose: "y"})
	for range 1000 {
		x := a.Uint64()
		other.NormFloat64()
		if y, z := b.Uint64(), source.Uint64(); x != y || x != z {
			t.Fatalf("one key gave %#x, %#x and %#x", x, y, z)
		}
	}
}

// TestEveryFieldMatters: keys that differ in one field, or that put the same
// number in different fields, start differently.
func TestEveryFieldMatters(t *testing.T) {
	var keys []Key
	for _, v := range []int{-1, 1, 2, 256, 1 << 40} {
		keys = append(keys,
			Key{Seed: int64(v)}, Key{Round: v}, Key{Client: v}, Key{Epoch: v},
			Key{Round: v, Client: v}, Key{Client: v, Epoch: v}, Key{Round: v, Epoch: v})
	}
	keys = append(keys, Key{}, Key{Purpose: "a"}, Key{Purpose: "b"}, Key{Purpose: "ab"}, Key{Purpose: "a\x00"}, Key{Purpose: "\x00"})
	seen := map[uint64]Key{}
	for _, k := range keys {
		x := New(k).Uint64()
		if other, ok := seen[x]; ok {
			t.Errorf("%+v and %+v start with the same number", k, other)
		}
		seen[x] = k
	}
}

// TestNeighbouringKeysAreUnrelated: the correlation between streams of
// neighbouring keys, and the mean and variance of first draws across keys, are
// those of independent uniform numbers within 4 standard deviations.
func TestNeighbouringKeysAreUnrelated(t *testing.T) {
	const n = 20_000
	neighbour := map[string]func(i int) Key{
		"seed":   func(i int) Key { return Key{Seed: int64(i)} },
		"round":  func(i int) Key { return Key{Round: i} },
		"client": func(i int) Key { return Key{Client: i} },
		"epoch":  func(i int) Key { return Key{Epoch: i} },
	}
	for name, key := range neighbour {
		sum, square, lag, last := 0.0, 0.0, 0.0, 0.0
		for i := range n {
			x := New(key(i)).Float64() - 0.5
			sum += x
			square += x * x
			lag += x * last
			last = x
		}
		// Var x = 1/12, Var x^2 = 1/180, Var of a product = 1/144.
		if z := sum / math.Sqrt(n/12.0); math.Abs(z) > 4 {
			t.Errorf("%s: the mean of first draws is %.1f standard deviations off", name, z)
		}
		if z := (square - n/12.0) / math.Sqrt(n/180.0); math.Abs(z) > 4 {
			t.Errorf("%s: the variance of first draws is %.1f standard deviations off", name, z)
		}
		if z := lag / math.Sqrt(n/144.0); math.Abs(z) > 4 {
			t.Errorf("%s: first draws of neighbours correlate, %.1f standard deviations", name, z)
		}
		a, b, cross := New(key(0)), New(key(1)), 0.0
		for range n {
			cross += (a.Float64() - 0.5) * (b.Float64() - 0.5)
		}
		if z := cross / math.Sqrt(n/144.0); math.Abs(z) > 4 {
			t.Errorf("%s: neighbouring streams correlate, %.1f standard deviations", name, z)
		}
	}
}

// TestPermute: every permutation of 4 elements is equally likely (chi-square
// with 23 degrees of freedom, level 0.001).
func TestPermute(t *testing.T) {
	const rounds = 24_000
	counts := map[[4]int]float64{}
	r := New(Key{Purpose: "permute"})
	dst := []int{9, 9, 9, 9}
	for range rounds {
		Permute(r, dst)
		counts[[4]int(dst)]++
	}
	chi := 0.0
	for perm, c := range counts {
		sorted := perm
		slices.Sort(sorted[:])
		if sorted != [4]int{0, 1, 2, 3} {
			t.Fatalf("%v is no permutation", perm)
		}
		chi += (c - rounds/24) * (c - rounds/24) / (rounds / 24)
	}
	if len(counts) != 24 || chi > 49.7 {
		t.Errorf("%d permutations, chi-square %.1f", len(counts), chi)
	}
	Permute(r, nil)
}

func TestPermuteDoesNotAllocate(t *testing.T) {
	r, dst := New(Key{}), make([]int, 100)
	if n := testing.AllocsPerRun(10, func() { Permute(r, dst) }); n != 0 {
		t.Errorf("Permute allocates %v times", n)
	}
}

// TestChoose: every ordered pair out of 5 is equally likely (chi-square with 19
// degrees of freedom, level 0.001), and the input is left alone.
func TestChoose(t *testing.T) {
	const rounds = 20_000
	from := []int{10, 20, 30, 40, 50}
	counts := map[[2]int]float64{}
	r := New(Key{Purpose: "choose"})
	for range rounds {
		counts[[2]int(Choose(r, from, 2))]++
	}
	chi := 0.0
	for pair, c := range counts {
		if pair[0] == pair[1] || !slices.Contains(from, pair[0]) || !slices.Contains(from, pair[1]) {
			t.Fatalf("chose %v from %v", pair, from)
		}
		chi += (c - rounds/20) * (c - rounds/20) / (rounds / 20)
	}
	if len(counts) != 20 || chi > 43.8 {
		t.Errorf("%d pairs, chi-square %.1f", len(counts), chi)
	}
	if !slices.Equal(from, []int{10, 20, 30, 40, 50}) {
		t.Errorf("Choose changed its input to %v", from)
	}
	all := Choose(r, from, 5)
	slices.Sort(all)
	if !slices.Equal(all, from) || len(Choose(r, from, 0)) != 0 {
		t.Errorf("choosing everything gave %v", all)
	}
	for _, k := range []int{-1, 6} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("choosing %d of 5 did not panic", k)
				}
			}()
			Choose(r, from, k)
		}()
	}
}

// TestFamily: the streams of a family repeat, differ from each other and from
// those of another family, whatever was open before, and opening allocates
// nothing.
func TestFamily(t *testing.T) {
	f, g := NewFamily(Key{Seed: 1, Purpose: "a"}), NewFamily(Key{Seed: 1, Purpose: "b"})
	s := NewStream()
	first := map[uint64]string{}
	for i := range 1000 {
		for name, fam := range map[string]Family{"f": f, "g": g} {
			fam.Open(s, i)
			a, b := s.Uint64(), s.Uint64()
			fam.Open(s, i+1)
			s.NormFloat64()
			fam.Open(s, i)
			if a != s.Uint64() || b != s.Uint64() {
				t.Fatalf("stream %s%d does not repeat", name, i)
			}
			if other, ok := first[a]; ok {
				t.Fatalf("streams %s%d and %s start alike", name, i, other)
			}
			first[a] = fmt.Sprint(name, i)
		}
	}
	// Draws of neighbouring streams are uncorrelated: the mean of the product of
	// n pairs of standard normals has deviation 1/√n.
	sum, n := 0.0, 100_000
	f.Open(s, 0)
	last := s.NormFloat64()
	for i := 1; i <= n; i++ {
		f.Open(s, i)
		x := s.NormFloat64()
		sum += x * last
		last = x
	}
	if c := sum / float64(n); math.Abs(c) > 5/math.Sqrt(float64(n)) {
		t.Errorf("correlation of neighbouring streams %v", c)
	}
	if a := testing.AllocsPerRun(100, func() { f.Open(s, 3) }); a != 0 {
		t.Errorf("Open allocates %v times", a)
	}
}
