package experiment

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"fedrspo/run"
)

// Docs writes a page about every experiment: what it is, the command, the cost,
// expected against obtained, and what follows. Every number comes from the
// finished tables, so that the same results give the same pages but for the
// lines that start with "Cost:" or "Made:".
type Docs struct {
	// Folder is where the pages go.
	Folder *run.Folder
	// Quick makes the pages from one seed, to see that they come out.
	Quick bool
	// Finish makes a table.
	Finish func(context.Context, *Table, Options) (*Finished, error)
	// Result and Cost are those of the Runner behind Finish.
	Result func(Job) run.SeedResult
	Cost   func([]Job) (runs int, seconds float64)

	// bounds is KnapsackBounds, unless a test has another.
	bounds func(context.Context, [3]float64, int64) (*Bounds, error)
}

// page is what a page says beside its numbers.
type page struct {
	// table is a name for Tables.
	table string
	// about says what the experiment is.
	about string
	// rates are the versions on the page; empty is paper alone.
	rates []string
	// paperSeeds: the page is about the paper's seeds only.
	paperSeeds bool
	// findings draws conclusions from the versions, in the order of rates.
	findings func(d *Docs, versions []*Finished) []string
}

// finding is a page in the index.
type finding struct {
	file, name, title string
	versions          []*Finished
	findings          []string
	cost              string
}

// pages are in the paper's order.
var pages = []page{
	{table: "3", rates: []string{"paper", "matched", "tuned"}, findings: rateFindings,
		about: "The main comparison on the fractional knapsack: five losses, federated (Fed) and after personalisation (+P), over seven settings of heterogeneity (objective, constraint, data). The paper trains RSPO+ at learning rates calibrated from the data and every other loss at 0.001; the second and third version of the table give all losses the same pace."},
	{table: "4", findings: interpFindings,
		about: "Interp-DFFL, which interpolates between a local and the federated SPO+ model, and the OptNet-style loss, which differentiates through the projection, beside FedRSPO+."},
	{table: "9", findings: ablationFindings,
		about: "What each component of FedRSPO+ adds: the surrogate with one lambda and learning rate for all, then per client, then personalisation at constant lambda, then annealing with the freeze rule."},
	{table: "14", paperSeeds: true, findings: centralisedFindings,
		about: "Training on everybody's data, and training alone, as the two ends between which federated training lies."},
	{table: "16", about: "How far the regularised decision is from the linear one, which is what counts, at the end of personalisation: the distance over the mean norm of the linear decision, and the difference in cost over the optimum."},
	{table: "17", findings: alignmentFindings,
		about: "The same distance in absolute terms, for the federated model and after personalisation, and the freeze statistic, over the full grid of 27 settings."},
	{table: "18", paperSeeds: true, findings: linearFindings,
		about: "Table 3 with the predictor of the paper's convergence theorem, a matrix."},
	{table: "text", paperSeeds: true, findings: textFindings, about: "Numbers that the paper gives in its text only."},
	{table: "figure 3", paperSeeds: true, findings: sweepFindings, about: "How the advantage of RSPO+ over SPO+ depends on the share of clients in a round, the number of clients and the scale alpha of the learning rate."},
	{table: "figure 4", paperSeeds: true, findings: sweepFindings, about: "How it depends on annealing, the freeze threshold and the number of samples that the freeze rule looks at."},
}

// Write makes everything and writes the pages.
func (d Docs) Write(ctx context.Context) error {
	made := "Made: " + time.Now().UTC().Format(time.DateOnly) + ", " + machine() + "."
	var index []finding
	for _, p := range pages {
		f, err := d.page(ctx, p, made)
		if err != nil {
			return err
		}
		index = append(index, f)
	}
	f, err := d.boundsPage(ctx, made)
	if err != nil {
		return err
	}
	return d.index(append(index, f), made)
}

// options are those of a version of a page, and command what makes it.
func (d *Docs) options(p page, t *Table, rates string) (Options, string) {
	o := Options{Rates: rates, Quick: d.Quick, Fifty: !d.Quick && !p.paperSeeds}
	command := "reproduce -" + t.Name()
	if t.Name() != t.ID {
		command = "reproduce -table " + t.ID
	}
	if rates != "paper" {
		command += " -lr " + rates
	}
	switch {
	case o.Quick:
		command += " -quick"
	case o.Fifty:
		command += " -seeds 50"
	}
	return o, command
}

// page makes the versions of a page and writes it.
func (d *Docs) page(ctx context.Context, p page, made string) (finding, error) {
	rates := p.rates
	if rates == nil {
		rates = []string{"paper"}
	}
	var out finding
	var commands []string
	for _, r := range rates {
		tables, err := Tables(p.table, Options{Rates: r})
		if err != nil {
			return out, err
		}
		o, command := d.options(p, tables[0], r)
		f, err := d.Finish(ctx, tables[0], o)
		if err != nil {
			return out, err
		}
		out.versions, commands = append(out.versions, f), append(commands, command)
	}
	first := out.versions[0]
	out.file, out.title = first.stem()+".md", first.heading()
	out.name = strings.ToUpper(first.Name()[:1]) + first.Name()[1:]
	out.findings = agreement(first)
	if p.findings != nil {
		out.findings = append(out.findings, p.findings(d, out.versions)...)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\n", out.title, p.about)
	if first.Note != "" {
		fmt.Fprintf(&b, "%s\n\n", first.Note)
	}
	fmt.Fprint(&b, "## Command and cost\n\n")
	for k, f := range out.versions {
		runs, seconds := d.Cost(f.Jobs)
		cost := fmt.Sprintf("%d runs, %.0f core-seconds", runs, seconds)
		fmt.Fprintf(&b, "    %s\n\nCost: %s.\n\n", commands[k], cost)
		if k > 0 {
			out.cost += "; "
		}
		out.cost += cost
	}
	fmt.Fprintf(&b, "%s\n\nSeeds: %s.\n\n", made, seedText(first.Options.Seeds))
	if len(first.Plots) > 0 {
		if err := d.plots(&b, first); err != nil {
			return out, err
		}
	}
	fmt.Fprint(&b, "## Expected and obtained\n\n")
	first.cellsMarkdown(&b)
	first.claimsMarkdown(&b)
	if len(out.findings) > 0 {
		fmt.Fprintf(&b, "\n## Findings\n\n- %s\n", strings.Join(out.findings, "\n- "))
	}
	if len(out.versions) > 1 && len(first.Options.Seeds) > 1 {
		d.sideBySide(&b, out.versions)
	}
	first.pairedMarkdown(&b)
	for k, f := range out.versions[1:] {
		fmt.Fprintf(&b, "\n## Learning rates: %s\n\n    %s\n\n", f.Options.Rates, commands[k+1])
		if f.Note != "" {
			fmt.Fprintf(&b, "%s\n\n", f.Note)
		}
		f.cellsMarkdown(&b)
		f.ratesMarkdown(&b)
		f.pairedMarkdown(&b)
	}
	return out, d.write(out.file, b.String())
}

func (d *Docs) write(name, text string) error {
	return d.Folder.Write(name, func(w io.Writer) error { _, err := io.WriteString(w, text); return err })
}

// plots draws a figure's plots beside the page and shows them.
func (d *Docs) plots(b *strings.Builder, f *Finished) error {
	fmt.Fprint(b, "## Plots\n\nBars are deviations over seeds.\n\n")
	for _, p := range f.Plots {
		if err := p.writeFormats(f, d.Folder, f.stem(), "png"); err != nil {
			return err
		}
		fmt.Fprintf(b, "![%s](%s/%s.png)\n\n", p.Title, f.stem(), p.Sweep)
	}
	return nil
}

// sideBySide writes SPO+ less RSPO+ at each choice of rates.
func (d *Docs) sideBySide(b *strings.Builder, versions []*Finished) {
	fmt.Fprint(b, "\nSPO+ less RSPO+ on the same seeds and data, in points of relative regret (positive: RSPO+ is better), with 95 % intervals of a paired t-test:\n\n| setting | stage |")
	rule := "\n|---|---|"
	for _, f := range versions {
		fmt.Fprintf(b, " %s rates |", f.Options.Rates)
		rule += "---|"
	}
	fmt.Fprintln(b, rule)
	for _, e := range table3Settings {
		for _, stage := range []string{"Fed", "+P"} {
			fmt.Fprintf(b, "| %s | %s |", e, stage)
			for _, f := range versions {
				fmt.Fprintf(b, " %s |", f.against("SPO+", "RSPO+", e.String(), stage).interval())
			}
			fmt.Fprintln(b)
		}
	}
}

// boundsPage is the page about theorem 3.
func (d *Docs) boundsPage(ctx context.Context, made string) (finding, error) {
	out := finding{file: "bounds.md", name: "Bounds", title: BoundsTitle}
	bounds := d.bounds
	if bounds == nil {
		bounds = KnapsackBounds
	}
	start := time.Now()
	var rows strings.Builder
	for _, e := range BoundsSettings {
		p, err := bounds(ctx, e, BoundsSeed)
		if err != nil {
			return out, err
		}
		if err := p.Markdown(&rows); err != nil {
			return out, err
		}
		most := 0.0
		for _, q := range p.Pairs {
			if q.Bound > 0 {
				most = max(most, q.Observed/q.Bound)
			}
		}
		text := fmt.Sprintf("%s: the bound holds for %d of %d pairs; the observed gap is at most %.2g of it.", p.Setting, len(p.Pairs)-len(p.Violations()), len(p.Pairs), most)
		if p.median(pairBound) < 1e-9 {
			text = fmt.Sprintf("%s: clients are alike, and the bound vanishes for the median pair, as the theorem says; the largest gap observed is %.2g.", p.Setting,
				slices.MaxFunc(p.Pairs, func(a, b Pair) int { return compareFloats(a.Observed, b.Observed) }).Observed)
		}
		out.findings = append(out.findings, text)
	}
	out.cost = fmt.Sprintf("%d runs, %.1f seconds", len(BoundsSettings), time.Since(start).Seconds())
	return out, d.write(out.file, fmt.Sprintf(`# %s

How far apart two clients' RSPO+ losses of the same prediction can be, against how far they are. Both clients see the
features of the first one's test samples; the second's costs are its own objective at these features, in the first
one's unit.

## Command and cost

    reproduce -bounds

Cost: %s.

%s

## Expected and obtained

%s%s
## Findings

- %s
`, out.title, out.cost, made, BoundsHeader, rows.String(), strings.Join(out.findings, "\n- ")))
}

func compareFloats(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// index writes README.md.
func (d *Docs) index(all []finding, made string) error {
	command := "reproduce -docs docs/experiments"
	if d.Quick {
		command += " -quick"
	}
	var b strings.Builder
	fmt.Fprintf(&b, `# Experiments

A page for each table and figure of the paper that this module reproduces: what it is, the command, its cost, expected
against obtained, and what follows. All of it is written by

    %s

%s

A number of the paper is the mean over five seeds, with other random draws than ours. It agrees if it is within three
standard errors of ours over %d seeds, z = (paper - ours) / (s sqrt(1/5 + 1/50)), less what rounding of the printed number
explains. Claims are judged on the means.

`, command, made, 50)
	fmt.Fprint(&b, "| experiment | cells | judged | agree | known differences | differ | claims that hold |\n|---|---|---|---|---|---|---|\n")
	for _, f := range all {
		title := strings.TrimPrefix(f.title, f.name+": ")
		if len(f.versions) == 0 {
			fmt.Fprintf(&b, "| [%s](%s): %s | | | | | | |\n", f.name, f.file, title)
			continue
		}
		v := f.versions[0]
		c := count(v)
		claims := ""
		if n := len(v.Judged); n > 0 {
			held := 0
			for _, j := range v.Judged {
				if j.Verdict == Holds {
					held++
				}
			}
			claims = fmt.Sprintf("%d of %d", held, n)
		}
		verdicts := "none | | |"
		if judged := c[Agrees] + c[Known] + c[Differs]; judged > 0 {
			verdicts = fmt.Sprintf("%d | %d | %d | %d", judged, c[Agrees], c[Known], c[Differs])
		}
		fmt.Fprintf(&b, "| [%s](%s): %s | %d | %s | %s |\n", f.name, f.file, title, len(v.Entries), verdicts, claims)
	}
	fmt.Fprint(&b, "\n## Cost\n\n")
	for _, f := range all {
		fmt.Fprintf(&b, "Cost: %s: %s.\n\n", f.name, f.cost)
	}
	fmt.Fprint(&b, "## Findings\n\n")
	for _, f := range all {
		if len(f.findings) > 0 {
			fmt.Fprintf(&b, "[%s](%s)\n\n- %s\n\n", f.name, f.file, strings.Join(f.findings, "\n- "))
		}
	}
	fmt.Fprint(&b, "Table 6 (Warcraft) takes hours and has its own page, `warcraft.md`: reproduce -table 6. Those of PJM depend on the table of prices: reproduce -table "+strings.Join(pjmTables, ",")+" -pjm-data FILE.\n\n")
	if missing := uncovered(); len(missing) > 0 {
		fmt.Fprintf(&b, "## Not covered yet\n\nNumbers of the paper that no command of this module makes so far:\n\n- %s\n", strings.Join(missing, "\n- "))
	}
	return d.write("README.md", b.String())
}

// count is the number of cells by verdict.
func count(f *Finished) map[string]int {
	out := map[string]int{}
	for _, e := range f.Entries {
		out[e.Verdict]++
	}
	return out
}

// uncovered lists the tables and settings of the paper's numbers that belong to
// no cell, with how many there are.
func uncovered() []string {
	covered := map[*Target]bool{}
	for _, t := range tables {
		for _, c := range t.make(Options{}).Cells {
			covered[c.Target] = true
		}
	}
	var names []string
	counts := map[string]int{}
	all := Targets()
	for k := range all {
		if t := &all[k]; !covered[t] {
			name := t.where()
			if counts[name]++; counts[name] == 1 {
				names = append(names, name)
			}
		}
	}
	for k, name := range names {
		names[k] = fmt.Sprintf("%s: %d", name, counts[name])
	}
	return names
}

// machine describes the computer: processor, cores and kernels.
func machine() string {
	v := Version()
	cpu := "a processor"
	if data, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
				cpu = strings.TrimSpace(value)
				break
			}
		}
	}
	return fmt.Sprintf("%d cores of %s, %s, %s kernels, %s", runtime.NumCPU(), cpu, v.Platform, v.Kernel, v.Go)
}

// against compares two methods of a table; a positive mean says that b is
// better.
func (f *Finished) against(a, b, setting, stage string) Paired {
	return Compare(f.Entry(setting, a, stage).Values, f.Entry(setting, b, stage).Values)
}

// agreement counts the cells that agree.
func agreement(f *Finished) []string {
	c := count(f)
	judged := c[Agrees] + c[Known] + c[Differs]
	if judged == 0 {
		return nil
	}
	text := fmt.Sprintf("%d of %d judged cells agree with the paper", c[Agrees], judged)
	if c[Known] > 0 {
		text += fmt.Sprintf(", %d differ for a recorded reason", c[Known])
	}
	if c[Differs] > 0 {
		text += fmt.Sprintf(", %d differ", c[Differs])
	}
	worst := 0.0
	for _, e := range f.Entries {
		if e.Verdict == Agrees {
			worst = math.Max(worst, math.Abs(e.Z))
		}
	}
	return []string{fmt.Sprintf("%s; the largest |z| of those that agree is %.1f.", text, worst)}
}
