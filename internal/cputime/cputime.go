// Package cputime measures the processor time of this process, for benchmarks:
// unlike wall time, it does not count the time of other programs on the machine.
package cputime
