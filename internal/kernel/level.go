package kernel

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
)

// EnvLevel is the environment variable that overrides the level.
const EnvLevel = "FEDRSPO_KERNEL"

// ErrLevel says that EnvLevel names no level, or one the machine lacks.
var ErrLevel = errors.New("kernel level not available")

// A level is a set of instructions the package may use; a higher one includes
// the lower ones.
type level uint8

const (
	levelGo level = iota
	levelAVX2
	levelAVX512
)

var levelNames = [...]string{levelGo: "go", levelAVX2: "avx2", levelAVX512: "avx512"}

func (l level) String() string { return levelNames[l] }

// active is read by every operation. Only the initialisation below and the
// tests write it.
var active, activeErr = choose(os.Getenv(EnvLevel), best())

// choose returns the level the override asks for, or have, the best of the
// machine, when it is empty or cannot be honoured.
func choose(override string, have level) (level, error) {
	if override == "" {
		return have, nil
	}
	l := slices.Index(levelNames[:], override)
	if l < 0 {
		return have, fmt.Errorf("%s=%q, want one of %s: %w", EnvLevel, override, strings.Join(levelNames[:], ", "), ErrLevel)
	}
	if level(l) > have {
		return have, fmt.Errorf("%s=%s, but this machine or build has %s at most: %w", EnvLevel, override, have, ErrLevel)
	}
	return level(l), nil
}

// Level returns the name of the level in use: "avx512", "avx2" or "go".
func Level() string { return active.String() }

// Check returns an error wrapping ErrLevel when the environment variable
// FEDRSPO_KERNEL names a level that does not exist or that this machine lacks.
// The package then works at its best level. Programs call Check once before
// they compute anything, so that a run never has another level than asked for.
func Check() error { return activeErr }
