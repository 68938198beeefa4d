package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "fedrspo"

// rule says which packages of the module a package may import, and why it may
// not import the others. The first rule whose pattern matches counts; a pattern
// ending in /* matches everything below it.
type rule struct {
	pkg      string
	may      []string
	gorgonia bool
	why      string
}

var rules = []rule{
	{"internal/kernel/*", nil, false, "kernels are arithmetic on slices"},
	{"internal/kernel", nil, false, "kernels are arithmetic on slices"},
	{"internal/stream", nil, false, "random streams are named by plain numbers"},
	{"internal/atomicfile", nil, false, "it writes bytes"},
	{"internal/npy", nil, false, "it reads and writes arrays, whatever they hold"},
	{"internal/csvtable", nil, false, "it reads and writes tables, whatever they hold"},
	{"internal/cputime", nil, false, "it asks the system for a number"},
	{"internal/cli", nil, false, "it knows signals and streams, not the work"},
	{"internal/graphop", nil, true, "it knows Gorgonia and nothing of ours"},
	{"internal/gpucheck", []string{"nn", "resnet", "internal/cuda", "internal/cuda/*", "internal/graphop", "internal/stream"}, true, "it tries networks on a device, without tasks"},
	{"internal/cuda/driver", nil, true, "it is the functions of a library; with tag cu over gorgonia.org/cu"},
	{"internal/cuda", []string{"internal/cuda", "internal/cuda/*"}, false, "a device knows addresses, not networks"},
	{"internal/cuda/*", []string{"internal/cuda", "internal/cuda/*"}, false, "a device knows addresses, not networks"},
	{"internal/archtest", nil, false, "it reads source files"},
	{"oracle", nil, false, "an oracle is an optimisation problem, whoever asks"},
	{"oracle/bench", []string{"oracle", "oracle/*", "internal/kernel", "internal/stream", "internal/npy"}, false, "it measures oracles, whoever uses them"},
	{"oracle/*", []string{"oracle", "oracle/*", "internal/kernel"}, false, "an oracle knows no loss, network or task"},
	{"surrogate", []string{"oracle", "internal/stream", "internal/graphop"}, true, "a loss sees predictions and decisions, not the network or the task"},
	{"nn", []string{"internal/kernel", "internal/cuda", "internal/cuda/*", "internal/stream", "internal/graphop"}, true, "a network knows no decisions"},
	{"resnet", []string{"nn"}, true, "a network knows no decisions"},
	{"task", []string{"oracle"}, false, "a task does not know how it is learned"},
	{"task/*", []string{"task", "oracle", "oracle/*", "internal/stream", "internal/atomicfile", "internal/csvtable", "internal/npy"}, false, "a task does not know how it is learned"},
	{"federation", []string{"federation/privacy", "internal/stream"}, false, "federation moves vectors and must run behind any transport"},
	{"federation/privacy", nil, false, "accounting is arithmetic on a few numbers"},
	{"run", []string{"internal/atomicfile"}, false, "a run folder holds plain data"},
	{"train", []string{"nn", "resnet", "surrogate", "oracle", "task", "federation", "run", "internal/stream"}, true, "training works for any task"},
	{"report", []string{"run", "task"}, false, "reports show results"},
	{"experiment", []string{"train", "task", "task/*", "nn", "resnet", "surrogate", "oracle", "oracle/dijkstra", "federation", "run", "report"}, false, "experiments put parts together and hold no algorithm"},
	{"cmd/pjmdata", []string{"task/pjm", "internal/cli"}, false, "commands hold flags and printing only"},
	{"cmd/*", []string{"experiment", "train", "run", "report", "oracle/bench", "internal/cli", "internal/atomicfile"}, false, "commands hold flags and printing only"},
}

func matches(pattern, pkg string) bool {
	if below, ok := strings.CutSuffix(pattern, "/*"); ok {
		return strings.HasPrefix(pkg, below+"/")
	}
	return pattern == pkg
}

func ruleFor(pkg string) (rule, bool) {
	i := slices.IndexFunc(rules, func(r rule) bool { return matches(r.pkg, pkg) })
	if i < 0 {
		return rule{}, false
	}
	return rules[i], true
}

// source is one parsed file of the module.
type source struct {
	pkg, path string
	test      bool
	fset      *token.FileSet
	file      *ast.File
}

// sources parses every Go file of the module. Folders that begin with _ or .
// are other modules or none.
func sources(t *testing.T) []source {
	t.Helper()
	root := filepath.Join("..", "..")
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		t.Fatal(err)
	}
	var out []source
	fset := token.NewFileSet()
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if p != root && (strings.HasPrefix(name, "_") || strings.HasPrefix(name, ".") || name == "testdata") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(fset, p, nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		out = append(out, source{pkg: path.Dir(rel), path: rel, test: strings.HasSuffix(name, "_test.go"), fset: fset, file: f})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("found only %d files below %s", len(out), root)
	}
	return out
}

// TestImports enforces the import table of ARCHITECTURE.md.
func TestImports(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue // tests may put packages together
		}
		r, ok := ruleFor(s.pkg)
		if !ok {
			t.Errorf("%s: package %s has no row in the import table", s.path, s.pkg)
			continue
		}
		for _, i := range s.file.Imports {
			p, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasPrefix(p, "gorgonia.org/") && !r.gorgonia {
				t.Errorf("%s imports %s, but its rule does not let it know Gorgonia: %s", s.path, p, r.why)
			}
			ours, ok := strings.CutPrefix(p, module+"/")
			if ok && !slices.ContainsFunc(r.may, func(m string) bool { return matches(m, ours) }) {
				t.Errorf("%s imports %s, which %s must not know: %s", s.path, p, s.pkg, r.why)
			}
		}
	}
}

// TestRulesBite makes sure that the table would refuse what it is there for.
func TestRulesBite(t *testing.T) {
	for _, c := range []struct{ pkg, imports string }{
		{"federation", "task"}, {"federation", "nn"}, {"task/knapsack", "nn"}, {"oracle/knapsack", "surrogate"},
		{"train", "task/knapsack"}, {"cmd/train", "surrogate"}, {"internal/kernel", "oracle"},
	} {
		r, ok := ruleFor(c.pkg)
		if !ok || slices.ContainsFunc(r.may, func(m string) bool { return matches(m, c.imports) }) {
			t.Errorf("the table lets %s import %s", c.pkg, c.imports)
		}
	}
}

// TestArchitecturePage compares ARCHITECTURE.md with the rules and with the
// folders that are there.
func TestArchitecturePage(t *testing.T) {
	root := filepath.Join("..", "..")
	data, err := os.ReadFile(filepath.Join(root, "ARCHITECTURE.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, page, ok := strings.Cut(string(data), "## Where things are")
	folders, imports, ok2 := strings.Cut(page, "## Who may import whom")
	if !ok || !ok2 {
		t.Fatal("ARCHITECTURE.md lacks a section")
	}
	packages := map[string]bool{}
	for _, s := range sources(t) {
		packages[s.pkg] = true
	}
	for pkg := range packages {
		if !strings.Contains(folders, "`"+pkg+"`") {
			t.Errorf("ARCHITECTURE.md does not say what `%s` holds", pkg)
		}
	}
	for line := range strings.Lines(folders) {
		name, ok := strings.CutPrefix(line, "| `")
		if name, _, _ = strings.Cut(name, "`"); !ok {
			continue
		}
		if _, err := os.Stat(filepath.Join(root, name)); err != nil {
			t.Errorf("ARCHITECTURE.md lists `%s`, which is not there", name)
		}
	}
	rows := map[string]string{}
	for line := range strings.Lines(imports) {
		cells := strings.Split(line, "|")
		if len(cells) != 4 {
			continue
		}
		for _, pkg := range strings.Split(cells[1], ",") {
			rows[strings.Trim(pkg, " `")] = cells[2]
		}
	}
	for _, r := range rules {
		used := false
		for pkg := range packages {
			used = used || matches(r.pkg, pkg)
		}
		if !used || r.pkg == "internal/archtest" {
			continue
		}
		row, ok := rows[r.pkg]
		if !ok {
			t.Errorf("the import table has no row for `%s`", r.pkg)
			continue
		}
		row = strings.ReplaceAll(row, "(no task/*)", "")
		named := strings.FieldsFunc(row, func(c rune) bool { return c == ',' || c == ';' || c == ' ' })
		for _, m := range r.may {
			exists := strings.HasSuffix(m, "/*") || packages[m]
			if exists && !slices.Contains(named, m) {
				t.Errorf("`%s` may import %s, but the import table does not say so", r.pkg, m)
			}
		}
		for _, n := range named {
			if n == "nothing" || n == "Gorgonia" {
				continue
			}
			if !slices.Contains(r.may, n) {
				t.Errorf("the import table lets `%s` import %s, the rules do not", r.pkg, n)
			}
		}
	}
}

// TestPackageComments asks for one package comment in every package.
func TestPackageComments(t *testing.T) {
	has := map[string]bool{}
	for _, s := range sources(t) {
		if !s.test {
			has[s.pkg] = has[s.pkg] || s.file.Doc != nil
		}
	}
	for pkg, ok := range has {
		if !ok {
			t.Errorf("package %s has no package comment", pkg)
		}
	}
}

// TestExportedComments asks for a comment on every exported identifier outside
// tests.
func TestExportedComments(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || s.file.Name.Name == "main" {
			continue
		}
		bad := func(id *ast.Ident) {
			t.Errorf("%s: %s has no comment", s.fset.Position(id.Pos()), id.Name)
		}
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Name.IsExported() && d.Doc == nil && exportedReceiver(d) {
					bad(d.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						if spec.Name.IsExported() && spec.Doc == nil && d.Doc == nil {
							bad(spec.Name)
						}
					case *ast.ValueSpec:
						for _, n := range spec.Names {
							if n.IsExported() && spec.Doc == nil && d.Doc == nil && spec.Comment == nil {
								bad(n)
							}
						}
					}
				}
			}
		}
	}
}

// exportedReceiver says whether d is a function, or a method of an exported
// type.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil {
		return true
	}
	x := d.Recv.List[0].Type
	if p, ok := x.(*ast.StarExpr); ok {
		x = p.X
	}
	if g, ok := x.(*ast.IndexExpr); ok {
		x = g.X
	}
	id, ok := x.(*ast.Ident)
	return ok && id.IsExported()
}

// TestDeterminism refuses sources of results that differ from run to run: the
// global random generator, and the clock outside the packages that report it.
func TestDeterminism(t *testing.T) {
	clock := []string{"cmd/*", "experiment", "oracle/bench", "internal/cputime", "internal/gpucheck"}
	// A calendar is arithmetic; what asks for the time of day is refused below.
	calendar := []string{"task/pjm"}
	clockwork := []string{"Now", "Since", "Until", "Local", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker"}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for _, i := range s.file.Imports {
			switch p, _ := strconv.Unquote(i.Path.Value); p {
			case "math/rand", "crypto/rand":
				t.Errorf("%s imports %s: random numbers come from internal/stream", s.path, p)
			case "time":
				if !slices.ContainsFunc(append(calendar, clock...), func(m string) bool { return matches(m, s.pkg) }) {
					t.Errorf("%s imports time: results must not depend on the clock", s.path)
				}
			}
		}
		// A conformance suite is a test: it draws its own instances.
		if s.pkg == "internal/stream" || s.pkg == "oracle/oracletest" {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			sel, ok := n.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == "time" && slices.Contains(calendar, s.pkg) && slices.Contains(clockwork, sel.Sel.Name) {
				t.Errorf("%s: time.%s: results must not depend on the clock", s.fset.Position(sel.Pos()), sel.Sel.Name)
			}
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == "rand" && !slices.Contains([]string{"Rand", "Source", "PCG"}, sel.Sel.Name) {
				t.Errorf("%s: rand.%s: random numbers come from internal/stream", s.fset.Position(sel.Pos()), sel.Sel.Name)
			}
			return true
		})
	}
}
