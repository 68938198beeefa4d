package report

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"html/template"
	"image/png"
	"io"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"fedrspo/run"
)

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// ErrPage is wrapped by errors about a page whose parts do not fit together.
var ErrPage = errors.New("nothing to report")

// maxRounds keeps broken metrics from reserving all memory.
const maxRounds = 1_000_000

// check reports what cannot be drawn.
func (p *Page) check() error {
	if len(p.Results) == 0 || len(p.Stages) == 0 {
		return fmt.Errorf("no results or no stages: %w", ErrPage)
	}
	for i, m := range p.Metrics {
		if m.Round >= maxRounds {
			return fmt.Errorf("line %d of the metrics: round %d, want one below %d: %w", i+1, m.Round, maxRounds, ErrPage)
		}
	}
	for i := range p.Decisions {
		if err := p.Decisions[i].check(); err != nil {
			return fmt.Errorf("%w: %w", err, ErrPage)
		}
	}
	return nil
}

// picture is a figure of the page.
type picture struct {
	section, id, caption string
	draw                 func() *figure
	png                  []byte // nil if there is nothing to draw
}

// Write draws the page and writes File and, below Dir, its pictures to the
// folder, in place of an earlier report. Other files below Dir stay.
func Write(folder *run.Folder, p *Page) error {
	if err := p.check(); err != nil {
		return err
	}
	pictures, err := p.pictures()
	if err != nil {
		return err
	}
	page, err := p.html(pictures)
	if err != nil {
		return err
	}
	for _, pic := range pictures {
		if err := writeBytes(folder, filepath.Join(Dir, pic.id+".png"), pic.png); err != nil {
			return err
		}
	}
	if err := writeBytes(folder, File, page); err != nil {
		return err
	}
	return removeOld(folder, pictures)
}

// removeOld removes the pictures that an earlier report has left and this one
// does not have.
func removeOld(folder *run.Folder, pictures []*picture) error {
	entries, err := os.ReadDir(folder.Path(Dir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, e := range entries {
		id, isPNG := strings.CutSuffix(e.Name(), ".png")
		ours := slices.Contains([]string{validationID, lossID, scheduleID, clientsID}, id) || strings.HasPrefix(id, decisionID)
		if isPNG && ours && !slices.ContainsFunc(pictures, func(p *picture) bool { return p.id == id }) {
			if err := os.Remove(folder.Path(Dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// The names of pictures; those of decisions go on.
const (
	validationID = "validation"
	lossID       = "loss"
	scheduleID   = "schedule"
	clientsID    = "clients"
	decisionID   = "decision-"
)

func writeBytes(folder *run.Folder, name string, data []byte) error {
	return folder.Write(name, func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	})
}

// pictures draws the figures that have something to show, on all cores.
func (p *Page) pictures() ([]*picture, error) {
	title := p.measure().Title()
	band := ""
	for _, r := range p.Results {
		if len(r.Seeds) > 1 {
			band = " Lines are means over seeds, bands reach from the least to the greatest."
		}
	}
	all := []*picture{
		{section: "Training", id: validationID, draw: p.validationFigure,
			caption: upper(title) + " after every round, unweighted mean over clients, on a few fixed validation samples of each client that are spread evenly over its split; in stages where every client has a model of its own, one that stopped early keeps its last number. Test samples are only looked at when a stage has ended." + band},
		{section: "Training", id: lossID, draw: p.lossFigure,
			caption: "Mean training loss over the samples of a round. Losses are not comparable between methods. A client that stopped early keeps its last number." + band},
		{section: "Training", id: scheduleID, draw: p.scheduleFigure,
			caption: "Means over clients. λ and η shrink until the freeze statistic Ũ, the relative cost of regularisation on validation samples, is at most τ." + band},
		{section: "Clients", id: clientsID, draw: p.clientsFigure,
			caption: upper(title) + " of every client on its test samples, mean over seeds."},
	}
	for i := range p.Decisions {
		d := &p.Decisions[i]
		pic := &picture{section: "Decisions", id: decisionID + fmt.Sprintf("%d-client-%d-sample-%d", i+1, d.Client, d.Sample)}
		pic.caption = fmt.Sprintf("%s, test sample %d: %s. ", upper(p.client(d.Client)), d.Sample, d.Why)
		if d.View.Grid != nil {
			pic.draw = func() *figure { return gridFigure(d) }
			pic.caption += "Percentages are true costs over the optimum."
			if d.Regularized != nil {
				pic.caption += " A regularised decision is the one that minimises cost + λ/2 |w|², fractional by nature; predictions are judged by paths only."
			}
		} else {
			pic.draw = func() *figure { return p.itemsFigure(d) }
			pic.caption += fmt.Sprintf("Top: %s of each %s, true and predicted. Below: what is decided from the true %ss, and from each prediction; percentages compare with the optimum.", d.valueName(), d.entryName(), d.valueName())
			if d.Regularized != nil {
				pic.caption += " A regularised decision minimises cost + λ/2 |w|²."
			}
		}
		all = append(all, pic)
	}
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	for i, pic := range all {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			if f := pic.draw(); f != nil {
				pic.png, errs[i] = f.encode()
			}
		})
	}
	wg.Wait()
	return slices.DeleteFunc(all, func(pic *picture) bool { return pic.png == nil }), errors.Join(errs...)
}

// upper begins a sentence.
func upper(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

// The parts of the template.
type (
	pageData struct {
		Title, Table, Measure string
		// InUnits says that the measure is the absolute regret.
		InUnits          bool
		Warnings         []string
		Header, Settings []Setting
		Sections         []section
		Seeds            []seedRow
		ClientColumns    []string
		Clients          []clientRow
	}
	section struct {
		Title   string
		Figures []figureData
	}
	figureData struct {
		ID, File, Caption, Alt string
		Source                 template.URL
		Width, Height          int
	}
	seedRow struct {
		Loss                            string
		Seed                            int64
		Stage, Regret, Absolute, Steps  string
		Training, Oracle, Judging, Wall string
	}
	clientRow struct {
		ID    int    // what -show calls it
		Name  string // empty for none
		Cells []string
	}
)

func (p *Page) html(pictures []*picture) ([]byte, error) {
	m := p.measure()
	d := pageData{Title: p.Title, Table: p.Table, Settings: p.Settings, Measure: m.label, InUnits: m.absolute()}
	for _, r := range p.Results {
		if !r.Complete {
			d.Warnings = append(d.Warnings, fmt.Sprintf("%s is not complete: seeds or stages are missing.", r.Loss))
		}
	}
	d.Header = p.header()
	for _, pic := range pictures {
		// Pictures have two pixels a point of 1/72 inch, pages 96 a inch.
		cfg, err := png.DecodeConfig(bytes.NewReader(pic.png))
		if err != nil {
			return nil, err
		}
		file := path.Join(Dir, pic.id+".png")
		f := figureData{ID: pic.id, File: file, Caption: pic.caption, Alt: pic.caption,
			Width: cfg.Width * 96 / dpi, Height: cfg.Height * 96 / dpi,
			Source: template.URL("data:image/png;base64," + base64.StdEncoding.EncodeToString(pic.png))} // our own bytes
		if n := len(d.Sections); n == 0 || d.Sections[n-1].Title != pic.section {
			d.Sections = append(d.Sections, section{Title: pic.section})
		}
		last := &d.Sections[len(d.Sections)-1]
		last.Figures = append(last.Figures, f)
	}
	for _, r := range p.Results {
		for _, seed := range r.Seeds {
			row := seedRow{Loss: r.Loss, Seed: seed.Seed, Steps: fmt.Sprint(seed.Steps)}
			timing := p.timing(r.Loss, seed.Seed)
			row.Wall = seconds(timing.WallSeconds)
			for _, s := range p.Stages {
				if st := s.of(seed); st != nil {
					row.Stage, row.Regret, row.Absolute = s.Title, m.text(m.of(st.Regret)), short(st.Absolute)
					row.times(timing, s.Metrics)
					d.Seeds = append(d.Seeds, row)
					row.Steps, row.Wall = "", ""
				}
			}
		}
	}
	for _, r := range p.Results {
		for _, s := range p.Stages {
			d.ClientColumns = append(d.ClientColumns, r.Loss+" "+s.Title)
		}
	}
	for _, c := range p.clientRegrets() {
		row := clientRow{ID: c.client, Name: p.Names[c.client]}
		for k := range p.Results {
			for s := range p.Stages {
				text := "-"
				if x := c.regret[s][k]; !math.IsNaN(x) {
					text = m.text(x)
				}
				row.Cells = append(row.Cells, text)
			}
		}
		d.Clients = append(d.Clients, row)
	}
	var buf bytes.Buffer
	err := pageTemplate.Execute(&buf, d)
	return buf.Bytes(), err
}

// header lists what was run, where and how long.
func (p *Page) header() []Setting {
	var methods []string
	var seeds []int64
	for _, r := range p.Results {
		methods = append(methods, r.Loss)
		for _, s := range r.Seeds {
			if !slices.Contains(seeds, s.Seed) {
				seeds = append(seeds, s.Seed)
			}
		}
	}
	v := p.Version
	version := v.Version
	if v.Revision != "" {
		version += ", revision " + v.Revision
		if v.Modified {
			version += " with local changes"
		}
	}
	rows := []Setting{
		{"task", p.Task},
		{"data", p.Data},
		{"methods", strings.Join(methods, ", ")},
		{"seeds", strings.Trim(fmt.Sprint(seeds), "[]")},
		{"program", "fedrspo " + version + ", " + v.Go},
		{"machine", v.Platform + ", " + v.Kernel + " kernels"},
	}
	if t := p.Timing; t.Workers > 0 {
		rows = append(rows, Setting{"time", fmt.Sprintf("%.2f s with %s, started %s", t.WallSeconds, plural(t.Workers, "worker"), t.Started)})
	}
	peak := int64(0)
	for _, t := range p.Timing.Runs {
		peak = max(peak, t.PeakBytes)
	}
	if peak > 0 {
		rows = append(rows, Setting{"memory", fmt.Sprintf("%.0f MB at most", float64(peak)/1e6)})
	}
	return rows
}

func plural(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// timing is that of a training run, without numbers where it is not known.
func (p *Page) timing(loss string, seed int64) run.SeedTiming {
	for _, t := range p.Timing.Runs {
		if t.Loss == loss && t.Seed == seed {
			return t
		}
	}
	return run.SeedTiming{}
}

// times fills in where the time of a stage went.
func (r *seedRow) times(t run.SeedTiming, stage string) {
	r.Training, r.Oracle, r.Judging = "-", "-", "-"
	for _, s := range t.Stages {
		if s.Stage != stage {
			continue
		}
		r.Training, r.Judging = seconds(s.WallSeconds), seconds(s.EvaluationSeconds)
		if sum := s.OracleSeconds + s.NetworkSeconds; sum > 0 {
			r.Oracle = fmt.Sprintf("%.0f", 100*s.OracleSeconds/sum)
		}
	}
}

// seconds is a time, or a dash for none.
func seconds(x float64) string {
	if x == 0 {
		return "-"
	}
	return fmt.Sprintf("%.2f", x)
}
