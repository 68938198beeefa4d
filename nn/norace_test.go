//go:build !race

package nn_test

// race says whether the race detector is on.
const race = false
