//go:build !race

package kernels_test

// race says whether the race detector is on, under which pools forget at random.
const race = false
