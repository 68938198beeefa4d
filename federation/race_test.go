//go:build race

package federation

// race says whether the race detector is on, under which pools forget at random.
const race = true
