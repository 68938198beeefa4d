package run

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"fedrspo/internal/atomicfile"
)

// Names of the files of a run folder.
const (
	// ConfigFile holds the resolved settings, paths made absolute; train -config
	// reads it.
	ConfigFile = "config.toml"
	// ResultFile holds the results, one object a loss.
	ResultFile = "result.json"
	// MetricsFile holds a Metric a line.
	MetricsFile = "metrics.jsonl"
	// TimingFile holds everything that differs between two equal runs; a report
	// repeats some of it.
	TimingFile = "timing.json"
	// VersionFile says which program made the run.
	VersionFile = "version.json"
	// ModelsDir holds models/LOSS/seed-N/STAGE.safetensors.
	ModelsDir = "models"
)

// ErrFolder is wrapped by errors about a run folder that cannot be used.
var ErrFolder = errors.New("unusable run folder")

// Folder is where a run writes. Files appear whole or not at all; only
// metrics.jsonl grows line by line.
type Folder struct{ path string }

// Create makes a run folder at path. It refuses one that already holds
// something, so that no run overwrites another; of two programs that ask for
// the same folder at once, one gets it.
func Create(path string) (*Folder, error) {
	entries, err := os.ReadDir(path)
	switch {
	case err == nil && len(entries) > 0:
		return nil, fmt.Errorf("%s is not empty; name another folder with -out: %w", path, ErrFolder)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, fmt.Errorf("%w: %w", ErrFolder, err)
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFolder, err)
	}
	// The claim, and a probe: a folder that cannot be written should say so
	// before hours of training. VersionFile is filled right away.
	claim, err := os.OpenFile(filepath.Join(path, VersionFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	switch {
	case errors.Is(err, fs.ErrExist):
		return nil, fmt.Errorf("%s is in use by another run; name another folder with -out: %w", path, ErrFolder)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrFolder, err)
	}
	if err := claim.Close(); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFolder, err)
	}
	return &Folder{path}, nil
}

// Reopen makes a folder, or returns the one that is there, for programs that
// go on where they stopped.
func Reopen(path string) (*Folder, error) {
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrFolder, err)
	}
	return &Folder{path}, nil
}

// Open returns the folder of an earlier run.
func Open(path string) (*Folder, error) {
	if _, err := os.Stat(filepath.Join(path, ConfigFile)); err != nil {
		return nil, fmt.Errorf("%s holds no run (%w): %w", path, err, ErrFolder)
	}
	return &Folder{path}, nil
}

// Path returns the folder's path, joined with elem.
func (f *Folder) Path(elem ...string) string {
	return filepath.Join(append([]string{f.path}, elem...)...)
}

// Write writes a file below the folder, whole or not at all.
func (f *Folder) Write(name string, write func(io.Writer) error) error {
	path := f.Path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return atomicfile.WriteFile(path, write)
}

// WriteJSON writes v as indented JSON.
func (f *Folder) WriteJSON(name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return f.Write(name, func(w io.Writer) error {
		_, err := w.Write(append(data, '\n'))
		return err
	})
}

// results is the content of ResultFile.
type results struct {
	Runs []Result `json:"runs"`
}

// WriteResults writes ResultFile.
func (f *Folder) WriteResults(r []Result) error { return f.WriteJSON(ResultFile, results{r}) }

// Results reads ResultFile. An error about its content wraps ErrFolder.
func (f *Folder) Results() ([]Result, error) {
	path := f.Path(ResultFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var r results
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, fmt.Errorf("%s: %w: %w", path, ErrFolder, err)
	}
	if len(r.Runs) == 0 {
		return nil, fmt.Errorf("%s: no runs: %w", path, ErrFolder)
	}
	return r.Runs, nil
}

// AppendMetrics appends lines to MetricsFile.
func (f *Folder) AppendMetrics(metrics []Metric) (err error) {
	var lines []byte
	for _, m := range metrics {
		line, err := json.Marshal(m)
		if err != nil {
			return fmt.Errorf("%s: %w", MetricsFile, err)
		}
		lines = append(append(lines, line...), '\n')
	}
	file, err := os.OpenFile(f.Path(MetricsFile), os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = file.Write(lines)
	return err
}

// ModelFile is the name below the folder of the models of one loss, seed and
// stage.
func ModelFile(loss string, seed int64, stage string) string {
	return filepath.Join(ModelsDir, loss, "seed-"+strconv.FormatInt(seed, 10), stage+".safetensors")
}

// Timing is what differs between two equal runs.
type Timing struct {
	// Started is the wall-clock start, RFC 3339.
	Started string `json:"started"`
	// WallSeconds of the whole run, without the build.
	WallSeconds float64 `json:"wall_seconds"`
	Workers     int     `json:"workers"`
	// Runs has an entry for each loss and seed, in the order they ran.
	Runs []SeedTiming `json:"runs"`
}

// SeedTiming says where the time of one loss and seed went.
type SeedTiming struct {
	Loss        string  `json:"loss"`
	Seed        int64   `json:"seed"`
	WallSeconds float64 `json:"wall_seconds"`
	// CPUSeconds is the processor time of the whole process meanwhile, PeakBytes
	// the most memory it has held so far; 0 where the system does not tell.
	CPUSeconds float64 `json:"cpu_seconds,omitempty"`
	PeakBytes  int64   `json:"peak_memory_bytes,omitempty"`
	// Stages in the order they ran.
	Stages []StageTiming `json:"stages,omitempty"`
}

// StageTiming says where the time of one stage of training went.
type StageTiming struct {
	Stage string `json:"stage"`
	// WallSeconds of training, RoundSeconds of each round where clients share
	// them, EvaluationSeconds of judging the models afterwards.
	WallSeconds       float64   `json:"wall_seconds"`
	RoundSeconds      []float64 `json:"round_seconds,omitempty"`
	EvaluationSeconds float64   `json:"evaluation_seconds"`
	// OracleSeconds and NetworkSeconds are sums over the goroutines that train:
	// in the oracle calls of losses and of the freeze rule, and in the rest.
	OracleSeconds  float64 `json:"oracle_seconds"`
	NetworkSeconds float64 `json:"network_seconds"`
	// Steps counts gradient steps.
	Steps int `json:"steps"`
	// Projections counts those of training, HardProjections the ones that took
	// the solver's slower method, and PositivePairs, summed over projections onto
	// paths, the pairs of neighbouring cells of which cycles are made, up to 21
	// for each. 0 from solvers that do not count.
	Projections     int64 `json:"projections,omitempty"`
	HardProjections int64 `json:"hard_projections,omitempty"`
	PositivePairs   int64 `json:"positive_pairs,omitempty"`
}
