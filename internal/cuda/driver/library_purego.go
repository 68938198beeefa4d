//go:build linux && (amd64 || arm64) && !nocuda

package driver

import (
	"cmp"
	"fmt"

	"github.com/ebitengine/purego"
)

// Library is a shared library opened at run time.
type Library struct {
	name   string
	handle uintptr
}

// OpenLibrary opens the first of the named libraries that can be. The error is
// about the first name.
func OpenLibrary(names ...string) (*Library, error) {
	var first error
	for _, n := range names {
		h, err := purego.Dlopen(n, purego.RTLD_NOW|purego.RTLD_LOCAL)
		if err == nil {
			return &Library{n, h}, nil
		}
		first = cmp.Or(first, err)
	}
	return nil, first
}

// Name returns the name the library was found by.
func (l *Library) Name() string { return l.name }

// Symbol returns the address of a function.
func (l *Library) Symbol(name string) (uintptr, error) {
	a, err := purego.Dlsym(l.handle, name)
	if err != nil {
		return 0, fmt.Errorf("%s has no function %s: %w", l.name, name, err)
	}
	return a, nil
}

// Call calls a C function of integer and pointer arguments and returns its
// result as an int. Arguments that are Go pointers point to the heap, and their
// uintptr conversion stands in the argument list.
//
//go:uintptrescapes
func Call(f uintptr, args ...uintptr) int {
	r, _, _ := purego.SyscallN(f, args...)
	return int(int32(r))
}

// CallSlice is Call with arguments in a slice of the caller, without an
// allocation: Go memory behind an address is on the heap, and the caller keeps
// it alive.
func CallSlice(f uintptr, args []uintptr) int {
	r, _, _ := purego.SyscallN(f, args...)
	return int(int32(r))
}
