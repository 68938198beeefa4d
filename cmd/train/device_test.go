package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"fedrspo/internal/cli"
	"fedrspo/internal/cuda/cudatest"
	"fedrspo/run"
)

// small is a training run of a moment.
var small = []string{"-loss", "spo+", "-clients", "2", "-train-samples", "12", "-validation-samples", "4", "-test-samples", "10",
	"-rounds", "2", "-epochs", "1", "-personal-rounds", "1", "-personal-epochs", "1"}

// TestDevice: the same run on the processor and on a device gives the same
// regrets to rounding, and the folder names the device.
func TestDevice(t *testing.T) {
	cudatest.Setup(t)
	var regret []float64
	for _, device := range []string{"cpu", "cuda", "auto"} {
		out := filepath.Join(t.TempDir(), "run")
		mustTrain(t, append([]string{"-device", device, "-out", out}, small...)...)
		data, err := os.ReadFile(filepath.Join(out, run.VersionFile))
		if err != nil {
			t.Fatal(err)
		}
		var v run.Version
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatal(err)
		}
		if on := strings.HasPrefix(v.Device, "cuda:0 ("); on != (device != "cpu") {
			t.Errorf("-device %s: version.json has device %q", device, v.Device)
		}
		config, err := os.ReadFile(filepath.Join(out, run.ConfigFile))
		if err != nil {
			t.Fatal(err)
		}
		if want := map[string]string{"cpu": `device = "cpu"`, "cuda": `device = "cuda"`, "auto": `device = "cuda"`}[device]; !strings.Contains(string(config), want) {
			t.Errorf("-device %s: the configuration lacks %s", device, want)
		}
		folder, err := run.Open(out)
		if err != nil {
			t.Fatal(err)
		}
		results, err := folder.Results()
		if err != nil {
			t.Fatal(err)
		}
		regret = append(regret, results[0].Seeds[0].Personal.Regret.Relative)
		// The models can be judged elsewhere.
		mustTrain(t, "-eval", out, "-device", "cpu", "-out", filepath.Join(t.TempDir(), "eval"))
	}
	// Predictions are apart by rounding; a decision may differ where items tie.
	for _, r := range regret[1:] {
		if !(math.Abs(r-regret[0]) <= 1e-3*math.Abs(regret[0])) {
			t.Errorf("regrets %v on the processor and on devices", regret)
		}
	}
}

// TestDeviceErrors: what cannot be says what to do, before a folder is made.
func TestDeviceErrors(t *testing.T) {
	cudatest.Setup(t)
	out := filepath.Join(t.TempDir(), "run")
	train := func(args ...string) outcome {
		return program(append(append([]string{"-out", out}, small...), args...)...)
	}
	checkError(t, train("-device", "cuda:7"), cli.Failed, "-device cuda:7", "CUDA is not available", "cuda:0")
	checkError(t, train("-device", "cuda:x"), cli.Usage, "cuda:x", "cuda:N")
	checkError(t, train("-device", "cuda", "-tf32"), cli.Usage, "-tf32 has no effect", "float64")
	checkError(t, program("-task", "warcraft", "-tf32"), cli.Usage, "-tf32 has no effect", "-device cuda")
	cudatest.Set(t, "capability", 70)
	defer cudatest.Set(t, "capability", 90)
	checkError(t, train("-device", "cuda"), cli.Failed, "-device cuda", "compute capability 7.0")
	if _, err := os.Stat(out); err == nil {
		t.Error("a run that could not start left a folder")
	}
	o := mustTrain(t, "-devices")
	for _, want := range []string{"cpu: ", "cuda:0: Emulated device 0", "cannot be used: compute capability 7.0", "matrix products: "} {
		if !strings.Contains(o.stdout, want) {
			t.Errorf("-devices prints %q, which lacks %q", o.stdout, want)
		}
	}
}
