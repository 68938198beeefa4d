package nn_test

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"fedrspo/nn"

	"gorgonia.org/gorgonia"
)

// imageNets are networks with odd sizes, either head, with and without a
// gradient for the stem's input, of blocks and of layers.
func imageNets() []*imageNet {
	var out []*imageNet
	for _, layers := range []bool{false, true} {
		out = append(out,
			newImageNet(imageNet{h: 9, w: 11, c: 3, channels: 4, blocks: 1, gridH: 2, gridW: 2, layers: layers}),
			newImageNet(imageNet{h: 8, w: 13, c: 2, channels: 3, blocks: 2, gridH: 2, gridW: 3, convHead: true, pre: true, layers: layers}),
		)
	}
	return out
}

func (m *imageNet) String() string {
	return fmt.Sprintf("%dx%dx%d-%d,convHead=%v,layers=%v", m.h, m.w, m.c, m.channels, m.convHead, m.layers)
}

// imageProblem is a network with parameters, images and a loss.
type imageProblem struct {
	m     *imageNet
	theta []float64
	x     [][]float64
	l     *target
}

func newImageProblem(m *imageNet, batch int) *imageProblem {
	r := rand.New(rand.NewPCG(21, 22))
	p := &imageProblem{m: m, theta: make([]float64, m.layout.Len()), l: &target{rows: batch, t: normals(r, batch*m.Out())}}
	m.Init(p.theta, r)
	for range batch {
		x := normals(r, m.In())
		for i := range x {
			x[i] = float64(float32(x[i]))
		}
		p.x = append(p.x, x)
	}
	if m.convHead { // so that some outputs are clamped and some are not
		s, _ := m.layout.Find("head.bias")
		s.Slice(p.theta)[0] = 2.5
	}
	return p
}

func (p *imageProblem) session(t testing.TB, cfg nn.SessionConfig) nn.Session {
	cfg.Model, cfg.Batch, cfg.Loss = p.m, len(p.x), p.l.apply
	s := newSession(t, cfg)
	s.Load(p.theta)
	for i, x := range p.x {
		s.SetRow(i, x)
	}
	return s
}

func (p *imageProblem) gradient(t testing.TB, s nn.Session, rows int) (loss float64, grad []float64) {
	t.Helper()
	p.l.rows = rows
	loss, err := s.Gradient(rows)
	if err != nil {
		t.Fatal(err)
	}
	grad = make([]float64, p.m.layout.Trainable())
	s.CopyGradient(grad)
	return loss, grad
}

func predict(t testing.TB, s nn.Session, m nn.Model, rows int) []float64 {
	t.Helper()
	y := make([]float64, rows*m.Out())
	if err := s.Predict(y, rows); err != nil {
		t.Fatal(err)
	}
	return y
}

func norm2(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x * x
	}
	return math.Sqrt(sum)
}

// relative is the Euclidean distance of got from want, over the norm of want.
func relative(got, want []float64) float64 {
	d := make([]float64, len(want))
	for i := range d {
		d[i] = got[i] - want[i]
	}
	return norm2(d) / norm2(want)
}

// expectation is what the twin says about one training run and a prediction
// after it.
type expectation struct {
	rows int
	loss float64
	// grad holds central differences, slack the rounding error of each: a few
	// units of the loss over the step.
	grad        []float64
	slack       float64
	theta       []float64 // with the running statistics after the run
	predictions []float64
}

func (p *imageProblem) expect() (out []expectation) {
	theta := slices.Clone(p.theta)
	for _, rows := range []int{3, 1, 2} {
		p.l.rows = rows
		e := expectation{rows: rows, grad: make([]float64, p.m.layout.Trainable())}
		const step = 1e-6
		for i := range e.grad {
			up, down := slices.Clone(theta), slices.Clone(theta)
			up[i], down[i] = up[i]+step, down[i]-step
			e.grad[i] = (p.m.loss(p.l, up, p.x) - p.m.loss(p.l, down, p.x)) / (2 * step)
		}
		e.loss = p.m.loss(p.l, theta, p.x) // moves the running statistics
		e.slack = 1e-15 / step * e.loss
		e.theta = slices.Clone(theta)
		e.predictions = slices.Concat(p.m.twin(theta, p.x[:rows], false)...)
		out = append(out, e)
	}
	return out
}

// TestImagesAgainstTwin compares loss, gradient, running statistics and
// predictions with plain loops in float64 and central differences, over full
// and short batches.
func TestImagesAgainstTwin(t *testing.T) {
	nets := imageNets()
	half := len(nets) / 2
	for i, blocks := range nets[:half] {
		want := newImageProblem(blocks, 3).expect() // of the layers too
		if y := want[0].predictions; blocks.convHead && (slices.Max(y) == 0 || slices.Min(y) > 0) {
			t.Errorf("outputs %v: want some clamped, some not", y)
		}
		for _, m := range []*imageNet{blocks, nets[half+i]} {
			for _, cfg := range []nn.SessionConfig{
				{}, {Convolution: nn.ConvWinograd}, {Convolution: nn.ConvDirect, Precision: nn.Float32}, {Convolution: nn.ConvWinograd, Precision: nn.Float32},
			} {
				t.Run(fmt.Sprintf("%v/%v/%v", m, cfg.Precision, cfg.Convolution), func(t *testing.T) {
					p := newImageProblem(m, 3)
					p.compare(t, p.session(t, cfg), cfg.Precision, want)
				})
			}
		}
	}
}

func (p *imageProblem) compare(t *testing.T, s nn.Session, precision nn.Precision, want []expectation) {
	// Some hundred roundings a number, through normalisations that divide by
	// deviations of about 1.
	tol := 1e-12
	if precision == nn.Float32 {
		tol = 2e-5
	}
	n := p.m.layout.Trainable()
	stored, after := make([]float64, len(p.theta)), make([]float64, len(p.theta))
	for _, e := range want {
		loss, grad := p.gradient(t, s, e.rows)
		if math.Abs(loss-e.loss) > tol*e.loss {
			t.Errorf("%d rows: loss %v, want %v", e.rows, loss, e.loss)
		}
		scale := norm2(e.grad)
		for i, want := range e.grad {
			if d := math.Abs(grad[i] - want); !(d <= e.slack+tol*scale) {
				t.Fatalf("%d rows: gradient[%d] is %v, central difference %v, %v off and %v allowed", e.rows, i, grad[i], want, d, e.slack+tol*scale)
			}
		}
		s.Store(stored)
		if !slices.Equal(stored[:n], p.theta[:n]) {
			t.Error("Gradient changed a parameter")
		}
		if r := relative(stored[n:], e.theta[n:]); !(r <= tol) {
			t.Errorf("%d rows: running statistics are %v off", e.rows, r)
		}
		y := predict(t, s, p.m, e.rows)
		s.Store(after)
		if !slices.Equal(after, stored) {
			t.Error("Predict changed parameters or running statistics")
		}
		if r := relative(y, e.predictions); !(r <= tol) {
			t.Errorf("%d rows: predictions are %v off", e.rows, r)
		}
	}
}

// run takes steps of training and returns the vector, the last gradient and
// predictions.
func (p *imageProblem) run(t testing.TB, s nn.Session, steps, rows int) []float64 {
	t.Helper()
	var out []float64
	for range steps {
		_, g := p.gradient(t, s, rows)
		if err := s.Update(nn.Adam{Clip: 1}, 1e-2); err != nil {
			t.Fatal(err)
		}
		out = append(out[:0], g...)
	}
	theta := make([]float64, len(p.theta))
	s.Store(theta)
	return slices.Concat(out, theta, predict(t, s, p.m, rows))
}

// TestBlocksAreLayers: blocks agree with their layers over steps of training, up
// to the order of two sums: a Stem's backward pass sums over the windows of its
// pooling, not over the pixels, and a ConvHead adds its bias first, a Conv2D
// last.
func TestBlocksAreLayers(t *testing.T) {
	nets := imageNets()
	half := len(nets) / 2
	for i, m := range nets[:half] {
		for _, precision := range []nn.Precision{nn.Float64, nn.Float32} {
			t.Run(fmt.Sprintf("%v/%v", m, precision), func(t *testing.T) {
				var got [2][]float64
				for k, m := range []*imageNet{m, nets[half+i]} {
					p := newImageProblem(m, 3)
					got[k] = p.run(t, p.session(t, nn.SessionConfig{Precision: precision}), 4, 3)
				}
				tol := 1e-14
				if precision == nn.Float32 {
					tol = 5e-6
				}
				if r := relative(got[0], got[1]); !(r <= tol) {
					t.Errorf("blocks and layers differ by %v", r)
				}
			})
		}
	}
}

// TestImagesDeterministic: threads, repetition, other runs before, and what the
// dead rows hold change no bit.
func TestImagesDeterministic(t *testing.T) {
	m := newImageNet(imageNet{h: 16, w: 16, c: 3, channels: 16, blocks: 1, gridH: 2, gridW: 2})
	const batch, rows = 20, 17 // three chunks of a weight gradient
	p := newImageProblem(m, batch)
	want := p.run(t, p.session(t, nn.SessionConfig{Precision: nn.Float32}), 3, rows)
	if slices.ContainsFunc(want, math.IsNaN) {
		t.Fatal("not a number")
	}
	for _, threads := range []int{1, 2, 3} {
		s := p.session(t, nn.SessionConfig{Precision: nn.Float32, Threads: threads})
		p.run(t, s, 1, batch)
		s.Load(p.theta)
		s.ResetOptimizer()
		nan := slices.Repeat([]float64{math.NaN()}, m.In())
		for i := rows; i < batch; i++ {
			s.SetRow(i, nan)
		}
		if got := p.run(t, s, 3, rows); !slices.Equal(got, want) {
			t.Errorf("%d threads: other bits", threads)
		}
	}
}

// TestSetRow32: both setters set the same features.
func TestSetRow32(t *testing.T) {
	p := newImageProblem(imageNets()[0], 2)
	for _, precision := range []nn.Precision{nn.Float64, nn.Float32} {
		s := p.session(t, nn.SessionConfig{Precision: precision})
		want := predict(t, s, p.m, 2)
		x := make([]float32, p.m.In())
		for i := range p.x {
			s.SetRow(i, make([]float64, len(x)))
			for k, v := range p.x[i] {
				x[k] = float32(v)
			}
			s.SetRow32(i, x)
		}
		if got := predict(t, s, p.m, 2); !slices.Equal(got, want) {
			t.Errorf("%v: predictions %v, want %v", precision, got, want)
		}
	}
}

// TestRunningOverflow: a variance that overflows makes a normalisation constant
// and the loss finite; it is an error all the same.
func TestRunningOverflow(t *testing.T) {
	for _, m := range imageNets() {
		p := newImageProblem(m, 3)
		for i := range p.x[1] {
			p.x[1][i] *= 1e30
		}
		s := p.session(t, nn.SessionConfig{Precision: nn.Float32})
		if _, err := s.Gradient(3); !errors.Is(err, nn.ErrNonFinite) {
			t.Errorf("%v: error %v", m, err)
		}
	}
}

// TestImagesUpdate: a step trains the parameters alone and is seen by the next
// run, whose weights are packed anew; Load sets the running statistics.
func TestImagesUpdate(t *testing.T) {
	p := newImageProblem(imageNets()[0], 3)
	s := p.session(t, nn.SessionConfig{Convolution: nn.ConvWinograd})
	before, after := make([]float64, len(p.theta)), make([]float64, len(p.theta))
	_, grad := p.gradient(t, s, 3)
	s.Store(before)
	predict(t, s, p.m, 3)
	if err := s.Update(nn.Adam{}, 1e-2); err != nil {
		t.Fatal(err)
	}
	s.Store(after)
	n := p.m.layout.Trainable()
	if !slices.Equal(after[n:], before[n:]) {
		t.Error("Update changed running statistics")
	}
	for i, g := range grad {
		if (after[i] == before[i]) != (g == 0) {
			t.Errorf("parameter %d of gradient %v: %v became %v", i, g, before[i], after[i])
		}
	}
	for _, theta := range [][]float64{after, p.theta} {
		s.Load(theta)
		if r := relative(predict(t, s, p.m, 3), slices.Concat(p.m.twin(theta, p.x, false)...)); r > 1e-11 {
			t.Errorf("predictions after a change are %v off", r)
		}
	}
}

// TestImagesAllocate counts the allocations of a training step and of a
// prediction: none.
func TestImagesAllocate(t *testing.T) {
	if race {
		t.Skip("the race detector makes the kernels' pools forget buffers")
	}
	for _, m := range imageNets() {
		if m.layers {
			continue // the sum of a shortcut's gradients is Gorgonia's, which allocates
		}
		for _, cfg := range []nn.SessionConfig{{}, {Precision: nn.Float32}, {Precision: nn.Float32, Threads: 2}} {
			p := newImageProblem(m, 3)
			s := p.session(t, cfg)
			y := make([]float64, 3*m.Out())
			f := func() {
				if _, err := s.Gradient(3); err != nil {
					t.Error(err)
				}
				if err := s.Update(nn.Adam{Clip: 1}, 1e-4); err != nil {
					t.Error(err)
				}
				if err := s.Predict(y, 3); err != nil {
					t.Error(err)
				}
			}
			if n := testing.AllocsPerRun(10, f); n != 0 {
				t.Errorf("%v, %v, %d threads: %v allocations", m, cfg.Precision, cfg.Threads, n)
			}
		}
	}
}

// builds is a model with a layout and a function that builds.
type builds struct {
	nn.Linear
	layout nn.Layout
	in     int
	build  func(b *nn.Builder, x *gorgonia.Node) (*gorgonia.Node, error)
}

func (m *builds) In() int            { return m.in }
func (m *builds) Layout() *nn.Layout { return &m.layout }
func (m *builds) Build(b *nn.Builder, x *gorgonia.Node) (*gorgonia.Node, error) {
	return m.build(b, x)
}

// TestImagesRefuse: what does not fit is an error that names the operation.
func TestImagesRefuse(t *testing.T) {
	for _, c := range []struct {
		want string
		f    func(b *nn.Builder, x nn.Images) (nn.Images, error)
	}{
		{"want shape", func(b *nn.Builder, x nn.Images) (nn.Images, error) { return b.Images(x.Node, 3, 3, 2) }},
		{"no parameter", func(b *nn.Builder, x nn.Images) (nn.Images, error) { return b.Conv2D(x, "none", 1, 0) }},
		{"does not fit 2 channels", func(b *nn.Builder, x nn.Images) (nn.Images, error) { return b.Conv2D(x, "three", 1, 0) }},
		{"bad shape", func(b *nn.Builder, x nn.Images) (nn.Images, error) { return b.Conv2D(x, "two", 0, 0) }},
		{"bias of length", func(b *nn.Builder, x nn.Images) (nn.Images, error) { return b.Conv2D(x, "biased", 1, 0) }},
		{"used twice", func(b *nn.Builder, x nn.Images) (nn.Images, error) {
			if _, err := b.Conv2D(x, "two", 1, 0); err != nil {
				return x, err
			}
			return b.Conv2D(x, "two", 1, 0)
		}},
		{"no buffer", func(b *nn.Builder, x nn.Images) (nn.Images, error) { return b.BatchNorm(x, "biased") }},
		{"for 2 channels", func(b *nn.Builder, x nn.Images) (nn.Images, error) { return b.BatchNorm(x, "norm") }},
		{"bad shape", func(b *nn.Builder, x nn.Images) (nn.Images, error) { return b.MaxPool(x, 17, 1, 0) }},
		{"bad shape", func(b *nn.Builder, x nn.Images) (nn.Images, error) { return b.AdaptiveMaxPool(x, 0, 1) }},
		{"bad shape", func(b *nn.Builder, x nn.Images) (nn.Images, error) { return b.MeanHead(x, 0, 1) }},
		{"weight and bias", func(b *nn.Builder, x nn.Images) (nn.Images, error) { return b.ConvHead(x, "three", 1, 1) }},
		{"odd square kernel", func(b *nn.Builder, x nn.Images) (nn.Images, error) { return b.Stem(x, "even", "norm") }},
		{"odd square kernel", func(b *nn.Builder, x nn.Images) (nn.Images, error) { return b.BasicBlock(x, "none") }},
		{"makes 1 channels of 2", func(b *nn.Builder, x nn.Images) (nn.Images, error) { return b.BasicBlock(x, "block") }},
		{"sum of images", func(b *nn.Builder, x nn.Images) (nn.Images, error) {
			return b.Add(x, nn.Images{Node: x.Node, H: 2, W: 4, C: 2})
		}},
		{"without a node", func(b *nn.Builder, _ nn.Images) (nn.Images, error) { return b.ReLU(nn.Images{}) }},
		{"want shape", func(b *nn.Builder, x nn.Images) (nn.Images, error) { x.H++; return b.ReLU(x) }},
		{"want shape", func(b *nn.Builder, x nn.Images) (nn.Images, error) {
			return b.Images(x.Node, 1<<62+4, 2, 2) // overflows to 16
		}},
		{"bad shape", func(b *nn.Builder, x nn.Images) (nn.Images, error) { return b.AdaptiveMaxPool(x, 1<<61, 1) }},
		{"bad shape", func(b *nn.Builder, x nn.Images) (nn.Images, error) { return b.MeanHead(x, 1<<33, 1<<33) }},
		{"no output", func(*nn.Builder, nn.Images) (nn.Images, error) { return nn.Images{}, nil }},
	} {
		for _, precision := range []nn.Precision{nn.Float64, nn.Float32} {
			m := &builds{in: 16}
			m.layout.Add("two.weight", 1, 2, 1, 1)
			m.layout.Add("three.weight", 1, 3, 1, 1)
			m.layout.Add("three.bias", 1)
			m.layout.Add("even.weight", 3, 2, 2, 2)
			m.layout.Add("biased.weight", 1, 2, 1, 1)
			m.layout.Add("biased.bias", 2)
			m.layout.Add("norm.weight", 3)
			m.layout.Add("norm.bias", 3)
			m.layout.Add("block.conv1.weight", 1, 2, 1, 1)
			m.layout.AddBuffer("norm.running_mean", 3)
			m.layout.AddBuffer("norm.running_var", 3)
			m.build = func(b *nn.Builder, x *gorgonia.Node) (*gorgonia.Node, error) {
				im, err := b.Images(x, 4, 2, 2)
				if err != nil {
					return nil, err
				}
				im, err = c.f(b, im)
				return im.Node, err
			}
			if _, err := nn.NewSession(nn.SessionConfig{Model: m, Batch: 2, Precision: precision}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		}
	}
	unused := &builds{in: 1, build: func(b *nn.Builder, x *gorgonia.Node) (*gorgonia.Node, error) { return b.Linear(x, "used", false) }}
	unused.Linear = *nn.NewLinear(1, 1)
	unused.layout.Add("used.weight", 1, 1)
	unused.layout.Add("spare.weight", 1, 1)
	l := &target{rows: 1, t: []float64{0}}
	if _, err := nn.NewSession(nn.SessionConfig{Model: unused, Batch: 1, Loss: l.apply}); err == nil || !strings.Contains(err.Error(), "spare.weight") {
		t.Errorf("a parameter that nothing trains: error %v", err)
	}
	m := nn.NewLinear(1, 1)
	for _, cfg := range []nn.SessionConfig{{Model: m, Batch: 1, Threads: -1}, {Model: m, Batch: 1, Convolution: 3}} {
		if _, err := nn.NewSession(cfg); err == nil {
			t.Errorf("%d threads, %v: no error", cfg.Threads, cfg.Convolution)
		}
	}
}
