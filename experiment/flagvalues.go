package experiment

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"fedrspo/surrogate"
	"fedrspo/train"
)

// choice is the flag.Value of a setting whose few values have names.
type choice[T comparable] struct {
	at     *T
	names  []string
	values []T
}

// words declares a flag whose values are their own names.
func words[T ~string](fs *flag.FlagSet, at *T, name, usage string, values ...T) {
	names := make([]string, len(values))
	for i, v := range values {
		names[i] = string(v)
	}
	fs.Var(&choice[T]{at, names, values}, name, usage)
}

// either declares a flag with names for false and true.
func either(fs *flag.FlagSet, at *bool, name, usage, no, yes string) {
	fs.Var(&choice[bool]{at, []string{no, yes}, []bool{false, true}}, name, usage)
}

func (c *choice[T]) String() string {
	if c.at == nil {
		return ""
	}
	if i := slices.Index(c.values, *c.at); i >= 0 {
		return c.names[i]
	}
	return fmt.Sprint(*c.at)
}

func (c *choice[T]) Set(text string) error {
	i := slices.Index(c.names, text)
	if i < 0 {
		last := len(c.names) - 1
		if last == 0 {
			return fmt.Errorf("want %s", c.names[0])
		}
		return fmt.Errorf("want %s or %s", strings.Join(c.names[:last], ", "), c.names[last])
	}
	*c.at = c.values[i]
	return nil
}

func (c *choice[T]) Get() any { return c.String() }

// negation is the flag.Value, true or false, of the opposite of a field. It is
// written "-name false", as other flags are.
type negation struct{ at *bool }

func (n negation) String() string { return strconv.FormatBool(n.at != nil && !*n.at) }

func (n negation) Set(text string) error {
	v, err := strconv.ParseBool(text)
	if err != nil {
		return errors.New("want true or false")
	}
	*n.at = !v
	return nil
}

func (n negation) Get() any { return !*n.at }

// lossList is the flag.Value of several losses.
type lossList struct{ at *[]surrogate.Loss }

func (l lossList) String() string {
	if l.at == nil {
		return ""
	}
	names := make([]string, len(*l.at))
	for i, loss := range *l.at {
		names[i] = loss.Name()
	}
	return strings.Join(names, ",")
}

func (l lossList) Set(text string) (err error) {
	if strings.TrimSpace(text) == "" {
		return fmt.Errorf("want at least one of %s", strings.Join(LossNames(), ", "))
	}
	losses, err := Losses(text)
	if err == nil {
		*l.at = losses
	}
	return err
}

func (l lossList) Get() any { return l.String() }

// oneLoss is the flag.Value of a loss, or of none.
type oneLoss struct{ at *surrogate.Loss }

func (l oneLoss) String() string {
	if l.at == nil || *l.at == nil {
		return ""
	}
	return (*l.at).Name()
}

func (l oneLoss) Set(text string) error {
	loss, err := surrogate.ByName(text)
	if err == nil {
		*l.at = loss
	}
	return err
}

func (l oneLoss) Get() any { return l.String() }

// rateRule is the flag.Value of where learning rates come from.
type rateRule struct{ s *Setting }

// scaledPrefix stands before a rate that regularised losses scale.
const scaledPrefix = "scaled:"

func (r rateRule) String() string {
	if r.s == nil {
		return ""
	}
	number := strconv.FormatFloat(r.s.Config.FixedRate, 'g', -1, 64)
	switch rule := r.s.Config.Rates; {
	case r.s.Tuned:
		return "tuned"
	case rule == train.RateFixed:
		return number
	case rule == train.RateScaled:
		return scaledPrefix + number
	default:
		return string(rule)
	}
}

func (r rateRule) Set(text string) error {
	c := &r.s.Config
	r.s.Tuned = false
	switch text {
	case "paper":
		c.Rates = train.RatePaper
		return nil
	case "matched":
		c.Rates = train.RateMatched
		return nil
	case "tuned":
		// Tune replaces the number.
		r.s.Tuned, c.Rates, c.FixedRate = true, train.RateScaled, TuningRates[0]
		return nil
	}
	number, scaled := strings.CutPrefix(text, scaledPrefix)
	rate, err := strconv.ParseFloat(number, 64)
	if err != nil || !(rate > 0) || math.IsInf(rate, 1) {
		return errors.New("want paper, matched, tuned, a positive number, or scaled: before one")
	}
	c.Rates, c.FixedRate = train.RateFixed, rate
	if scaled {
		c.Rates = train.RateScaled
	}
	return nil
}

func (r rateRule) Get() any { return r.String() }

// numberList is the flag.Value of several numbers.
type numberList struct{ at *[]float64 }

func (l numberList) String() string {
	if l.at == nil {
		return ""
	}
	parts := make([]string, len(*l.at))
	for i, x := range *l.at {
		parts[i] = strconv.FormatFloat(x, 'g', -1, 64)
	}
	return strings.Join(parts, ",")
}

func (l numberList) Set(text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("want at least one number")
	}
	var out []float64
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		x, err := strconv.ParseFloat(part, 64)
		if err != nil || math.IsNaN(x) || math.IsInf(x, 0) {
			return fmt.Errorf("got %q, want a number", part)
		}
		out = append(out, x)
	}
	*l.at = out
	return nil
}

func (l numberList) Get() any { return *l.at }

// seedList is the flag.Value of several seeds.
type seedList struct{ at *[]int64 }

// maxSeeds bounds the list of seeds.
const maxSeeds = 100_000

func (l seedList) String() string {
	if l.at == nil {
		return ""
	}
	parts := make([]string, len(*l.at))
	for i, s := range *l.at {
		parts[i] = strconv.FormatInt(s, 10)
	}
	return strings.Join(parts, ",")
}

// Set reads a comma list of seeds and ranges a..b.
func (l seedList) Set(text string) error {
	if strings.TrimSpace(text) == "" {
		return errors.New("want at least one seed")
	}
	var seeds []int64
	seen := map[int64]bool{}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		from, to, isRange := strings.Cut(part, "..")
		if !isRange {
			to = from
		}
		a, errA := strconv.ParseInt(from, 10, 64)
		b, errB := strconv.ParseInt(to, 10, 64)
		if errA != nil || errB != nil || b < a {
			return fmt.Errorf("got %q, want a whole number or a range such as 1..5", part)
		}
		// The difference of two int64 fits a uint64.
		if uint64(b)-uint64(a) >= uint64(maxSeeds-len(seeds)) {
			return fmt.Errorf("more than %d seeds", maxSeeds)
		}
		for s := a; ; s++ {
			if seen[s] {
				return fmt.Errorf("seed %d is named twice", s)
			}
			seen[s] = true
			if seeds = append(seeds, s); s == b {
				break
			}
		}
	}
	*l.at = seeds
	return nil
}

func (l seedList) Get() any { return *l.at }

// ParseSeeds reads a comma list of seeds and ranges a..b, as -seeds does.
func ParseSeeds(list string) ([]int64, error) {
	var seeds []int64
	if err := (seedList{&seeds}).Set(list); err != nil {
		return nil, fmt.Errorf("seeds %q: %w", list, err)
	}
	return seeds, nil
}

// dataSource is the flag.Value of where the data come from.
type dataSource struct{ at *Data }

// generatedPrefix stands before a number of generated maps.
const generatedPrefix = "generated:"

func (d dataSource) String() string {
	switch {
	case d.at == nil:
		return ""
	case d.at.Dir == "" && d.at.Maps > 0:
		return generatedPrefix + strconv.Itoa(d.at.Maps)
	}
	return d.at.Dir
}

func (d dataSource) Set(text string) error {
	number, generated := strings.CutPrefix(text, generatedPrefix)
	if !generated {
		d.at.Dir, d.at.Maps = text, 0
		return nil
	}
	const most = 1_000_000
	n, err := strconv.Atoi(number)
	if err != nil || n < 1 || n > most {
		return fmt.Errorf("want a whole number from 1 to %d behind %s", most, generatedPrefix)
	}
	d.at.Dir, d.at.Maps = "", n
	return nil
}

func (d dataSource) Get() any { return d.String() }
