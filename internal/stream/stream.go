// Package stream derives every random number of the module from a seed and a
// name.
//
// A stream is identified by (seed, purpose, round, client, epoch). Two streams
// with different identities are independent; the same identity gives the same
// numbers on every machine. Nothing in the module draws from a shared or
// clock-seeded generator, so results never depend on the order in which
// goroutines run, and a draw added to one purpose changes no other.
package stream

import (
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
)

// Key names one stream. Fields that do not apply are zero.
type Key struct {
	// Seed is the user's seed.
	Seed int64
	// Purpose says what the numbers are for, such as "init" or "shuffle".
	Purpose string
	// Round, Client and Epoch locate the draw in a run.
	Round, Client, Epoch int
}

// New returns the stream of k: PCG-DXSM (O'Neill 2014) seeded with SHA-256 of
// the key, so that neighbouring keys give unrelated streams.
func New(k Key) *rand.Rand { return rand.New(Source(k)) }

// Source returns the source behind New, for libraries that want one.
func Source(k Key) *rand.PCG {
	buf := make([]byte, 0, 64)
	for _, v := range [...]int64{k.Seed, int64(k.Round), int64(k.Client), int64(k.Epoch)} {
		buf = binary.LittleEndian.AppendUint64(buf, uint64(v))
	}
	buf = append(buf, k.Purpose...)
	sum := sha256.Sum256(buf)
	return rand.NewPCG(binary.LittleEndian.Uint64(sum[:8]), binary.LittleEndian.Uint64(sum[8:16]))
}

// Family is a set of streams that share a Key and differ in an index, such as
// one for each sample of a client. Opening one costs a few nanoseconds.
type Family struct{ hi, lo uint64 }

// NewFamily returns the streams of k.
func NewFamily(k Key) Family {
	p := Source(k)
	return Family{p.Uint64(), p.Uint64()}
}

// Stream is a generator that Family.Open moves from one stream to the next
// without allocating.
type Stream struct {
	*rand.Rand
	pcg *rand.PCG
}

// NewStream returns a Stream for Family.Open; before, it must not be drawn
// from.
func NewStream() *Stream {
	pcg := rand.NewPCG(0, 0)
	return &Stream{rand.New(pcg), pcg}
}

// Open moves s to the start of stream i. Indices are mixed with SplitMix64
// (Steele, Lea and Flood 2014), so that neighbours give unrelated streams.
func (f Family) Open(s *Stream, i int) {
	const golden = 0x9e3779b97f4a7c15
	x := uint64(i) * golden
	s.pcg.Seed(mix(f.hi+x), mix(f.lo^mix(x+golden)))
}

// Sub returns a family of its own for index k: f's streams and those of its
// subfamilies are unrelated.
func (f Family) Sub(k int) Family {
	const silver = 0xd1342543de82ef95
	x := uint64(k+1) * silver
	return Family{mix(f.lo + x), mix(f.hi ^ mix(x))}
}

// mix is the finaliser of SplitMix64, a bijection.
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// Permute fills dst with a uniform random permutation of 0..len(dst)-1
// (Fisher and Yates, in Durstenfeld's form).
func Permute(r *rand.Rand, dst []int) {
	for i := range dst {
		dst[i] = i
	}
	r.Shuffle(len(dst), func(i, j int) { dst[i], dst[j] = dst[j], dst[i] })
}

// Choose returns k distinct elements of from, uniformly without replacement,
// in the order drawn. It panics when k is out of range.
func Choose(r *rand.Rand, from []int, k int) []int {
	perm := make([]int, len(from))
	Permute(r, perm)
	out := make([]int, k)
	for i := range out {
		out[i] = from[perm[i]]
	}
	return out
}
