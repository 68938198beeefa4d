package qp

import (
	"math"

	"fedrspo/oracle"
)

// A warm start of Wolfe's method holds, in this order,
//
//	a checksum of what follows and of the grid,
//	k + 2^32 times the number n of multipliers,
//	k generators: set and weight, the weight negative for a cycle,
//	n multipliers: place and value,
//	the order of the labels, two places to a word, unless the grid is acyclic.
//
// A checksum that does not fit, of another grid for example, makes a cold
// start.
const (
	pathWarmSum = iota
	pathWarmCount
	pathWarmHeader
)

// pathChecksum hashes words (FNV-1a, 64 bits at a time).
func pathChecksum(sum uint64, words []uint64) uint64 {
	for _, x := range words {
		sum = (sum ^ x) * 0x100000001b3
	}
	return sum
}

// save writes the generators, weights and multipliers to warm.
func (q *pathWolfe) save(warm *oracle.Warm) {
	if warm == nil {
		return
	}
	words := append(warm.Words[:0], 0, 0)
	for i := range q.k {
		words = append(words, q.generator(i)...)
		a := q.a[i]
		if q.e[i] == 0 {
			a = -a
		}
		words = append(words, math.Float64bits(a))
	}
	n := 0
	if q.capped {
		for v, u := range q.u {
			if u > 0 {
				words = append(words, uint64(v), math.Float64bits(u))
				n++
			}
		}
	}
	for i := 0; i < len(q.order); i += 2 {
		x := uint64(q.order[i])
		if i+1 < len(q.order) {
			x |= uint64(q.order[i+1]) << 32
		}
		words = append(words, x)
	}
	words[pathWarmCount] = uint64(q.k) | uint64(n)<<32
	words[pathWarmSum] = pathChecksum(q.f.fingerprint, words[1:])
	warm.Words = words
}

// load takes the generators, weights and multipliers from warm and says whether
// there were any.
func (q *pathWolfe) load(warm *oracle.Warm) bool {
	if warm == nil || len(warm.Words) <= pathWarmHeader {
		return false
	}
	words, f := warm.Words, q.f
	k, n := int(words[pathWarmCount]&math.MaxUint32), int(words[pathWarmCount]>>32)
	cells := len(f.place) - 1
	if f.acyclic {
		cells = 0
	}
	if k < 1 || k > len(q.e) || n > cells ||
		len(words) != pathWarmHeader+k*(f.words+1)+2*n+(cells+1)/2 ||
		words[pathWarmSum] != pathChecksum(f.fingerprint, words[1:]) {
		return false
	}
	words = words[pathWarmHeader:]
	q.k = k
	for i := range k {
		copy(q.generator(i), words)
		a := math.Float64frombits(words[f.words])
		q.a[i], q.e[i] = math.Abs(a), 1
		if math.Signbit(a) {
			q.e[i] = 0
		}
		words = words[f.words+1:]
	}
	clear(q.u)
	q.capped = n > 0
	for range n {
		q.u[words[0]] = math.Float64frombits(words[1])
		words = words[2:]
	}
	q.order = q.order[:cells]
	for i := range q.order {
		q.order[i] = int32(words[i/2] >> (i % 2 * 32))
	}
	return true
}
