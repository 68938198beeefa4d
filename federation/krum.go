package federation

import (
	"fmt"
	"math"
)

// Krum takes over the one update that is closest to its neighbours (Blanchard,
// El Mhamdi, Guerraoui and Stainer 2017): the score of client i is the sum of
// ‖θ_i - θ_j‖² over its n-f-2 nearest j ≠ i, and the lowest score wins, the
// lower client ID among equals. The result is that client's model, bit for bit.
//
// It needs n >= 2f+3 updates (their proposition 1: 2f+2 < n), f = Byzantine.
// Every client counts alike. The work is O(n²·P).
type Krum struct {
	// Byzantine is f, the number of adversarial clients to bear, at least 1.
	Byzantine int
	// Workers is the number of goroutines; see [Median].
	Workers int
}

// Name returns "krum", with f.
func (a Krum) Name() string { return fmt.Sprintf("krum f=%d", a.Byzantine) }

// Validate implements [Aggregator].
func (a Krum) Validate() error {
	if err := checkByzantine(a.Name(), a.Byzantine); err != nil {
		return err
	}
	return checkWorkers(a.Name(), a.Workers)
}

// Quorum implements [Aggregator]: 2f+3.
func (a Krum) Quorum() int { return 2*a.Byzantine + 3 }

// Aggregate implements [Aggregator]. It returns an error wrapping ErrOverflow
// if every score is infinite, so that none is lowest.
func (a Krum) Aggregate(dst, global []float64, updates []Contribution) error {
	if len(updates) < a.Quorum() {
		return tooFew(a, updates)
	}
	return aggregateKrum(dst, updates, a.Byzantine, 1, a.Workers)
}

// MultiKrum averages the Select updates of the lowest [Krum] scores (Blanchard
// et al. 2017, section 5).
//
// It needs n >= 2f+3 updates, and n >= Select+f+2, so that with f adversarial
// updates far away none of them is selected (El Mhamdi, Guerraoui and Rouault
// 2018). Every selected client counts alike.
type MultiKrum struct {
	// Byzantine is f, the number of adversarial clients to bear, at least 1.
	Byzantine int
	// Select is the number of updates that are averaged; 0 means as many as
	// the condition allows, n-f-2.
	Select int
	// Workers is the number of goroutines; see [Median].
	Workers int
}

// Name returns "multikrum", with f and the number selected.
func (a MultiKrum) Name() string {
	if a.Select == 0 {
		return fmt.Sprintf("multikrum f=%d", a.Byzantine)
	}
	return fmt.Sprintf("multikrum f=%d m=%d", a.Byzantine, a.Select)
}

// Validate implements [Aggregator].
func (a MultiKrum) Validate() error {
	if err := checkByzantine(a.Name(), a.Byzantine); err != nil {
		return err
	}
	if a.Select < 0 || a.Select > maxByzantine {
		return fmt.Errorf("aggregator %s: %d updates to select, want 0 or more: %w", a.Name(), a.Select, ErrSettings)
	}
	return checkWorkers(a.Name(), a.Workers)
}

// Quorum implements [Aggregator].
func (a MultiKrum) Quorum() int { return max(2*a.Byzantine+3, a.Select+a.Byzantine+2) }

// Aggregate implements [Aggregator]. It returns an error wrapping ErrOverflow
// if fewer scores than are to be selected are finite.
func (a MultiKrum) Aggregate(dst, global []float64, updates []Contribution) error {
	if len(updates) < a.Quorum() {
		return tooFew(a, updates)
	}
	m := a.Select
	if m == 0 {
		m = len(updates) - a.Byzantine - 2
	}
	return aggregateKrum(dst, updates, a.Byzantine, m, a.Workers)
}

// aggregateKrum writes to dst the mean of the m updates of the lowest scores,
// added up in ascending score, so that the result does not depend on which
// client sent which.
func aggregateKrum(dst []float64, updates []Contribution, f, m, workers int) error {
	n := len(updates)
	numbers := scratchNumbers(n*n + n)
	defer numberPool.Put(numbers)
	distances, scores := (*numbers)[:n*n], (*numbers)[n*n:]
	squaredDistances(distances, updates, workers)
	keys := scratchKeys(n)
	defer keyPool.Put(keys)
	for i := range scores {
		scores[i] = krumScore(distances[i*n:(i+1)*n], i, n-f-2, *keys)
	}
	clear(dst)
	first := dst
	for k := range m {
		best := 0
		for i, s := range scores {
			if s < scores[best] {
				best = i
			}
		}
		if math.IsInf(scores[best], 1) {
			return fmt.Errorf("krum: %d of %d scores are finite, %d are selected: %w", k, n, m, ErrOverflow)
		}
		scores[best] = math.Inf(1)
		// Around the first, so that equal updates give that update.
		if k == 0 {
			first = updates[best].Params
			continue
		}
		for c, x := range updates[best].Params {
			dst[c] += x - first[c]
		}
	}
	if m == 1 {
		copy(dst, first)
		return nil
	}
	for c, x := range first {
		dst[c] = x + dst[c]/float64(m)
	}
	return nil
}

// krumScore returns the sum of the count smallest of row but that at i, in
// ascending order.
func krumScore(row []float64, i, count int, keys []int64) float64 {
	keys = keys[:0]
	for j, d := range row {
		if j != i {
			keys = append(keys, orderedKey(d))
		}
	}
	if count < len(keys) {
		selectKey(keys, count)
	}
	keys = keys[:count]
	sortKeys(keys)
	sum := 0.0
	for _, k := range keys {
		sum += keyValue(k)
	}
	return sum
}

// Tiles of squaredDistances: rows of the matrix that go together, and
// coordinates that are passed over for all of them meanwhile (4 KiB a client).
const (
	distanceRows  = 16
	distanceBlock = 512
)

// squaredDistances fills the n×n matrix of ‖θ_i - θ_j‖². An entry is summed in
// blocks of coordinates in ascending order, whoever computes it.
func squaredDistances(dst []float64, updates []Contribution, workers int) {
	tiles := (len(updates) + distanceRows - 1) / distanceRows
	if workers <= 1 {
		for t := range tiles {
			distanceTile(dst, updates, t)
		}
	} else {
		spread(workers, tiles, func(next func() (int, bool)) {
			for t, ok := next(); ok; t, ok = next() {
				distanceTile(dst, updates, t)
			}
		})
	}
	n := len(updates)
	for i := range n {
		for j := range i {
			dst[i*n+j] = dst[j*n+i]
		}
	}
}

// distanceTile fills the entries right of the diagonal in the rows of tile t.
func distanceTile(dst []float64, updates []Contribution, t int) {
	n := len(updates)
	from, to := t*distanceRows, min((t+1)*distanceRows, n)
	for i := from; i < to; i++ {
		clear(dst[i*n+i : (i+1)*n])
	}
	p := len(updates[0].Params)
	for lo := 0; lo < p; lo += distanceBlock {
		hi := min(lo+distanceBlock, p)
		for j := from + 1; j < n; j++ {
			b := updates[j].Params[lo:hi]
			i, end := from, min(to, j)
			for ; i+1 < end; i += 2 {
				s, t := squaredDistance2(updates[i].Params[lo:hi], updates[i+1].Params[lo:hi], b)
				dst[i*n+j] += s
				dst[(i+1)*n+j] += t
			}
			if i < end {
				s, _ := squaredDistance2(updates[i].Params[lo:hi], b, b)
				dst[i*n+j] += s
			}
		}
	}
}

// squaredDistance2 returns ‖a-c‖² and ‖b-c‖², each of two sums over coordinates
// taken in turn. Products are rounded before they are added, as in [FedAvg].
func squaredDistance2(a, b, c []float64) (s, t float64) {
	a, b = a[:len(c)], b[:len(c)]
	var s1, t1 float64
	k := 0
	for ; k+1 < len(c); k += 2 {
		d, e := a[k]-c[k], b[k]-c[k]
		s += float64(d * d)
		t += float64(e * e)
		d, e = a[k+1]-c[k+1], b[k+1]-c[k+1]
		s1 += float64(d * d)
		t1 += float64(e * e)
	}
	if k < len(c) {
		d, e := a[k]-c[k], b[k]-c[k]
		s += float64(d * d)
		t += float64(e * e)
	}
	return s + s1, t + t1
}
