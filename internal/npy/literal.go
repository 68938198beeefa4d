package npy

import (
	"strconv"
	"strings"
)

// literal reads a Python literal of the kind that headers hold. The first error
// stays, and everything after it reads as nothing.
type literal struct {
	rest string
	err  error
}

// fail notes that something else was wanted.
func (p *literal) fail(format string, args ...any) {
	if p.err == nil {
		p.err = malformed("header: at %.30q: want "+format, append([]any{p.rest}, args...)...)
	}
}

// skip passes over white space.
func (p *literal) skip() { p.rest = strings.TrimLeft(p.rest, " \t\r\n") }

// next passes over c if it comes next, and says whether it did. After an error
// everything comes next, so that loops end.
func (p *literal) next(c byte) bool {
	p.skip()
	if p.err == nil && (p.rest == "" || p.rest[0] != c) {
		return false
	}
	p.rest = p.rest[min(1, len(p.rest)):]
	return true
}

// take passes over c, which must come next.
func (p *literal) take(c byte) {
	if p.err == nil && !p.next(c) {
		p.fail("%q", c)
	}
}

// text reads a string without escapes, in either kind of quotes.
func (p *literal) text() string {
	p.skip()
	if p.err == nil && p.rest != "" && (p.rest[0] == '\'' || p.rest[0] == '"') {
		if s, rest, ok := strings.Cut(p.rest[1:], p.rest[:1]); ok && !strings.Contains(s, `\`) {
			p.rest = rest
			return s
		}
	}
	p.fail("a string")
	return ""
}

// boolean reads True or False.
func (p *literal) boolean() bool {
	p.skip()
	for _, v := range []string{"True", "False"} {
		if rest, ok := strings.CutPrefix(p.rest, v); ok {
			p.rest = rest
			return v == "True"
		}
	}
	p.fail("True or False")
	return false
}

// tuple reads a tuple of whole numbers.
func (p *literal) tuple() []int {
	var out []int
	p.take('(')
	for !p.next(')') {
		end := strings.IndexFunc(p.rest, func(c rune) bool { return c != '-' && (c < '0' || c > '9') })
		n, err := strconv.Atoi(p.rest[:max(end, 0)])
		if err != nil {
			p.fail("a whole number")
			return nil
		}
		out = append(out, n)
		p.rest = strings.TrimPrefix(p.rest[end:], "L") // as Python 2 wrote them
		if !p.next(',') {
			p.take(')')
			break
		}
	}
	return out
}
