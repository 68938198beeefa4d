package experiment

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"

	"fedrspo/run"
)

// kept is a finished job, and with Sum a file of the cache.
type kept struct {
	Command string `json:"command"`
	// Seconds of one core that the job took.
	Seconds float64        `json:"core_seconds"`
	Result  run.SeedResult `json:"result"`
	// Sum is the SHA-256 of the above, as compact JSON: a damaged file is run
	// again.
	Sum string `json:"sha256,omitempty"`
}

// digest is what Sum must be.
func (k kept) digest() (string, error) {
	k.Sum = ""
	data, err := json.Marshal(k)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]), nil
}

// open makes the Runner ready: it learns what program this is.
func (r *Runner) open() error {
	if r.results != nil {
		return nil
	}
	if r.Program == "" {
		p, err := ProgramID()
		if err != nil {
			return err
		}
		r.Program = p
	}
	r.results = map[string]kept{}
	return nil
}

// key identifies a job's result among those of a program.
func (r *Runner) key(j Job) string {
	text := j.Command()
	if r.GlobalLambdaMean {
		text += " global alignment at the mean lambda"
	}
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:12])
}

func (r *Runner) file(j Job) string {
	return filepath.Join("cache", r.Program, r.key(j)+".json")
}

// save keeps a result.
func (r *Runner) save(j Job, k kept) (err error) {
	if r.Cache == nil {
		return nil
	}
	if k.Sum, err = k.digest(); err != nil {
		return fmt.Errorf("%s: %w", j.Command(), err)
	}
	return r.Cache.WriteJSON(r.file(j), k)
}

// load reads a kept result. There is none if the file is missing, damaged or
// about another job.
func (r *Runner) load(j Job) (kept, bool) {
	if r.Cache == nil {
		return kept{}, false
	}
	data, err := os.ReadFile(r.Cache.Path(r.file(j)))
	if err != nil {
		return kept{}, false
	}
	var k kept
	if json.Unmarshal(data, &k) != nil || k.Command != j.Command() {
		return kept{}, false
	}
	sum, err := k.digest()
	return k, err == nil && sum == k.Sum
}

// ProgramID identifies the running program by its content and the arithmetic
// kernels it uses.
func ProgramID() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	if _, err := io.WriteString(h, strconv.Quote(Version().Kernel)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}
