//go:build !amd64 || purego

package kernel

// fmaRate is 0: there is no vector code to compare with.
func fmaRate() float64 { return 0 }
