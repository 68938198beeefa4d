// Package cudatest gives tests a CUDA device in host memory: it compiles the
// sources of the kernels and of a driver (../fake) with g++, and makes package
// driver open the result. Tests skip with the reason where that cannot be.
package cudatest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"fedrspo/internal/cuda/driver"
	"fedrspo/internal/cuda/kernels"
)

// Variable is the environment variable that says what tests run on: 1 is the
// machine's own driver and device, a path the emulated driver there; unset, they
// build one.
const Variable = "FEDRSPO_TEST_CUDA"

// Real says whether tests run on a real device.
func Real() bool { return os.Getenv(Variable) == "1" }

var setup struct {
	sync.Once
	err error
}

// Setup makes package driver open the emulated driver, unless [Real], and skips
// the test where neither is to be had. It comes before anything opens a driver.
func Setup(t testing.TB) {
	t.Helper()
	setup.Do(func() { setup.err = prepare() })
	if setup.err != nil {
		t.Skip(setup.err)
	}
}

func prepare() error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		return errors.New("CUDA needs Linux on amd64 or arm64")
	}
	if Real() {
		return nil
	}
	lib := os.Getenv(Variable)
	if lib == "" {
		var err error
		if lib, err = Build(); err != nil {
			return err
		}
	}
	return errors.Join(os.Setenv(driver.LibraryVariable, lib), os.Setenv("FEDRSPO_LIBCUBLAS", lib))
}

// Build compiles the emulated driver, unless that has been done before, and
// returns its path.
func Build() (string, error) {
	_, self, _, ok := runtime.Caller(0)
	dir := filepath.Join(filepath.Dir(self), "..", "fake")
	if _, err := os.Stat(dir); !ok || err != nil {
		return "", fmt.Errorf("the sources of the emulated device are not here: %w", err)
	}
	gxx, err := exec.LookPath("g++")
	if err != nil {
		return "", fmt.Errorf("the emulated device needs g++: %w", err)
	}
	code, err := source(dir)
	if err != nil {
		return "", err
	}
	flags := []string{"-std=c++17", "-O2", "-ffp-contract=off", "-fno-strict-aliasing", "-U_FORTIFY_SOURCE", "-fPIC", "-shared", "-fvisibility=hidden"}
	if runtime.GOARCH == "amd64" {
		flags = append(flags, "-march=native") // fma as an instruction
	}
	sum := sha256.Sum256([]byte(code + strings.Join(flags, " ")))
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	cache = filepath.Join(cache, "fedrspo-fakecuda")
	lib := filepath.Join(cache, hex.EncodeToString(sum[:8])+".so")
	if _, err := os.Stat(lib); err == nil {
		return lib, nil
	}
	if err := os.MkdirAll(cache, 0o755); err != nil {
		return "", err
	}
	work, err := os.MkdirTemp(cache, "build")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(work)
	src, tmp := filepath.Join(work, "fake.cpp"), filepath.Join(work, "fake.so")
	if err := os.WriteFile(src, []byte(code), 0o644); err != nil {
		return "", err
	}
	if out, err := exec.Command(gxx, append(flags, "-I"+dir, "-o", tmp, src)...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("g++ on the emulated device: %w\n%s", err, out)
	}
	return lib, os.Rename(tmp, lib)
}

var entry = regexp.MustCompile(`(?m)^ENTRY\((\w+)\)`)

// source puts the driver and the kernels, once for each element type, into one
// file.
func source(dir string) (string, error) {
	var b strings.Builder
	for _, name := range []string{"device.h", "driver.cpp"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "#line 1 %q\n%s", name, strings.Replace(string(data), "#include \"device.h\"", "", 1))
	}
	text := kernels.Source()
	for _, e := range []kernels.Elem{kernels.Float32, kernels.Float64} {
		fmt.Fprintf(&b, "namespace on_%v {\n#define REAL %s\n%s", e, e.CType(), text)
		for _, m := range entry.FindAllStringSubmatch(text, -1) {
			fmt.Fprintf(&b, "REGISTER(%s, %s)\n", e.CType(), m[1])
		}
		for _, name := range []string{"REAL", "SUM_X", "SUM_Y", "SUM_ROWS", "SEGMENT_CHUNK", "EACH", "TILE", "DEPTH", "SUM_RANGE"} {
			fmt.Fprintf(&b, "#undef %s\n", name)
		}
		b.WriteString("}\n")
	}
	return b.String(), nil
}

// Set sets a variable of the emulated device: "devices", "capability" (90 for
// 9.0), "version" or "memory" (bytes). It skips the test on a real device.
func Set(t testing.TB, name string, value int) {
	t.Helper()
	if r := emulated(t, "fakecuda_set", uintptr(unsafe.Pointer(&append([]byte(name), 0)[0])), uintptr(value)); r != 0 {
		t.Fatalf("the emulated device has no variable %q", name)
	}
}

// Get returns a variable or a counter of the emulated device: also "launches",
// "copies", "syncs", "live" (allocations) and "live host".
func Get(t testing.TB, name string) int {
	t.Helper()
	return emulated(t, "fakecuda_get", uintptr(unsafe.Pointer(&append([]byte(name), 0)[0])))
}

// MathMode returns the math mode that cuBLAS was last set to.
func MathMode(t testing.TB) int {
	t.Helper()
	return emulated(t, "fakecublas_mode")
}

// emulated calls a function of the emulated device.
//
//go:uintptrescapes
func emulated(t testing.TB, name string, args ...uintptr) int {
	t.Helper()
	Setup(t)
	if Real() {
		t.Skip("needs the emulated device")
	}
	lib, err := driver.OpenLibrary(os.Getenv(driver.LibraryVariable))
	if err != nil {
		t.Fatal(err)
	}
	f, err := lib.Symbol(name)
	if err != nil {
		t.Fatal(err)
	}
	return driver.Call(f, args...)
}
