package run

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Draft is the folder of an evaluation that is being written. It lies beside
// its final place, which Commit gives it in one step: an evaluation that fails
// or is killed leaves what was there before.
type Draft struct {
	*Folder
	// named is the final place as the user wrote it, final where it is.
	named, final string
	// parents are the folders that were made for it, the outermost first.
	parents []string
	done    bool
}

// NewDraft starts a folder that is to stand at path: a new place, an empty
// folder, or an earlier evaluation, which it will replace. Anything else is
// refused, and so is the working directory.
func NewDraft(path string) (*Draft, error) {
	d, err := newDraft(path)
	if err != nil && !errors.Is(err, ErrFolder) {
		err = fmt.Errorf("%w: %w", ErrFolder, err)
	}
	return d, err
}

func newDraft(path string) (*Draft, error) {
	final, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	// A link stays, and what it points to is replaced.
	if real, err := filepath.EvalSymlinks(final); err == nil {
		final = real
	}
	if err := replaceable(path, final); err != nil {
		return nil, err
	}
	d := &Draft{named: path, final: final}
	for dir := filepath.Dir(final); ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		d.parents = append([]string{dir}, d.parents...)
	}
	if err := os.MkdirAll(filepath.Dir(final), 0o755); err != nil {
		return nil, errors.Join(err, d.removeParents())
	}
	for k := 0; ; k++ {
		beside := d.beside(strconv.Itoa(os.Getpid()) + "-" + strconv.Itoa(k))
		switch err := os.Mkdir(beside, 0o755); {
		case err == nil:
			d.Folder = &Folder{beside}
			return d, nil
		case !errors.Is(err, fs.ErrExist):
			return nil, errors.Join(err, d.removeParents())
		}
	}
}

// beside names a hidden sibling of the final place.
func (d *Draft) beside(suffix string) string {
	return filepath.Join(filepath.Dir(d.final), "."+filepath.Base(d.final)+".tmp-"+suffix)
}

// Commit moves the folder to its final place, which Path then names. An earlier
// evaluation there is removed once the new one stands.
func (d *Draft) Commit() error {
	if err := replaceable(d.named, d.final); err != nil {
		return err
	}
	old := d.path + ".old"
	switch err := os.Rename(d.final, old); {
	case errors.Is(err, fs.ErrNotExist):
		old = ""
	case err != nil:
		return fmt.Errorf("%w: %w", ErrFolder, err)
	}
	if err := os.Rename(d.path, d.final); err != nil {
		if old != "" {
			err = errors.Join(err, os.Rename(old, d.final))
		}
		return fmt.Errorf("%w: %w", ErrFolder, err)
	}
	d.done, d.path = true, d.named
	if old == "" {
		return nil
	}
	return os.RemoveAll(old)
}

// Discard removes the folder unless it was committed.
func (d *Draft) Discard() error {
	if d.done {
		return nil
	}
	d.done = true
	return errors.Join(os.RemoveAll(d.path), d.removeParents())
}

// removeParents removes the folders that were made, unless somebody else now
// has something there.
func (d *Draft) removeParents() error {
	for k := len(d.parents) - 1; k >= 0; k-- {
		if err := os.Remove(d.parents[k]); err != nil {
			if entries, rerr := os.ReadDir(d.parents[k]); rerr == nil && len(entries) > 0 || errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
	}
	return nil
}

// replaceable reports why nothing may be put in the place of final, which the
// user calls path.
func replaceable(path, final string) error {
	entries, err := os.ReadDir(final)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFolder, err)
	}
	here, err := os.Stat(".")
	if err != nil {
		return fmt.Errorf("%w: %w", ErrFolder, err)
	}
	if there, err := os.Stat(final); err == nil && os.SameFile(here, there) {
		return fmt.Errorf("%s is the working directory, which cannot be replaced; name another folder with -out: %w", path, ErrFolder)
	}
	if len(entries) == 0 {
		return nil
	}
	if other, err := notOfEvaluation(final); err != nil {
		return fmt.Errorf("%w: %w", ErrFolder, err)
	} else if other != "" {
		return fmt.Errorf("%s is not empty, and no evaluation that could be replaced (%s); name another folder with -out: %w", path, other, ErrFolder)
	}
	return nil
}

// notOfEvaluation says what distinguishes a folder from one that only an
// evaluation wrote: VersionFile, ResultFile and tables LOSS/seed-N/STAGE.csv.
// It returns "" for such a folder.
func notOfEvaluation(dir string) (string, error) {
	var other string
	missing := map[string]bool{VersionFile: true, ResultFile: true}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		part := strings.Split(filepath.ToSlash(name), "/")
		table := len(part) == 3 && strings.HasPrefix(part[1], "seed-") && filepath.Ext(part[2]) == ".csv"
		if !e.Type().IsRegular() || !missing[name] && !table {
			other = "it holds " + name
			return filepath.SkipAll
		}
		delete(missing, name)
		return nil
	})
	for _, name := range []string{VersionFile, ResultFile} {
		if other == "" && missing[name] {
			other = "it has no " + name
		}
	}
	return other, err
}
