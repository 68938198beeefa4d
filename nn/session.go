package nn

import (
	"errors"
	"fmt"
	"math"

	"fedrspo/internal/graphop"
	"fedrspo/internal/kernel"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// Precision is the element type of a network's graph.
type Precision uint8

const (
	// Float64 is the zero value: what the paper trains its MLP in.
	Float64 Precision = iota
	// Float32 is what the paper trains its convolutional network in.
	Float32
)

// String returns "float64" or "float32".
func (p Precision) String() string {
	if p == Float32 {
		return "float32"
	}
	return "float64"
}

// ErrNonFinite is wrapped by errors about NaN or infinite losses, gradients or
// parameters.
var ErrNonFinite = errors.New("not a finite number")

// KernelLevel names the instruction set of the arithmetic; results are
// bit-identical on machines of one architecture that share it.
func KernelLevel() string { return kernel.Level() }

// CheckKernel reports an environment that asks for an instruction set this
// machine does not have.
func CheckKernel() error { return kernel.Check() }

// SessionConfig says what to compile.
type SessionConfig struct {
	// Model to compile; required.
	Model Model
	// Batch is the row capacity B of the graph; every run may use fewer rows.
	Batch int
	// Precision of the graph.
	Precision Precision
	// Threads that operations on images may use; 0 means one. The number never
	// changes a result.
	Threads int
	// Convolution is how convolutions are computed.
	Convolution Convolution
	// Device computes the network; nil is the processor, which always computes
	// the loss. Threads have no effect on a device.
	Device *Device
	// Loss adds the loss to the training graph and returns its scalar node.
	// nil compiles for prediction only.
	Loss func(out *gorgonia.Node) (*gorgonia.Node, error)
}

// Session is one worker's compiled copy of a model: parameters, gradient and
// optimiser state in flat buffers, a training graph and an evaluation graph
// over them. It belongs to one goroutine at a time.
type Session interface {
	// Batch is the row capacity B.
	Batch() int
	// Load sets all parameters and buffers from theta.
	Load(theta []float64)
	// Store writes all parameters and buffers to theta.
	Store(theta []float64)
	// SetRow sets the features of row i in [0, Batch), as many as the model has.
	SetRow(i int, x []float64)
	// SetRow32 is SetRow for features that are float32, such as images.
	SetRow32(i int, x []float32)
	// Gradient runs forward and backward on the first rows rows and leaves the
	// gradient for Update. It moves running statistics. It returns the loss, or
	// an error wrapping ErrNonFinite when that is not finite, or a running
	// statistic; on a device the loss alone is looked at.
	Gradient(rows int) (float64, error)
	// CopyGradient writes the gradient of the last Gradient call to dst, of
	// length Layout().Trainable().
	CopyGradient(dst []float64)
	// AddProximal adds mu (θ - ref), the gradient of (mu/2)|θ - ref|², to the
	// gradient of the last Gradient call. ref is as long as the whole vector;
	// its buffers do not matter.
	AddProximal(mu float64, ref []float64)
	// ResetOptimizer forgets the Adam moments and the step count.
	ResetOptimizer()
	// Update clips the gradient and takes an Adam step at learning rate lr.
	Update(o Adam, lr float64) error
	// Predict runs the network on the first rows rows and writes the outputs
	// to dst [rows, Out]. It returns an error wrapping ErrNonFinite when one of
	// them is not finite.
	Predict(dst []float64, rows int) error
	// Close releases the graphs. Gradient and Predict return errors afterwards.
	Close() error
}

// maxElements bounds the numbers that a session holds of one kind, so that no
// product of sizes overflows and a wrong size is an error, not the end of the
// memory.
const maxElements = 1 << 32

// NewSession compiles cfg. With a loss, the model must use every parameter of
// its layout.
func NewSession(cfg SessionConfig) (Session, error) {
	if cfg.Model == nil || cfg.Batch <= 0 {
		return nil, fmt.Errorf("nn: a session needs a model and a positive batch, got %d rows", cfg.Batch)
	}
	if most := maxElements / max(1, cfg.Model.In(), cfg.Model.Out()); cfg.Batch > most {
		return nil, fmt.Errorf("nn: a session of %d rows of %d features and %d outputs, want at most %d rows",
			cfg.Batch, cfg.Model.In(), cfg.Model.Out(), most)
	}
	if cfg.Precision > Float32 {
		return nil, fmt.Errorf("nn: a session of unknown precision %d", uint8(cfg.Precision))
	}
	if cfg.Threads < 0 {
		return nil, fmt.Errorf("nn: a session of %d threads", cfg.Threads)
	}
	if !cfg.Convolution.valid() {
		return nil, fmt.Errorf("nn: a session with %v", cfg.Convolution)
	}
	switch {
	case cfg.Device != nil && cfg.Precision == Float32:
		return newDeviceSession[float32](cfg)
	case cfg.Device != nil:
		return newDeviceSession[float64](cfg)
	case cfg.Precision == Float32:
		return newSession[float32](cfg)
	}
	return newSession[float64](cfg)
}

// session implements Session for one element type.
type session[T graphop.Float] struct {
	model  Model
	layout *Layout
	run    RunState
	value  []T // parameters, then buffers
	grad   []T // gradient of the trainable prefix
	x      []T // features [batch, in], shared by both graphs
	memory *memory[T]
	conv   Convolution

	train, eval *machine
	adam        adamState[T]
}

// machine is one compiled graph.
type machine struct {
	*graphop.Machine
	out *gorgonia.Node // predictions, or the loss of a training graph
}

func newSession[T graphop.Float](cfg SessionConfig) (*session[T], error) {
	l := cfg.Model.Layout()
	s := &session[T]{
		model: cfg.Model, layout: l,
		value: make([]T, l.Len()), grad: make([]T, l.Trainable()), x: make([]T, cfg.Batch*cfg.Model.In()),
		run: RunState{Batch: cfg.Batch, Version: 1},
		// A thread works on whole images.
		memory: &memory[T]{scratch: kernel.NewScratch[T](min(max(1, cfg.Threads), cfg.Batch))},
		conv:   cfg.Convolution,
	}
	s.adam.init(l.Trainable())
	graphop.Lock.Lock()
	defer graphop.Lock.Unlock()
	var err error
	if s.eval, err = s.compile(nil); err != nil {
		return nil, err
	}
	if cfg.Loss != nil {
		if s.train, err = s.compile(cfg.Loss); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// compile builds the forward graph, or the training graph if there is a loss.
// The caller holds graphop.Lock.
func (s *session[T]) compile(loss func(*gorgonia.Node) (*gorgonia.Node, error)) (*machine, error) {
	g := gorgonia.NewGraph()
	s.memory.next = 0
	b := &Builder{
		graph: g, run: &s.run, layout: s.layout, dtype: graphop.Dtype[T](),
		value: s.value, grad: s.grad, memory: s.memory, convolution: s.conv,
	}
	return b.compile(s.model, graphop.Wrap(s.x, s.run.Batch, s.model.In()), loss)
}

// compile builds the model over the features x, and with a loss the gradient,
// which lands where the parameters say.
func (b *Builder) compile(model Model, features *tensor.Dense, loss func(*gorgonia.Node) (*gorgonia.Node, error)) (*machine, error) {
	x := gorgonia.NewMatrix(b.graph, b.dtype, gorgonia.WithName("x"), gorgonia.WithShape(b.run.Batch, model.In()), gorgonia.WithValue(features))
	out, err := model.Build(b, x)
	if err == nil && out == nil {
		return nil, fmt.Errorf("nn: %s builds no output", model.Name())
	}
	if err == nil {
		out, err = b.hostNode(out)
	}
	if err != nil {
		return nil, fmt.Errorf("nn: build %s: %w", model.Name(), err)
	}
	if want := (tensor.Shape{b.run.Batch, model.Out()}); !out.Shape().Eq(want) {
		return nil, fmt.Errorf("nn: %s builds an output of shape %v, want %v", model.Name(), out.Shape(), want)
	}
	if loss != nil {
		if out, err = loss(out); err != nil {
			return nil, fmt.Errorf("nn: loss: %w", err)
		}
		if out == nil {
			return nil, errors.New("nn: loss: no node")
		}
		// Its gradient would silently stay zero.
		if name := b.untrained(); name != "" {
			return nil, fmt.Errorf("nn: %s does not use its parameter %q", model.Name(), name)
		}
		// Each backward operation writes the gradients of its parameters to
		// their places in the session's gradient.
		if _, err := gorgonia.Grad(out, b.used...); err != nil {
			return nil, fmt.Errorf("nn: gradient of %s: %w", model.Name(), err)
		}
	}
	m, err := graphop.NewMachine(b.graph)
	if err != nil {
		return nil, fmt.Errorf("nn: %s: %w", model.Name(), err)
	}
	return &machine{m, out}, nil
}

func (s *session[T]) Batch() int { return s.run.Batch }

func (s *session[T]) Load(theta []float64) {
	s.checkLen("load", len(theta))
	s.run.Version++
	for i, v := range theta {
		s.value[i] = T(v)
	}
}

func (s *session[T]) Store(theta []float64) {
	s.checkLen("store", len(theta))
	for i, v := range s.value {
		theta[i] = float64(v)
	}
}

func (s *session[T]) checkLen(verb string, n int) {
	if n != len(s.value) {
		panic(fmt.Sprintf("nn: %s a vector of length %d, want %d", verb, n, len(s.value)))
	}
}

func (s *session[T]) SetRow(i int, x []float64) { setRow(s, i, x) }

func (s *session[T]) SetRow32(i int, x []float32) { setRow(s, i, x) }

func setRow[T, S graphop.Float](s *session[T], i int, x []S) {
	in := s.model.In()
	checkRow(i, s.run.Batch, len(x), in)
	dst := s.x[i*in : (i+1)*in]
	for k, v := range x {
		dst[k] = T(v)
	}
}

// checkRow panics unless features fit a row.
func checkRow(i, batch, features, want int) {
	if i < 0 || i >= batch || features != want {
		panic(fmt.Sprintf("nn: set row %d of %d to %d features, want %d", i, batch, features, want))
	}
}

// checkGradient panics unless a slice is as long as the gradient.
func checkGradient(n, want int) {
	if n != want {
		panic(fmt.Sprintf("nn: copy a gradient of length %d to a slice of %d", want, n))
	}
}

var errClosed = errors.New("nn: the session is closed")

// finiteRows returns an error that names the first row of y [rows, d] with a
// number that is not finite.
func finiteRows[T graphop.Float](y []T, d int) error {
	if !kernel.HasNonFinite(y) {
		return nil
	}
	for i := range len(y) / d {
		if kernel.HasNonFinite(y[i*d : (i+1)*d]) {
			return fmt.Errorf("prediction of row %d: %w", i, ErrNonFinite)
		}
	}
	return nil
}

// runRows runs m on the first rows rows.
func (s *session[T]) runRows(m *machine, rows int, train bool) error {
	if s.eval == nil {
		return errClosed
	}
	if rows <= 0 || rows > s.run.Batch {
		return fmt.Errorf("nn: %d rows in a graph of %d", rows, s.run.Batch)
	}
	s.run.Rows, s.run.Train = rows, train
	return m.Run()
}

func (s *session[T]) Gradient(rows int) (float64, error) {
	if s.train == nil && s.eval != nil {
		return 0, errors.New("nn: the session was compiled without a loss")
	}
	if err := s.runRows(s.train, rows, true); err != nil {
		return 0, err
	}
	loss := graphop.Number(s.train.Value(s.train.out))
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return 0, fmt.Errorf("loss is %v: %w", loss, ErrNonFinite)
	}
	// A variance that overflows normalises everything to zero: a finite loss.
	if n := s.layout.Trainable(); kernel.HasNonFinite(s.value[n:]) {
		for _, g := range s.layout.Segments() {
			if !g.Trainable && kernel.HasNonFinite(s.value[g.Offset:g.Offset+g.Len]) {
				return 0, fmt.Errorf("running statistic %s: %w", g.Name, ErrNonFinite)
			}
		}
	}
	return loss, nil
}

func (s *session[T]) CopyGradient(dst []float64) {
	checkGradient(len(dst), len(s.grad))
	for i, g := range s.grad {
		dst[i] = float64(g)
	}
}

func (s *session[T]) AddProximal(mu float64, ref []float64) {
	s.checkLen("add the proximal term of", len(ref))
	for i := range s.grad {
		s.grad[i] += T(mu * (float64(s.value[i]) - ref[i]))
	}
}

func (s *session[T]) Predict(dst []float64, rows int) error {
	if len(dst) != rows*s.model.Out() {
		return fmt.Errorf("nn: predictions of %d rows into %d values, want %d", rows, len(dst), rows*s.model.Out())
	}
	if err := s.runRows(s.eval, rows, false); err != nil {
		return err
	}
	y := graphop.Data[T](s.eval.Value(s.eval.out))[:len(dst)]
	for i, v := range y {
		dst[i] = float64(v)
	}
	return finiteRows(y, s.model.Out())
}

func (s *session[T]) Close() error {
	s.train, s.eval = nil, nil
	return nil
}
