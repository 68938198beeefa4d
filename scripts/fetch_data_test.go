package scripts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"fedrspo/task/pjm"
)

const folder = "warcraft_shortest_path_oneskin"

func sum(b []byte) string {
	s := md5.Sum(b)
	return hex.EncodeToString(s[:])
}

// archive packs files as the published archive is packed.
func archive(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for name, content := range files {
		if err := w.WriteHeader(&tar.Header{Name: folder + "/" + name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// mirror serves files by their path, and breaks the connection in the middle of
// the first answers to a path in cuts. With plain, it knows no ranges.
type mirror struct {
	files map[string][]byte
	plain bool
	mu    sync.Mutex
	cuts  map[string]int
	log   []string // path and range of every request
}

func (m *mirror) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log = append(m.log, r.URL.Path+" "+r.Header.Get("Range"))
	content, ok := m.files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	if m.cuts[r.URL.Path] > 0 {
		m.cuts[r.URL.Path]--
		from := 0
		if at := strings.TrimSuffix(strings.TrimPrefix(r.Header.Get("Range"), "bytes="), "-"); at != "" && !m.plain {
			from, _ = strconv.Atoi(at)
			w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%d", from, len(content)-1, len(content)))
			w.Header().Set("Content-Length", strconv.Itoa(len(content)-from))
			w.WriteHeader(http.StatusPartialContent)
		} else {
			w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		}
		w.Write(content[from : from+(len(content)-from)/2])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	if m.plain {
		w.Write(content)
		return
	}
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// put serves content at a path.
func (m *mirror) put(path string, content []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.files[path] = content
}

// cut breaks the first n connections for a path.
func (m *mirror) cut(path string, n int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cuts[path] = n
}

// noRanges makes the mirror one that knows no ranges.
func (m *mirror) noRanges(plain bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.plain = plain
}

// requests returns what was asked for so far.
func (m *mirror) requests() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.log)
}

// world is a mirror, a folder to fetch to, and what the archive should be.
type world struct {
	*mirror
	dir, url string
	env      []string
	files    map[string][]byte
	packed   []byte
}

const packedPath = "/warcraft_maps.tar.gz"

func newWorld(t *testing.T) *world {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("a shell script")
	}
	if testing.Short() {
		t.Skip("it waits for broken connections")
	}
	for _, tool := range []string{"bash", "tar", "gzip"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	// Not to be compressed, so that cuts leave more than a header.
	noise := make([]byte, 200_000)
	for i, x := 0, uint32(1); i < len(noise); i++ {
		x = x*1664525 + 1013904223
		noise[i] = byte(x >> 24)
	}
	files := map[string][]byte{"12x12/train_maps.npy": noise, "12x12/info.json": []byte("{}"), "18x18/train_maps_part0.npy": []byte("part 0")}
	w := &world{dir: t.TempDir(), files: files, packed: archive(t, files)}
	w.mirror = &mirror{files: map[string][]byte{packedPath: w.packed}, cuts: map[string]int{}}
	server := httptest.NewServer(w.mirror)
	t.Cleanup(server.Close)
	w.url = server.URL
	list := filepath.Join(t.TempDir(), "md5.txt")
	var lines strings.Builder
	for name, content := range files {
		if strings.HasSuffix(name, ".npy") {
			fmt.Fprintf(&lines, "%s  %s/%s\n", sum(content), folder, name)
		}
	}
	if err := os.WriteFile(list, []byte(lines.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	w.env = []string{"WARCRAFT_URLS=" + w.url + packedPath, "WARCRAFT_MD5=" + sum(w.packed), "WARCRAFT_FILES=" + list}
	return w
}

// run runs the script and returns what it said.
func (w *world) run(t *testing.T, ok bool, args ...string) string {
	t.Helper()
	cmd := exec.Command("bash", append([]string{"fetch_data.sh"}, args...)...)
	cmd.Env = append(append(os.Environ(), "no_proxy=127.0.0.1", "NO_PROXY=127.0.0.1", "http_proxy="), w.env...)
	out, err := cmd.CombinedOutput()
	if (err == nil) != ok {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

// warcraft runs the script for the maps.
func (w *world) warcraft(t *testing.T, ok bool) string {
	t.Helper()
	return w.run(t, ok, "warcraft", w.dir)
}

// holds checks that the folder of the maps holds these entries and no others.
func (w *world) holds(t *testing.T, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(w.dir, "warcraft"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("the folder holds %v, want %v", got, want)
	}
}

// complete checks that all maps are there, and nothing else.
func (w *world) complete(t *testing.T) {
	t.Helper()
	w.holds(t, folder)
	for name, content := range w.files {
		got, err := os.ReadFile(filepath.Join(w.dir, "warcraft", folder, name))
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("%s: %d bytes, want %d, error %v", name, len(got), len(content), err)
		}
	}
}

func says(t *testing.T, out string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(out, w) {
			t.Errorf("it does not say %q:\n%s", w, out)
		}
	}
}

// without returns a PATH of what the script needs but for one tool.
func without(t *testing.T, tool string) string {
	dir := t.TempDir()
	for _, name := range []string{"bash", "cat", "curl", "cut", "date", "dirname", "find", "grep", "gzip", "head", "md5sum", "mkdir", "mv", "rm", "sed", "sha256sum", "sleep", "tail", "tar", "tr", "wc", "wget"} {
		path, err := exec.LookPath(name)
		if err != nil && (name == "curl" || name == "wget") && name != tool {
			t.Skipf("%s is not installed", name)
		}
		if err != nil || name == tool {
			continue
		}
		if err := os.Symlink(path, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return "PATH=" + dir
}

// TestWarcraft: success; a second run fetches nothing; connections that break
// are taken up where they broke. With curl, and with wget where there is no
// curl.
func TestWarcraft(t *testing.T) {
	t.Parallel()
	for _, tool := range []string{"wget", "curl"} {
		t.Run("without "+tool, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.env = append(w.env, without(t, tool))
			w.cut(packedPath, 2)
			out := w.warcraft(t, true)
			says(t, out, "the connection broke after", "complete:")
			w.complete(t)
			log := w.requests()
			half := len(w.packed) / 2
			if len(log) != 3 || log[0] != packedPath+" " || log[1] != fmt.Sprintf("%s bytes=%d-", packedPath, half) {
				t.Errorf("requests %q", log)
			}
			says(t, w.warcraft(t, true), "complete:")
			if n := len(w.requests()); n != 3 {
				t.Errorf("the second run made %d requests", n-3)
			}
		})
	}
}

// TestResume: a run that was interrupted is taken up by the next, from another
// mirror if need be, also by a server that knows no ranges; and a partial file
// that is of something else is fetched anew.
func TestResume(t *testing.T) {
	t.Parallel()
	part := func(w *world) string { return filepath.Join(w.dir, "warcraft", "warcraft_maps.tar.gz.part") }
	start := func(w *world, content []byte) {
		if err := os.MkdirAll(filepath.Dir(part(w)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(part(w), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		name     string
		content  func(*world) []byte
		plain    bool
		requests int
		says     string
	}{
		{"a part", func(w *world) []byte { return w.packed[:1000] }, false, 1, "complete:"},
		{"all of it", func(w *world) []byte { return w.packed }, false, 0, "complete:"},
		{"a part, no ranges", func(w *world) []byte { return w.packed[:1000] }, true, 2, "complete:"},
		{"something else", func(w *world) []byte { return bytes.Repeat([]byte("x"), 1000) }, false, 2, "a part of it was here before"},
		{"too much", func(w *world) []byte { return append(bytes.Clone(w.packed), 0) }, false, 2, "complete:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.noRanges(c.plain)
			start(w, c.content(w))
			says(t, w.warcraft(t, true), c.says)
			w.complete(t)
			if n := len(w.requests()); n != c.requests {
				t.Errorf("%d requests, want %d: %q", n, c.requests, w.requests())
			}
		})
	}
}

// TestMirrors: the first place is gone, the second has something else, and the
// third has it.
func TestMirrors(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.put("/other", bytes.Repeat([]byte("other"), 50_000))
	w.put("/good", w.packed)
	w.env = append(w.env, fmt.Sprintf("WARCRAFT_URLS=%s/gone %s/other %s/good", w.url, w.url, w.url))
	out := w.warcraft(t, true)
	says(t, out, "cannot be fetched: "+w.url+"/gone", "wrong checksum", "want "+sum(w.packed), "fetching "+w.url+"/good", "complete:")
	w.complete(t)
}

// TestAllGone: nothing is left behind, and the user learns what to do.
func TestAllGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.env = append(w.env, "WARCRAFT_URLS="+w.url+"/gone http://127.0.0.1:1/closed")
	says(t, w.warcraft(t, false), "By hand:", "doi:10.17617/3.YJCQ5S", filepath.Join(w.dir, "warcraft", "warcraft_maps.tar.gz"), "generated maps")
	w.holds(t)
	// As it says: the file put there by hand is checked, unpacked and kept.
	byHand := filepath.Join(w.dir, "warcraft", "warcraft_maps.tar.gz")
	if err := os.WriteFile(byHand, w.packed[1:], 0o644); err != nil {
		t.Fatal(err)
	}
	says(t, w.warcraft(t, false), "wrong checksum", "remove it")
	w.holds(t, "warcraft_maps.tar.gz")
	if err := os.WriteFile(byHand, w.packed, 0o644); err != nil {
		t.Fatal(err)
	}
	w.warcraft(t, true)
	w.holds(t, "warcraft_maps.tar.gz", folder)
}

// TestWrongFiles: an archive whose files are not the published ones leaves
// nothing unpacked, and a folder that was changed is told from the published
// one.
func TestWrongFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	bad := archive(t, map[string][]byte{"12x12/train_maps.npy": []byte("maps"), "18x18/train_maps_part0.npy": []byte("part 0")})
	w.put("/bad", bad)
	good := slices.Clone(w.env)
	w.env = append(w.env, "WARCRAFT_URLS="+w.url+"/bad", "WARCRAFT_MD5="+sum(bad))
	says(t, w.warcraft(t, false), "wrong checksum: ", "12x12/train_maps.npy", "does not hold the published data")
	w.holds(t, "warcraft_maps.tar.gz")
	for _, broken := range [][]byte{[]byte("not an archive"), archive(t, nil)} {
		w := newWorld(t)
		w.put("/bad", broken)
		w.env = append(w.env, "WARCRAFT_URLS="+w.url+"/bad", "WARCRAFT_MD5="+sum(broken))
		w.warcraft(t, false)
		w.holds(t, "warcraft_maps.tar.gz")
	}
	if err := os.Remove(filepath.Join(w.dir, "warcraft", "warcraft_maps.tar.gz")); err != nil {
		t.Fatal(err)
	}
	w.env = good
	w.warcraft(t, true)
	path := filepath.Join(w.dir, "warcraft", folder, "18x18/train_maps_part0.npy")
	if err := os.WriteFile(path, []byte("part 1"), 0o644); err != nil {
		t.Fatal(err)
	}
	says(t, w.warcraft(t, false), "wrong checksum: "+path, "remove it")
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	says(t, w.warcraft(t, false), "missing: "+path)
	// A list without sums must not pass anything for complete, nor one whose last
	// line has no end.
	list := filepath.Join(t.TempDir(), "list")
	w.env = append(good, "WARCRAFT_FILES="+list)
	says(t, w.warcraft(t, false), "no list of md5 sums in "+list)
	for text, want := range map[string]string{"": "no list of md5 sums in " + list, sum(nil) + "  " + folder + "/18x18/train_maps_part0.npy": "missing: " + path} {
		if err := os.WriteFile(list, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		says(t, w.warcraft(t, false), want)
	}
}

// TestPJM: the authors' table, from the second place; then the sources of a
// year, where the weather of one zone is not to be had at first.
func TestPJM(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	table := []byte("client_id,date,total_lmp_0,bess,client_name\n1,2025-01-01,1.5,6,AECO\n")
	w.put("/table.csv", table)
	w.put("/wrong.csv", bytes.Replace(table, []byte("total"), []byte("local"), 1))
	w.put("/prices_2024.csv", []byte("a\nb\nc\n\"UTC Timestamp (Interval Ending)\",\"AECO LMP\"\n"))
	w.put("/weather", []byte("{\"hourly\": {\"time\": []}}\n"))
	w.env = append(w.env, "PJM_URLS="+w.url+"/wrong.csv "+w.url+"/table.csv", "PJM_BYTES="+strconv.Itoa(len(table)),
		"EIA_URL="+w.url+"/prices_%s.csv", "WEATHER_URL="+w.url+"/weather")
	says(t, w.run(t, true, "pjm", w.dir), "wrong content", "complete:")
	got, err := os.ReadFile(filepath.Join(w.dir, "pjm", "pjm_data.csv"))
	if err != nil || !bytes.Equal(got, table) {
		t.Fatalf("the table is %q, error %v", got, err)
	}
	says(t, w.run(t, true, "--year", "2024", "pjm", w.dir), "raw/2024")
	entries, err := os.ReadDir(filepath.Join(w.dir, "pjm", "raw", "2024"))
	if err != nil || len(entries) != 21 { // prices, 19 zones, sums
		t.Errorf("%d files, error %v", len(entries), err)
	}
	before := len(w.requests())
	w.run(t, true, "--year", "2024", "pjm", w.dir)
	if n := len(w.requests()); n != before {
		t.Errorf("the second run made %d requests", n-before)
	}
	w.put("/weather", []byte(`{"error": true, "reason": "limit"}`))
	w.put("/prices_2023.csv", []byte("<html>"))
	says(t, w.run(t, false, "pjm", w.dir, "--year", "2023"), "no prices of 2023", "no weather of RECO in 2023", "is no JSON object with hourly weather")
	entries, err = os.ReadDir(filepath.Join(w.dir, "pjm", "raw", "2023"))
	if err != nil || len(entries) != 1 {
		t.Errorf("%d files of a failed year, error %v", len(entries), err)
	}
	w.env = append(w.env, "PJM_URLS="+w.url+"/gone", "PJM_BYTES=1")
	says(t, w.run(t, false, "pjm", w.dir), "wrong size", "remove it")
	if err := os.Remove(filepath.Join(w.dir, "pjm", "pjm_data.csv")); err != nil {
		t.Fatal(err)
	}
	says(t, w.run(t, false, "all", w.dir), "By hand:", "kziliask/RSPO_Plus")
	w.complete(t)
}

// TestUsage: calls that ask for nothing this script does.
func TestUsage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, args := range [][]string{{}, {"maps"}, {"warcraft", "a", "b"}, {"--year", "24", "pjm"}, {"--year"}, {"--all"}, {"--year", "2024", "warcraft"}} {
		says(t, w.run(t, false, args...), "usage: scripts/fetch_data.sh")
	}
	says(t, w.run(t, true, "--help"), "warcraft|pjm|all [DIR]", "Exit status")
}

// TestZones: the script asks for the weather of the places of task/pjm.
func TestZones(t *testing.T) {
	text, err := os.ReadFile("fetch_data.sh")
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, z := range pjm.Zones() {
		fmt.Fprintf(&want, "%s %.2f %.2f\n", z.Name, z.Latitude, z.Longitude)
	}
	if list := "zones='" + strings.TrimSuffix(want.String(), "\n") + "'"; !strings.Contains(string(text), list) {
		t.Errorf("the script does not have\n%s", list)
	}
}

// TestListOfFiles: the list that comes with the repository has 45 files, nine of
// 12 x 12 and twelve of each larger grid, which are published in two parts.
func TestListOfFiles(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "data", "warcraft", "official_npy_md5.txt"))
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) != 2 {
			t.Fatalf("line %q", line)
		}
		parts := strings.Split(fields[1], "/")
		if b, err := hex.DecodeString(fields[0]); err != nil || len(b) != md5.Size || len(parts) != 3 || parts[0] != folder || !strings.HasSuffix(parts[2], ".npy") {
			t.Errorf("line %q", line)
		}
		count[parts[1]]++
	}
	if len(count) != 4 || count["12x12"] != 9 || count["18x18"] != 12 || count["24x24"] != 12 || count["30x30"] != 12 {
		t.Errorf("files by grid: %v", count)
	}
}
