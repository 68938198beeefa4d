package experiment

import (
	"runtime"
	"runtime/debug"
)

// muchMemory is a heap worth collecting between training runs: what the
// sessions of the last run leave would otherwise stay beside those of the next
// until the heap has doubled.
const muchMemory = 256 << 20

// releaseMemory gives back what finished runs have left, where it is much.
func releaseMemory() {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	if m.HeapAlloc > muchMemory {
		debug.FreeOSMemory()
	}
}
