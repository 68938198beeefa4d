package bench

import (
	"bufio"
	"os"
	"runtime"
	"strings"

	"fedrspo/internal/kernel"
)

// Machine describes where times were measured.
type Machine struct {
	CPU   string `json:"cpu"`
	Cores int    `json:"cores"`
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	Go    string `json:"go"`
	// Kernel is the level of the arithmetic kernels.
	Kernel string `json:"kernel"`
	// Load is the system's load average over the last minute, empty where it
	// tells none: above the number of cores, times of several workers are not
	// to be relied on.
	Load string `json:"load,omitempty"`
}

// ThisMachine returns the machine the program runs on.
func ThisMachine() Machine {
	m := Machine{CPU: "unknown processor", Cores: runtime.NumCPU(), OS: runtime.GOOS, Arch: runtime.GOARCH, Go: runtime.Version(), Kernel: kernel.Level()}
	if f, err := os.Open("/proc/cpuinfo"); err == nil {
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			if key, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
				m.CPU = strings.TrimSpace(value)
				break
			}
		}
	}
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _, _ = strings.Cut(string(text), " ")
	}
	return m
}
