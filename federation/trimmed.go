package federation

import (
	"fmt"
	"math"
	"slices"
)

// Median is the coordinate-wise median of the clients' models (Yin, Chen,
// Ramchandran and Bartlett 2018, option I of Algorithm 1), the mean of the two
// middle ones for an even number. Every client counts alike: n_j has no part in
// it, since a client could then buy influence with samples it does not have.
//
// Of n updates fewer than n/2 may be adversarial: every coordinate of the
// result then lies within the range of the honest ones.
type Median struct {
	// Workers is the number of goroutines; 0 means the caller alone, without
	// allocation. It never changes the result.
	Workers int
}

// Name returns "median".
func (Median) Name() string { return "median" }

// Validate implements [Aggregator].
func (a Median) Validate() error { return checkWorkers(a.Name(), a.Workers) }

// Quorum implements [Aggregator]: any update has a median.
func (Median) Quorum() int { return 1 }

// Aggregate implements [Aggregator]. The work is O(n log² n·P) up to 32 updates
// and O(n·P) on average beyond.
func (a Median) Aggregate(dst, global []float64, updates []Contribution) error {
	if len(updates) < a.Quorum() {
		return tooFew(a, updates)
	}
	aggregateColumns(dst, updates, (len(updates)-1)/2, a.Workers)
	return nil
}

// TrimmedMean is the coordinate-wise trimmed mean of the clients' models (Yin
// et al. 2018, option II of Algorithm 1): of every coordinate, the Byzantine
// smallest and the Byzantine largest values are left out, and the others are
// averaged. Every client counts alike, as in [Median]. Byzantine is βn in the
// notation of the article.
//
// It needs n >= 2f+1 updates, f = Byzantine; if at most f of them are
// adversarial, every coordinate of the result lies within the range of the
// honest ones.
type TrimmedMean struct {
	// Byzantine is f, the number of adversarial clients to bear, at least 1.
	Byzantine int
	// Workers is the number of goroutines; see [Median].
	Workers int
}

// Name returns "trimmed", with f.
func (a TrimmedMean) Name() string { return fmt.Sprintf("trimmed f=%d", a.Byzantine) }

// Validate implements [Aggregator].
func (a TrimmedMean) Validate() error {
	if err := checkByzantine(a.Name(), a.Byzantine); err != nil {
		return err
	}
	return checkWorkers(a.Name(), a.Workers)
}

// Quorum implements [Aggregator]: 2f+1.
func (a TrimmedMean) Quorum() int { return 2*a.Byzantine + 1 }

// Aggregate implements [Aggregator]. The work is that of [Median], and beyond 32
// updates O(k log k·P) for sorting the k = n-2f values that are averaged.
func (a TrimmedMean) Aggregate(dst, global []float64, updates []Contribution) error {
	if len(updates) < a.Quorum() {
		return tooFew(a, updates)
	}
	aggregateColumns(dst, updates, a.Byzantine, a.Workers)
	return nil
}

// maxByzantine keeps 2f+3 far from overflow.
const maxByzantine = 1 << 30

func checkByzantine(name string, f int) error {
	if f < 1 || f > maxByzantine {
		return fmt.Errorf("aggregator %s: %d adversarial clients, want at least 1: %w", name, f, ErrSettings)
	}
	return nil
}

func checkWorkers(name string, workers int) error {
	if workers < 0 {
		return fmt.Errorf("aggregator %s: %d workers, want 0 or more: %w", name, workers, ErrSettings)
	}
	return nil
}

// tooFew says that rule a is not defined for so few updates.
func tooFew(a Aggregator, updates []Contribution) error {
	return fmt.Errorf("%d updates, the rule %s needs %d: %w", len(updates), a.Name(), a.Quorum(), ErrTooFewUpdates)
}

// columnBlock is how many coordinates go together.
const columnBlock = 32

// networkMax is the largest number of updates that is sorted by a network: its
// comparisons cost no mispredicted branches, but grow as n log² n.
const networkMax = 32

// aggregateColumns writes to every coordinate of dst the mean of what remains
// of its values in updates without the trim smallest and the trim largest,
// len(updates) > 2 trim. The values are summed in ascending order, so that the
// result does not depend on which client sent which.
func aggregateColumns(dst []float64, updates []Contribution, trim, workers int) {
	blocks := (len(dst) + columnBlock - 1) / columnBlock
	if workers <= 1 {
		keys := scratchKeys(columnBlock * len(updates))
		for b := range blocks {
			columnsOf(dst, updates, trim, b, *keys)
		}
		keyPool.Put(keys)
		return
	}
	spread(workers, blocks, func(next func() (int, bool)) {
		keys := scratchKeys(columnBlock * len(updates))
		for b, ok := next(); ok; b, ok = next() {
			columnsOf(dst, updates, trim, b, *keys)
		}
		keyPool.Put(keys)
	})
}

// columnsOf does the coordinates of block b.
func columnsOf(dst []float64, updates []Contribution, trim, b int, keys []int64) {
	n := len(updates)
	lo := b * columnBlock
	dst = dst[lo:min(lo+columnBlock, len(dst))]
	if n <= networkMax {
		// A row of keys for each update; behind a short block, any keys.
		for j, u := range updates {
			row := keys[j*columnBlock:]
			for c, x := range u.Params[lo : lo+len(dst)] {
				row[c] = orderedKey(x)
			}
		}
		sortRows(keys, n)
		var column [networkMax]int64
		for c := range dst {
			for j := trim; j < n-trim; j++ {
				column[j] = keys[j*columnBlock+c]
			}
			dst[c] = sortedMean(column[trim : n-trim])
		}
		return
	}
	for j, u := range updates {
		for c, x := range u.Params[lo : lo+len(dst)] {
			keys[c*n+j] = orderedKey(x)
		}
	}
	for c := range dst {
		column := keys[c*n : (c+1)*n]
		if trim > 0 {
			selectKey(column, trim)
			column = column[trim:]
			selectKey(column, len(column)-trim-1)
			column = column[:len(column)-trim]
		}
		sortKeys(column)
		dst[c] = sortedMean(column)
	}
}

// sortRows sorts each of the columnBlock columns of a matrix of n rows by merge
// exchange (Batcher 1968; Knuth, The Art of Computer Programming, volume 3,
// section 5.2.2, Algorithm M).
func sortRows(keys []int64, n int) {
	top := 1
	for 2*top < n {
		top *= 2
	}
	for p := top; p > 0; p /= 2 {
		for q, r, d := top, 0, p; ; d, q, r = q-p, q/2, p {
			for i := range n - d {
				if i&p != r {
					continue
				}
				a := (*[columnBlock]int64)(keys[i*columnBlock:])
				b := (*[columnBlock]int64)(keys[(i+d)*columnBlock:])
				for c := range a {
					x, y := a[c], b[c]
					a[c], b[c] = min(x, y), max(x, y)
				}
			}
			if q == p {
				break
			}
		}
	}
}

// sortedMean returns the mean of the values with the given ascending keys.
func sortedMean(keys []int64) float64 {
	low, high := keyValue(keys[0]), keyValue(keys[len(keys)-1])
	// Around the least value, so that equal values give that value.
	sum := 0.0
	for _, k := range keys[1:] {
		sum += keyValue(k) - low
	}
	mean := low + sum/float64(len(keys))
	if mean > high && !math.IsInf(mean, 1) { // by rounding
		return high
	}
	return mean
}

// orderedKey maps a number to an integer of the same order, -0 before +0: ties
// and zeros then have one order, and comparisons are those of integers.
func orderedKey(x float64) int64 {
	b := int64(math.Float64bits(x))
	return b ^ int64(uint64(b>>63)>>1)
}

// keyValue inverts orderedKey.
func keyValue(k int64) float64 {
	return math.Float64frombits(uint64(k ^ int64(uint64(k>>63)>>1)))
}

// insertionMax is the longest slice that is sorted by insertion.
const insertionMax = 32

// sortKeys sorts ascending.
func sortKeys(a []int64) {
	if len(a) > insertionMax {
		slices.Sort(a)
		return
	}
	for i := 1; i < len(a); i++ {
		x, j := a[i], i
		for ; j > 0 && a[j-1] > x; j-- {
			a[j] = a[j-1]
		}
		a[j] = x
	}
}

// selectKey moves the element that sorting would put at k there, smaller ones
// before it and larger ones behind (Hoare 1961, Algorithm 65, with the median
// of three as pivot).
func selectKey(a []int64, k int) {
	for len(a) > insertionMax {
		m, last := len(a)/2, len(a)-1
		// a[0] <= a[m] <= a[last] afterwards: both scans stop.
		if a[m] < a[0] {
			a[m], a[0] = a[0], a[m]
		}
		if a[last] < a[m] {
			a[last], a[m] = a[m], a[last]
			if a[m] < a[0] {
				a[m], a[0] = a[0], a[m]
			}
		}
		pivot := a[m]
		i, j := 0, last
		for i <= j {
			for a[i] < pivot {
				i++
			}
			for a[j] > pivot {
				j--
			}
			if i <= j {
				a[i], a[j] = a[j], a[i]
				i++
				j--
			}
		}
		switch {
		case k <= j:
			a = a[:j+1]
		case k >= i:
			a = a[i:]
			k -= i
		default: // between the parts: equal to the pivot
			return
		}
	}
	sortKeys(a)
}
