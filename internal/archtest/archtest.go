// Package archtest keeps the module's structure as ARCHITECTURE.md draws it:
// its tests fail when a package imports what it must not know, when a package
// or an exported identifier lacks a comment, or when a source file reaches for
// the clock or for unseeded random numbers.
package archtest
