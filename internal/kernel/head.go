package kernel

import "fmt"

// ChannelMean computes the mean over the channels of each pixel:
// y[p] = sum_c x[p,c] / channels. Channel c goes to partial sum c mod 4, and the
// partial sums are added pairwise, 0 and 2, 1 and 3.
func ChannelMean[T Float](y, x []T, channels int) {
	if channels < 1 {
		panic(fmt.Sprintf("kernel.ChannelMean: %d channels", channels))
	}
	checkLengths("ChannelMean", len(y)*channels, len(x))
	for p := range y {
		row := x[p*channels:][:channels]
		var s [4]T
		for ; len(row) >= 4; row = row[4:] {
			s[0] += row[0]
			s[1] += row[1]
			s[2] += row[2]
			s[3] += row[3]
		}
		for i, v := range row {
			s[i] += v
		}
		y[p] = ((s[0] + s[2]) + (s[1] + s[3])) / T(channels)
	}
}

// ChannelMeanGrad computes dx[p,c] = dy[p] / channels.
func ChannelMeanGrad[T Float](dx, dy []T, channels int) {
	if channels < 1 {
		panic(fmt.Sprintf("kernel.ChannelMeanGrad: %d channels", channels))
	}
	checkLengths("ChannelMeanGrad", len(dy)*channels, len(dx))
	for p, v := range dy {
		v /= T(channels)
		row := dx[p*channels:][:channels]
		for c := range row {
			row[c] = v
		}
	}
}
