package main

import (
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress is a bar over the runs of a table; nil shows nothing.
type progress struct{ bar *progressbar.ProgressBar }

// bar returns the bar that -progress asks for.
func (o *options) bar(stderr io.Writer) *progress {
	show := o.progress == "on"
	if f, ok := stderr.(*os.File); ok && o.progress == "auto" {
		show = term.IsTerminal(int(f.Fd()))
	}
	if !show {
		return nil
	}
	return &progress{progressbar.NewOptions64(1,
		progressbar.OptionSetWriter(stderr), progressbar.OptionSetWidth(24), progressbar.OptionThrottle(100*time.Millisecond),
		progressbar.OptionSetPredictTime(false), progressbar.OptionClearOnFinish())}
}

func (p *progress) show(text string, done, total int) {
	if p == nil {
		return
	}
	if done == total {
		p.clear()
		return
	}
	// Errors could only be about drawing.
	p.bar.ChangeMax64(int64(total))
	p.bar.Describe(text)
	_ = p.bar.Set64(int64(done))
}

func (p *progress) clear() {
	if p != nil {
		_ = p.bar.Clear()
	}
}

// round shortens a duration for people.
func round(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(100 * time.Millisecond)
	}
	return d.Round(time.Second)
}
