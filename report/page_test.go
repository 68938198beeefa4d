package report

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"image/png"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"fedrspo/run"
)

// federated are the stages of a federated run.
var federated = []Stage{{Metrics: "federated", Title: "Fed", Axis: "federated stage"}, {Metrics: "personal", Title: "+P", Axis: "personalisation", Personal: true}}

// samplePage is a page of made-up results: three clients, three rounds a stage.
func samplePage(losses []string, seeds []int64, stages []Stage) *Page {
	p := &Page{Title: "task toy", Table: "loss  regret\n", Task: "toy", Data: "generated", Stages: stages, Tau: 0.01, Names: map[int]string{1: "north", 2: "south"},
		Settings: []Setting{{"rounds", "3"}}, Version: run.Version{Version: "v1", Go: "go1.26", Platform: "linux/amd64", Kernel: "avx2"},
		Timing: run.Timing{Started: "2026-11-30T00:00:00Z", WallSeconds: 1.25, Workers: 2}}
	for k, loss := range losses {
		r := run.Result{Task: "toy", Loss: loss, Complete: true}
		for _, seed := range seeds {
			s := run.SeedResult{Seed: seed, Steps: 10 + k}
			for i, stage := range stages {
				var clients []run.ClientResult
				for id := 1; id <= 3; id++ {
					x := 0.01*float64(k+1) + 0.001*float64(id) + 0.0001*float64(seed) - 0.002*float64(i)
					c := run.ClientResult{Client: id, Regret: run.Regret{Relative: x, Absolute: 10 * x}}
					if loss == "rspo+" {
						u, after := 0.02, 1
						c.Lambda, c.Freeze, c.FrozenAfter = 0.5, &u, &after
					}
					clients = append(clients, c)
				}
				res := run.NewStageResult(clients)
				if stage.Personal {
					s.Personal = res
				} else {
					s.Fed = res
				}
				for round := range 3 {
					for id := range 3 {
						m := run.Metric{Loss: loss, Seed: seed, Stage: stage.Metrics, Round: round, TrainLoss: float64(9-round) + float64(seed), Rate: 0.001,
							Validation: &run.Regret{Relative: 0.3 / float64(round+1)}}
						if loss == "rspo+" {
							lambda := 1 / float64(round+1)
							m.Lambda, m.Freeze = &lambda, &lambda
						}
						if stage.Metrics != "federated" {
							m.Client = &[]int{1, 2, 3}[id]
						} else if id > 0 {
							break
						}
						p.Metrics = append(p.Metrics, m)
					}
				}
			}
			r.Seeds = append(r.Seeds, s)
			p.Timing.Runs = append(p.Timing.Runs, run.SeedTiming{Loss: loss, Seed: seed, WallSeconds: 0.5 + float64(k), PeakBytes: 33_000_000,
				Stages: []run.StageTiming{{Stage: stages[0].Metrics, WallSeconds: 0.25, EvaluationSeconds: 0.125, OracleSeconds: 1, NetworkSeconds: 3}}})
		}
		r.Summarize()
		p.Results = append(p.Results, r)
	}
	return p
}

// written is a report read back.
type written struct {
	html  string
	files map[string][]byte // pictures by slash path
}

func write(t *testing.T, p *Page) written {
	t.Helper()
	folder, err := run.Create(filepath.Join(t.TempDir(), "run"))
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(folder, p); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(folder.Path(File))
	if err != nil {
		t.Fatal(err)
	}
	w := written{html: string(data), files: map[string][]byte{}}
	entries, err := os.ReadDir(folder.Path(Dir))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		if w.files[Dir+"/"+e.Name()], err = os.ReadFile(folder.Path(Dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

var images = regexp.MustCompile(`<img src="data:image/png;base64,([A-Za-z0-9+/=]+)" width="(\d+)" height="(\d+)" alt="[^"]+">\n<figcaption>[^<]+ \(([^)]+)\)</figcaption>`)

// anchors are what can be linked to on a page.
var anchors = regexp.MustCompile(` id="([^"]*)"`)

// TestPage: the page holds every picture of the folder, byte for byte, and the
// numbers of the results; it refers to nothing outside itself.
func TestPage(t *testing.T) {
	local := []Stage{{Metrics: "local", Title: "local", Axis: "local training", Personal: true}}
	centralized := []Stage{{Metrics: "centralized", Title: "centralized", Axis: "centralised training"}}
	for name, c := range map[string]struct {
		page *Page
		want string // pictures
	}{
		"one method":      {samplePage([]string{"mse"}, []int64{42}, federated), "clients loss validation"},
		"methods, seeds":  {samplePage([]string{"rspo+", "spo+", "mse"}, []int64{1, 2}, federated), "clients loss schedule validation"},
		"local":           {samplePage([]string{"rspo+", "mse"}, []int64{1}, local), "clients loss schedule validation"},
		"centralised":     {samplePage([]string{"spo+", "rspo+"}, []int64{3}, centralized), "clients loss schedule validation"},
		"with a decision": {withDecision(t), "clients decision-1-client-2-sample-1 loss schedule validation"},
	} {
		t.Run(name, func(t *testing.T) {
			w := write(t, c.page)
			var names []string
			for file := range w.files {
				names = append(names, strings.TrimSuffix(filepath.Base(file), ".png"))
			}
			if got := sorted(names); got != c.want {
				t.Errorf("pictures %s, want %s", got, c.want)
			}
			found := images.FindAllStringSubmatch(html.UnescapeString(w.html), -1)
			if len(found) != len(w.files) || strings.Count(w.html, "<img") != len(found) {
				t.Errorf("%d pictures on the page, %d in the folder", len(found), len(w.files))
			}
			for _, m := range found {
				data, err := base64.StdEncoding.DecodeString(m[1])
				if err != nil || !bytes.Equal(data, w.files[m[4]]) {
					t.Errorf("%s on the page is not the file (%v)", m[4], err)
					continue
				}
				cfg, err := png.DecodeConfig(bytes.NewReader(data))
				if err != nil || fmt.Sprint(cfg.Width*2/3, cfg.Height*2/3) != m[2]+" "+m[3] || cfg.Width < 300 || cfg.Width > 1440 {
					t.Errorf("%s has %d x %d pixels and is shown as %s x %s (%v)", m[4], cfg.Width, cfg.Height, m[2], m[3], err)
				}
			}
			for _, outside := range []string{"http:", "https:", "<script", "<link", "@import", "url("} {
				if strings.Contains(w.html, outside) {
					t.Errorf("the page holds %q", outside)
				}
			}
			numbers(t, w.html, c.page)
			ids := map[string]bool{}
			for _, m := range anchors.FindAllStringSubmatch(w.html, -1) {
				if ids[m[1]] {
					t.Errorf("two things on the page have the id %q", m[1])
				}
				ids[m[1]] = true
			}
			// Again, the same bytes.
			again := write(t, c.page)
			if again.html != w.html || len(again.files) != len(w.files) {
				t.Error("another page the second time")
			}
			for file, data := range w.files {
				if !bytes.Equal(data, again.files[file]) {
					t.Errorf("%s differs the second time", file)
				}
			}
		})
	}
}

// numbers checks the page's tables against the results.
func numbers(t *testing.T, page string, p *Page) {
	t.Helper()
	for _, r := range p.Results {
		for _, s := range r.Seeds {
			for i, stage := range p.Stages {
				st := stage.of(s)
				row := fmt.Sprintf(`<td class="n">%d</td><td>%s</td><td class="n">%.2f</td><td class="n">%s</td>`, s.Seed, strings.ReplaceAll(stage.Title, "+", "&#43;"), 100*st.Relative, short(st.Absolute))
				if i == 0 {
					row += fmt.Sprintf(`<td class="n">%d</td><td class="n">0.25</td><td class="n">25</td><td class="n">0.12</td><td class="n">%.2f</td>`, s.Steps, p.timing(r.Loss, s.Seed).WallSeconds)
				} else {
					row += `<td class="n"></td><td class="n">-</td><td class="n">-</td><td class="n">-</td><td class="n"></td>`
				}
				if !strings.Contains(page, row) {
					t.Errorf("the page lacks %s", row)
				}
			}
		}
	}
	for id := 1; id <= 3; id++ {
		row := fmt.Sprintf(`<tr><td class="n">%d</td><td>%s</td>`, id, p.Names[id])
		for _, r := range p.Results {
			for _, stage := range p.Stages {
				var v []float64
				for _, s := range r.Seeds {
					v = append(v, 100*stage.of(s).Clients[id-1].Relative)
				}
				mean, _ := run.MeanStd(v)
				row += fmt.Sprintf(`<td class="n">%.2f</td>`, mean)
			}
		}
		if !strings.Contains(page, row+"</tr>") {
			t.Errorf("the page lacks %s", row)
		}
	}
	for _, text := range []string{"north", "v1, go1.26", "linux/amd64, avx2", "1.25 s with 2 workers", "33 MB", p.Table} {
		if !strings.Contains(page, text) {
			t.Errorf("the page lacks %q", text)
		}
	}
}

func withDecision(t *testing.T) *Page {
	p := samplePage([]string{"mse", "rspo+"}, []int64{1}, federated)
	p.Decisions = []Decision{*itemsDecision(t)}
	return p
}

// TestCaptions: a page speaks of regularised decisions where it shows some.
func TestCaptions(t *testing.T) {
	for name, decision := range map[string]func(*testing.T) *Decision{"items": itemsDecision, "grid": func(t *testing.T) *Decision { return mapDecision(t, 12) }} {
		p := samplePage([]string{"mse", "rspo+"}, []int64{1}, federated)
		d := *decision(t)
		p.Decisions = []Decision{d}
		if w := write(t, p); !strings.Contains(w.html, "A regularised decision") {
			t.Errorf("%s: regularised decisions are not explained", name)
		}
		p.Decisions[0].Regularized, p.Decisions[0].Methods = nil, slices.Clone(d.Methods)
		for k := range d.Methods {
			p.Decisions[0].Methods[k].Regularized = nil
		}
		if w := write(t, p); strings.Contains(w.html, "egularised decision") {
			t.Errorf("%s: it speaks of regularised decisions, but shows none", name)
		}
	}
}

func sorted(v []string) string {
	for i := range v {
		for k := i; k > 0 && v[k] < v[k-1]; k-- {
			v[k], v[k-1] = v[k-1], v[k]
		}
	}
	return strings.Join(v, " ")
}

// TestMeasures: the page shows the task's own measure, in its own unit.
func TestMeasures(t *testing.T) {
	for measure, want := range map[run.Measure][]string{
		run.RelativeRegret: {"relative regret (%)", `>2.12</td><td class="n">12</td>`},
		run.OptimalityGap:  {"optimality gap (%)", `>34.50</td><td class="n">12</td>`},
		run.AbsoluteRegret: {"absolute regret", `<td class="n">12</td><td class="n">10</td>`},
	} {
		p := samplePage([]string{"mse"}, []int64{1}, federated)
		p.Results[0].Metric, p.Metrics = measure, nil
		p.Results[0].Seeds[0].Fed.Regret = run.Regret{Relative: 0.0212, Gap: 0.345, Absolute: 12}
		page := images.ReplaceAllString(html.UnescapeString(write(t, p).html), "")
		for _, text := range want {
			if !strings.Contains(page, text) {
				t.Errorf("%s: the page lacks %q", measure, text)
			}
		}
		if measure == run.AbsoluteRegret && strings.Contains(page, "(%)") {
			t.Errorf("%s: in percent", measure)
		}
	}
}

// TestUnfinished: what a run that failed or was interrupted lacks is left out,
// and the page says so.
func TestUnfinished(t *testing.T) {
	p := samplePage([]string{"rspo+", "mse", "spo+"}, []int64{1, 2}, federated)
	p.Results[0].Seeds[1].Personal = nil // interrupted in personalisation
	p.Results[0].Complete = false
	p.Results[1].Seeds = p.Results[1].Seeds[:1]
	p.Results[1].Seeds[0].Fed.Clients = p.Results[1].Seeds[0].Fed.Clients[:2] // a client without a result
	p.Results[2].Seeds, p.Results[2].Complete = nil, false
	var kept []run.Metric
	for _, m := range p.Metrics {
		if m.Loss == "mse" || m.Loss == "rspo+" && m.Seed == 1 {
			m.Validation = nil
			kept = append(kept, m)
		}
	}
	p.Metrics = kept
	w := write(t, p)
	for _, text := range []string{"rspo&#43; is not complete", "spo&#43; is not complete", `<td class="n">3</td><td></td><td class="n">`, `<td class="n">-</td>`} {
		if !strings.Contains(w.html, text) {
			t.Errorf("the page lacks %q", text)
		}
	}
	if strings.Contains(w.html, "mse is not complete") || strings.Contains(images.ReplaceAllString(html.UnescapeString(w.html), ""), "NaN") {
		t.Error("the page says too much")
	}
	if w.files[Dir+"/validation.png"] != nil {
		t.Error("a picture of regrets that were not measured")
	}
	// Nothing but a result.
	p = &Page{Results: []run.Result{{Loss: "a"}}, Stages: federated}
	if w := write(t, p); len(w.files) != 0 || strings.Contains(w.html, "<img") {
		t.Error("pictures of nothing")
	}
}

// TestRewrite: a report takes the place of an earlier one, and leaves files that
// are not its own.
func TestRewrite(t *testing.T) {
	folder, err := run.Create(filepath.Join(t.TempDir(), "run"))
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(folder, withDecision(t)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mine.png", "decision-notes.txt"} {
		if err := os.WriteFile(folder.Path(Dir, name), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	p := samplePage([]string{"mse"}, []int64{1}, federated)
	for k := range p.Metrics {
		p.Metrics[k].Validation = nil
	}
	if err := Write(folder, p); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(folder.Path(Dir))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if got := sorted(names); err != nil || got != "clients.png decision-notes.txt loss.png mine.png" {
		t.Errorf("%s are left (%v)", got, err)
	}
}

// TestEscapes: names from data are text, whatever they hold.
func TestEscapes(t *testing.T) {
	p := samplePage([]string{"mse"}, []int64{1}, federated)
	const evil = `</pre><script>alert("x")</script>`
	p.Title, p.Table, p.Names[1], p.Data, p.Settings = evil, evil, evil, evil, []Setting{{evil, evil}}
	p.Decisions = []Decision{*itemsDecision(t)}
	p.Decisions[0].Why, p.Decisions[0].View.Entry = evil, evil
	if page := write(t, p).html; strings.Contains(page, "<script") || strings.Count(page, "</pre>") != 1 || strings.Count(page, "&lt;script&gt;") < 8 {
		t.Error("a name became markup")
	}
}

// TestWriteRefuses: a page whose parts do not fit writes nothing.
func TestWriteRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Page)
		says   string
	}{
		"no results":   {func(p *Page) { p.Results = nil }, "no results"},
		"no stages":    {func(p *Page) { p.Stages = nil }, "no stages"},
		"many rounds":  {func(p *Page) { p.Metrics[3].Round = math.MaxInt }, "line 4"},
		"no costs":     {func(p *Page) { p.Decisions[0].Cost = nil }, "client 2, sample 1: no costs"},
		"short":        {func(p *Page) { p.Decisions[0].Methods[1].W = p.Decisions[0].Cost[1:] }, "decision of rspo+ of length 49, want 50"},
		"sizes":        {func(p *Page) { p.Decisions[0].View.Size = []float64{1} }, "sizes of length 1"},
		"wrong optima": {func(p *Page) { p.Decisions[0].Optimal = nil }, "optimal decision of length 0"},
		"no grid":      {func(p *Page) { p.Decisions[0] = *mapDecision(t, 12); p.Decisions[0].View.Grid.Width = 7 }, "12 x 7"},
		"no endpoint":  {func(p *Page) { p.Decisions[0] = *mapDecision(t, 12); p.Decisions[0].View.Grid.Sink = 144 }, "144"},
	} {
		p := withDecision(t)
		c.change(p)
		folder, err := run.Create(filepath.Join(t.TempDir(), "run"))
		if err != nil {
			t.Fatal(err)
		}
		if err := Write(folder, p); !errors.Is(err, ErrPage) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
		if _, err := os.Stat(folder.Path(File)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: a page was written (%v)", name, err)
		}
	}
	// A folder that cannot be written is an error that names the file.
	folder, err := run.Create(filepath.Join(t.TempDir(), "run"))
	if err != nil {
		t.Fatal(err)
	}
	if err := folder.Write(Dir, func(io.Writer) error { return nil }); err != nil { // a file in the folder's place
		t.Fatal(err)
	}
	if err := Write(folder, withDecision(t)); err == nil || !strings.Contains(err.Error(), Dir) {
		t.Errorf("a file where the pictures go: %v", err)
	}
}
