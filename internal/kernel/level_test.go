package kernel

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func TestChooseLevel(t *testing.T) {
	for _, c := range []struct {
		override   string
		have, want level
		message    string // part of the error; empty means none
	}{
		{"", levelAVX512, levelAVX512, ""},
		{"", levelGo, levelGo, ""},
		{"go", levelAVX512, levelGo, ""},
		{"avx2", levelAVX512, levelAVX2, ""},
		{"avx512", levelAVX512, levelAVX512, ""},
		{"avx512", levelAVX2, levelAVX2, "has avx2 at most"},
		{"avx2", levelGo, levelGo, "has go at most"},
		{"AVX2", levelAVX512, levelAVX512, "want one of go, avx2, avx512"},
		{"sse", levelAVX2, levelAVX2, "want one of go, avx2, avx512"},
	} {
		got, err := choose(c.override, c.have)
		if got != c.want {
			t.Errorf("choose(%q, %v) = %v, want %v", c.override, c.have, got, c.want)
		}
		switch {
		case c.message == "" && err != nil:
			t.Errorf("choose(%q, %v): %v", c.override, c.have, err)
		case c.message != "" && (!errors.Is(err, ErrLevel) || !strings.Contains(err.Error(), c.message) || !strings.Contains(err.Error(), EnvLevel)):
			t.Errorf("choose(%q, %v): error %v, want an ErrLevel with %q", c.override, c.have, err, c.message)
		}
	}
}

// The tests themselves run at the level asked for.
func TestCheck(t *testing.T) {
	if err := Check(); err != nil {
		t.Fatal(err)
	}
	want := os.Getenv(EnvLevel)
	if want == "" {
		want = best().String()
	}
	if Level() != want {
		t.Errorf("level %s, want %s", Level(), want)
	}
}
