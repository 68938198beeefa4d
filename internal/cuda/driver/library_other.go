//go:build !linux || !(amd64 || arm64) || nocuda

package driver

import (
	"fmt"
	"runtime"
)

// Library is a shared library opened at run time. This build has none.
type Library struct{}

// OpenLibrary returns an error wrapping ErrUnsupported.
func OpenLibrary(names ...string) (*Library, error) { return nil, unsupported() }

// Name returns the name the library was found by.
func (l *Library) Name() string { return "" }

// Symbol returns an error wrapping ErrUnsupported.
func (l *Library) Symbol(name string) (uintptr, error) { return 0, unsupported() }

// Call does not return: without a library there is no function to call.
func Call(f uintptr, args ...uintptr) int { panic(unsupported()) }

// CallSlice is Call with the arguments in a slice.
func CallSlice(f uintptr, args []uintptr) int { panic(unsupported()) }

func open() (API, error) { return nil, unsupported() }

func unsupported() error {
	return fmt.Errorf("%w: built for %s/%s; it needs Linux on amd64 or arm64, without the build tag nocuda", ErrUnsupported, runtime.GOOS, runtime.GOARCH)
}
