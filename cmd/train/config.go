package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"fedrspo/experiment"
	"fedrspo/internal/cli"
	"fedrspo/run"

	"github.com/BurntSushi/toml"
)

// settings are the flags that say what is computed: those written to the
// resolved configuration.
var settings = func() (names []string) {
	for _, g := range experiment.FlagGroups {
		names = append(names, g.Names...)
	}
	return names
}()

// fileKeys are the flags a configuration file may set.
var fileKeys = slices.Concat(settings, []string{"workers", "out", "progress", "json", "std", "report", "track"})

// listFlags are the flags whose value in the file may be a list, numberFlags
// those of strings whose value, or element, may be a number.
var (
	listFlags   = []string{"loss", "seeds", "multipliers"}
	numberFlags = []string{"lr", "seeds", "multipliers"}
)

// read sets, from a TOML file, the flags that the command line does not give.
func (o *options) read(path string) error {
	o.file, o.inFile = path, map[string]bool{}
	var keys map[string]any
	meta, err := toml.DecodeFile(path, &keys)
	if err != nil {
		return cli.Usagef("config: %s: %s", path, cli.OneLine(err))
	}
	for _, key := range meta.Keys() {
		name := key[0]
		switch keys[name].(type) {
		case map[string]any, []map[string]any:
			return cli.Usagef("config: %s: %q is a table; settings are plain keys, named as the flags", path, name)
		}
		if !slices.Contains(fileKeys, name) {
			return cli.Usagef("config: %s: unknown key %q%s", path, name, suggest(name))
		}
		if name == "seeds" && meta.IsDefined("seed") {
			return cli.Usagef("config: %s: the keys \"seed\" and \"seeds\" exclude each other; give one of them", path)
		}
		text, err := tomlText(keys[name], o.fs.Lookup(name))
		// -seed and -seeds say the same thing: either on the command line wins
		// over both in the file.
		wins := o.given[name] || (name == "seed" && o.given["seeds"]) || (name == "seeds" && o.given["seed"])
		if err == nil && !wins {
			o.inFile[name] = true
			if err = o.fs.Set(name, text); err != nil {
				err = fmt.Errorf("%s: %w", tomlType(keys[name]), err)
			}
		}
		if err != nil {
			return cli.Usagef("config: %s: key %q: %s", path, name, cli.OneLine(err))
		}
	}
	return nil
}

// tomlText turns a TOML value into the text of flag f; a list becomes a comma
// list. It refuses a value of another type than the flag's.
func tomlText(v any, f *flag.Flag) (string, error) {
	list := slices.Contains(listFlags, f.Name)
	number, want := false, ""
	switch f.Value.(flag.Getter).Get().(type) {
	case bool:
		want = "true or false"
		if v, ok := v.(bool); ok {
			return strconv.FormatBool(v), nil
		}
	case int, int64:
		want = "a whole number"
		if v, ok := v.(int64); ok {
			return strconv.FormatInt(v, 10), nil
		}
	case float64:
		want, number = "a number", true
	default:
		want = "a string"
		number = slices.Contains(numberFlags, f.Name)
		if number {
			want += " or a number"
		}
		if list {
			want += ", or a list"
		}
		if v, ok := v.(string); ok {
			return v, nil
		}
	}
	switch v := v.(type) {
	case int64:
		if number {
			return strconv.FormatInt(v, 10), nil
		}
	case float64:
		if number {
			return strconv.FormatFloat(v, 'g', -1, 64), nil
		}
	case []any:
		if !list {
			break
		}
		if len(v) == 0 {
			return "", errors.New("the list is empty")
		}
		parts := make([]string, len(v))
		for i, e := range v {
			if _, nested := e.([]any); nested {
				return "", errors.New("a list in a list")
			}
			var err error
			if parts[i], err = tomlText(e, f); err != nil {
				return "", err
			}
		}
		return strings.Join(parts, ","), nil
	}
	return "", fmt.Errorf("got %s, want %s", tomlType(v), want)
}

// tomlType names the type of a TOML value.
func tomlType(v any) string {
	switch v := v.(type) {
	case string:
		return fmt.Sprintf("the string %q", v)
	case bool, int64, float64:
		return fmt.Sprint(v)
	case []any:
		return "a list"
	}
	return "a date or time"
}

// suggest proposes the key nearest to a misspelt one, if it is near.
func suggest(name string) string {
	best, least := "", 2+len(name)/3
	for _, key := range fileKeys {
		if d := editDistance(name, key); d < least {
			best, least = key, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (do you mean %q?)", best)
}

// editDistance is the least number of bytes to insert, delete or replace to
// turn a into b (Levenshtein 1966).
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(diagonal+cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// writeConfig writes the resolved configuration as TOML. The path of a dataset
// becomes absolute, so that the file means the same in every working directory.
func writeConfig(w io.Writer, s experiment.Setting) error {
	s, err := s.WithAbsolutePaths()
	if err != nil {
		return err
	}
	return toml.NewEncoder(w).Encode(s.Resolved())
}

// checkSelection refuses losses and seeds that the run -eval names was not asked
// to train.
func (o *options) checkSelection(s experiment.Setting) error {
	whole, err := parse([]string{"-config", o.file})
	if err != nil {
		return err
	}
	trained, err := whole.Setting()
	if err != nil {
		return cli.UsageError{Err: err}
	}
	names := map[string]bool{}
	var list []string
	for _, l := range trained.Losses {
		names[l.Name()] = true
		list = append(list, l.Name())
	}
	for _, l := range s.Losses {
		if !names[l.Name()] {
			return cli.Usagef("-loss %s: the run %s has no such models; it has %s", l.Name(), o.eval, strings.Join(list, ", "))
		}
	}
	for _, seed := range s.Seeds {
		if !slices.Contains(trained.Seeds, seed) {
			name := "seeds"
			if o.given["seed"] {
				name = "seed"
			}
			return cli.Usagef("-%s %d: the run %s has no such models; it has %s", name, seed, o.eval, seedText(trained.Seeds))
		}
	}
	return nil
}

// fromRun reads the configuration of the run that a flag names. Of the other
// flags, allowed ones may be given beside it.
func (o *options) fromRun(name, folder string, allowed ...string) error {
	path := filepath.Join(folder, run.ConfigFile)
	var bad error
	o.fs.Visit(func(f *flag.Flag) {
		if f.Name != name && !slices.Contains(allowed, f.Name) && bad == nil {
			bad = cli.Usagef("-%s has no effect with -%s: the run's own settings are used", f.Name, name)
		}
	})
	if bad != nil {
		return bad
	}
	return o.read(path)
}
