//go:build !linux && !darwin

package run

// Usage returns the processor time that the process has used, in seconds, and
// the most memory that it has held (resident), in bytes; 0 where the system
// does not tell, as here.
func Usage() (cpuSeconds float64, peakBytes int64) { return 0, 0 }
