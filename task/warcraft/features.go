package warcraft

import (
	"fmt"
	"math"
)

// table normalises colours: entry [3 x + c] is value x of colour c over 255,
// less the mean and over the population standard deviation of that colour over
// all pixels of all maps (paper, appendix C), as float32.
type table [256 * colours]float32

// newTable measures maps, [., 3]. It returns an error for a colour that never
// varies.
func newTable(maps []uint8) (*table, error) {
	var count [colours][256]int
	for p := maps; len(p) >= colours; p = p[colours:] {
		count[0][p[0]]++
		count[1][p[1]]++
		count[2][p[2]]++
	}
	t := new(table)
	n := float64(len(maps) / colours)
	for c := range colours {
		mean, variance := 0.0, 0.0
		for x, k := range count[c] {
			mean += float64(float64(k) * float64(x) / 255)
		}
		mean /= n
		for x, k := range count[c] {
			dev := float64(x)/255 - mean
			variance += float64(float64(k) * float64(dev*dev))
		}
		std := math.Sqrt(variance / n)
		if !(std > 0) {
			return nil, fmt.Errorf("colour %d (0 is red) is the same in all pixels of all maps, want pictures", c)
		}
		for x := range 256 {
			t[x*colours+c] = float32((float64(x)/255 - mean) / std)
		}
	}
	return t, nil
}

// normalise writes the features of a picture to dst.
func normalise[T float32 | float64](dst []T, rgb []uint8, t *table) {
	dst = dst[:len(rgb)]
	for len(rgb) >= colours {
		r, g, b := rgb[0], rgb[1], rgb[2]
		dst[0], dst[1], dst[2] = T(t[int(r)*colours]), T(t[int(g)*colours+1]), T(t[int(b)*colours+2])
		rgb, dst = rgb[colours:], dst[colours:]
	}
}

// Images are maps as features, [8G, 8G, 3] row-major with the colours last,
// every colour normalised to mean 0 and variance 1 over all maps of the
// dataset. It implements task.Features and task.Features32.
type Images struct {
	d     *Dataset
	table *table
	index []int // maps of the dataset
}

// Len is the number of maps.
func (x *Images) Len() int { return len(x.index) }

// Dim is 8G 8G 3.
func (x *Images) Dim() int { return x.d.cfg.mapBytes() }

// Copy writes the normalised picture of sample i to dst.
func (x *Images) Copy(dst []float64, i int) { normalise(dst, x.d.RGB(x.index[i]), x.table) }

// Copy32 is Copy to float32; the numbers are the same.
func (x *Images) Copy32(dst []float32, i int) { normalise(dst, x.d.RGB(x.index[i]), x.table) }

// Map returns the number of sample i's map in the dataset.
func (x *Images) Map(i int) int { return x.index[i] }

// RGB returns the picture of sample i as it is, [side, side, 3], without copying
// it.
func (x *Images) RGB(i int) (rgb []uint8, side int) { return x.d.RGB(x.index[i]), x.d.Side() }
