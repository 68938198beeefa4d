package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

// content returns a write function that writes s.
func content(s string) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := io.WriteString(w, s)
		return err
	}
}

// checkFile fails unless dir holds exactly the file name with the given
// content: no temporary file may be left behind.
func checkFile(t *testing.T, dir, name, want string) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("content is %q, want %q", got, want)
	}
	checkEntries(t, dir, name)
}

func checkEntries(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if fmt.Sprint(names) != fmt.Sprint(want) {
		t.Errorf("folder holds %v, want %v", names, want)
	}
}

func TestWriteFileCreatesAndReplaces(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.txt")
	for _, s := range []string{"first", "", strings.Repeat("longer than the buffer", 10_000)} {
		if err := WriteFile(path, content(s)); err != nil {
			t.Fatal(err)
		}
		checkFile(t, dir, "a.txt", s)
	}
}

func TestWriteFileRelativePath(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := WriteFile("a.txt", content("x")); err != nil {
		t.Fatal(err)
	}
	checkFile(t, dir, "a.txt", "x")
}

func TestFailingWriterLeavesOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.txt")
	if err := WriteFile(path, content("old")); err != nil {
		t.Fatal(err)
	}
	boom := errors.New("boom")
	err := WriteFile(path, func(w io.Writer) error {
		// More than the buffer, so that part of it reaches the disk.
		if _, err := io.WriteString(w, strings.Repeat("half", 1<<16)); err != nil {
			return err
		}
		return boom
	})
	if !errors.Is(err, boom) {
		t.Errorf("error %v, want %v", err, boom)
	}
	checkFile(t, dir, "a.txt", "old")
}

func TestPanickingWriterLeavesOldFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.txt")
	if err := WriteFile(path, content("old")); err != nil {
		t.Fatal(err)
	}
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		_ = WriteFile(path, func(io.Writer) error { panic("boom") })
	}()
	checkFile(t, dir, "a.txt", "old")
}

func TestFailingWriterCreatesNothing(t *testing.T) {
	dir := t.TempDir()
	if err := WriteFile(filepath.Join(dir, "a.txt"), func(io.Writer) error { return io.ErrShortWrite }); err == nil {
		t.Error("no error")
	}
	checkEntries(t, dir)
}

func TestTargetsThatCannotBeReplaced(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteFile(filepath.Join(dir, "sub"), content("x")); !errors.Is(err, ErrNotRegular) {
		t.Errorf("over a directory: error %v, want %v", err, ErrNotRegular)
	}
	if err := WriteFile(filepath.Join(dir, "absent", "a.txt"), content("x")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("into an absent folder: error %v, want %v", err, os.ErrNotExist)
	}
	checkEntries(t, dir, "sub")
	// A socket stands for devices: replacing one of those would harm the machine.
	socket, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Skip("no socket in a folder:", err)
	}
	defer socket.Close()
	if err := WriteFile(filepath.Join(dir, "s"), content("x")); !errors.Is(err, ErrNotRegular) {
		t.Errorf("over a socket: error %v, want %v", err, ErrNotRegular)
	}
	checkEntries(t, dir, "s", "sub")
}

func TestPermissions(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no permission bits")
	}
	dir := t.TempDir()
	// What the system gives a plain 0644 file here, umask included.
	plain := filepath.Join(dir, "plain")
	if err := os.WriteFile(plain, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	perm := func(path string) os.FileMode {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		return info.Mode().Perm()
	}
	path := filepath.Join(dir, "a.txt")
	if err := WriteFile(path, content("x")); err != nil {
		t.Fatal(err)
	}
	if got, want := perm(path), perm(plain); got != want {
		t.Errorf("a new file has mode %v, want %v", got, want)
	}
	for _, want := range []os.FileMode{0o600, 0o644, 0o666} {
		if err := os.Chmod(path, want); err != nil {
			t.Fatal(err)
		}
		if err := WriteFile(path, content("y")); err != nil {
			t.Fatal(err)
		}
		if got := perm(path); got != want {
			t.Errorf("a replaced file of mode %v now has %v", want, got)
		}
	}
}

func TestSymbolicLinkIsFollowed(t *testing.T) {
	dir, other := t.TempDir(), t.TempDir()
	target := filepath.Join(other, "target.txt")
	if err := os.WriteFile(target, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link.txt")
	if err := os.Symlink(target, link); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
	if err := WriteFile(link, content("new")); err != nil {
		t.Fatal(err)
	}
	checkFile(t, other, "target.txt", "new")
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link was replaced: %v %v", info.Mode(), err)
	}
}

func TestLeftoverTemporaryFileIsNoObstacle(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a.txt")
	f, err := createTemp(path) // as a crash would leave it
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := WriteFile(path, content("x")); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(f.Name()); err != nil {
		t.Fatal(err)
	}
	checkFile(t, dir, "a.txt", "x")
}

// TestConcurrentReadersSeeWholeFiles has writers race on one path while a
// reader checks that it never sees a mixture or a part.
func TestConcurrentReadersSeeWholeFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows refuses to replace a file that is open for reading")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "a.txt")
	whole := func(k int) string { return strings.Repeat(string(rune('a'+k)), 100_000) }
	if err := WriteFile(path, content(whole(0))); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for k := range 4 {
		writers.Go(func() {
			for range 5 {
				if err := WriteFile(path, content(whole(k))); err != nil {
					t.Error(err)
				}
			}
		})
	}
	done := make(chan struct{})
	go func() { writers.Wait(); close(done) }()
	for running := true; running; {
		select {
		case <-done:
			running = false
		default:
		}
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 100_000 || strings.Count(string(got), string(got[:1])) != len(got) {
			t.Fatalf("read a mixture of %d bytes", len(got))
		}
	}
	checkEntries(t, dir, "a.txt")
}
