// Package atomicfile writes files so that a reader, and a machine that loses
// power, sees either the whole old content or the whole new content.
package atomicfile

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
)

// mode is the permission of a new file, before the umask.
const mode = 0o644

// ErrNotRegular: the path names something that cannot be replaced by a file,
// such as a directory or a device.
var ErrNotRegular = errors.New("not a regular file")

// WriteFile replaces the content of path with what write produces. The writer
// handed to write is buffered.
//
// The content goes to a temporary file in the same folder, which is flushed to
// the disk and then renamed over path; the folder is flushed too where the
// system can do that. If write or any later step before the rename fails (or
// write panics) the temporary file is removed, path is untouched and the error
// is returned. Only an error while flushing the folder leaves the new content
// in place, with its durability in doubt.
//
// A file that is replaced keeps its permission bits; a new one gets 0644 less
// the umask. If path is a symbolic link the file it points to is replaced.
// Concurrent writers of one path are safe: the last rename wins.
func WriteFile(path string, write func(io.Writer) error) error {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	old, err := os.Lstat(path)
	switch {
	case err == nil && !old.Mode().IsRegular():
		return fmt.Errorf("write %s: %w", path, ErrNotRegular)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	tmp, err := createTemp(path)
	if err != nil {
		return err
	}
	renamed := false
	defer func() {
		if !renamed {
			tmp.Close() // a second Close only returns an error
			os.Remove(tmp.Name())
		}
	}()
	if old != nil {
		if err := tmp.Chmod(old.Mode().Perm()); err != nil {
			return err
		}
	}
	buf := bufio.NewWriterSize(tmp, 1<<16)
	if err := write(buf); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := buf.Flush(); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	if err := os.Rename(tmp.Name(), path); err != nil {
		return err
	}
	renamed = true
	return syncDir(filepath.Dir(path))
}

// createTemp creates a file that did not exist beside path. It does not use
// os.CreateTemp, whose files are private to the user whatever the umask says.
func createTemp(path string) (*os.File, error) {
	prefix := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+"."+strconv.Itoa(os.Getpid())+".")
	for k := 0; ; k++ {
		f, err := os.OpenFile(prefix+strconv.Itoa(k)+".tmp", os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// syncDir makes a rename inside dir durable. Windows offers no way to flush a
// folder, and some network file systems refuse.
func syncDir(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}
