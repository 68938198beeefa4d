package run

import (
	"runtime"
	"runtime/debug"
)

// Version identifies the program: module version and the revision of its
// source, as the Go tool recorded them.
type Version struct {
	Version string `json:"version"`
	// Revision is the VCS revision, empty outside a checkout; Modified says
	// that the checkout had uncommitted changes.
	Revision string `json:"revision,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
	Platform string `json:"platform"`
	// Kernel is the instruction set of the arithmetic kernels: results are
	// bit-identical on machines that share it and the platform's architecture.
	Kernel string `json:"kernel"`
	// Device is the CUDA device that the networks ran on, empty for the CPU.
	Device string `json:"device,omitempty"`
}

// BuildVersion reads the program's own build information.
func BuildVersion(kernel string) Version {
	v := Version{Version: "(devel)", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Kernel: kernel}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Revision = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}
