package nn

import (
	"errors"
	"fmt"
	"math"

	"fedrspo/internal/cuda"
	"fedrspo/internal/cuda/kernels"
	"fedrspo/internal/graphop"
	"fedrspo/internal/kernel"

	"gorgonia.org/gorgonia"
	"gorgonia.org/tensor"
)

// deviceSession implements Session on a device. Features, predictions, their
// gradient and whole parameter vectors pass through page-locked memory;
// everything else stays on the device.
//
// Load, Store, ResetOptimizer and AddProximal return no error: one is kept, and
// every later call that can returns it; Store then writes NaN.
type deviceSession[T graphop.Float] struct {
	model  Model
	layout *Layout
	run    RunState
	device *cuda.Device
	queue  *kernels.Queue
	graph  *deviceGraph

	value, grad, m, v, x kernels.Ptr
	step                 int
	arrays               *kernels.Arrays
	rows                 cuda.Host[T]       // features [batch, in]
	squares              cuda.Host[float64] // of the arrays of the gradient
	// wide is a vector of doubles on its way, of which one is in host memory and
	// one on the device.
	wide   cuda.Host[float64]
	wideAt kernels.Ptr

	train, eval *machine
	// broken is an error of a call that could not return it.
	broken error
}

func newDeviceSession[T graphop.Float](cfg SessionConfig) (_ *deviceSession[T], err error) {
	if cfg.Convolution == ConvWinograd {
		return nil, errWinograd
	}
	d := cfg.Device.dev
	if err := d.Enter(); err != nil {
		return nil, fmt.Errorf("nn: %w", err)
	}
	defer d.Leave()
	stream, err := d.NewStream()
	if err != nil {
		return nil, fmt.Errorf("nn: %w", err)
	}
	l := cfg.Model.Layout()
	s := &deviceSession[T]{model: cfg.Model, layout: l, device: d, run: RunState{Batch: cfg.Batch, Version: 1}}
	if s.queue, err = kernels.NewQueue(stream, cfg.Precision.elem(), kernels.Options{TF32: cfg.Device.tf32}); err != nil {
		return nil, errors.Join(fmt.Errorf("nn: %w", err), stream.Close())
	}
	s.graph = &deviceGraph{queue: s.queue, dtype: graphop.Dtype[T](), onHost: map[*gorgonia.Node]bool{}}
	s.graph.engine = &deviceEngine{s.graph, map[[2]kernels.Ptr]*tensor.Dense{}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.free())
		}
	}()
	if err := s.allocate(cfg); err != nil {
		return nil, fmt.Errorf("nn: %s on %v: %w", cfg.Model.Name(), cfg.Device, err)
	}
	graphop.Lock.Lock()
	defer graphop.Lock.Unlock()
	if s.eval, err = s.compile(nil); err != nil {
		return nil, err
	}
	if cfg.Loss != nil {
		if s.train, err = s.compile(cfg.Loss); err != nil {
			return nil, err
		}
	}
	if err := s.queue.Sync(); err != nil {
		return nil, fmt.Errorf("nn: %w", err)
	}
	return s, nil
}

// allocate makes the session's own memory.
func (s *deviceSession[T]) allocate(cfg SessionConfig) error {
	g, l := s.graph, s.layout
	for _, v := range []struct {
		at *kernels.Ptr
		n  int
	}{{&s.value, l.Len()}, {&s.grad, l.Trainable()}, {&s.m, l.Trainable()}, {&s.v, l.Trainable()}, {&s.x, cfg.Batch * s.model.In()}} {
		var err error
		if *v.at, err = g.alloc(v.n); err != nil {
			return err
		}
	}
	g.value, g.grad = s.value, s.grad
	var lengths []int
	for _, a := range l.Segments() {
		if a.Trainable {
			lengths = append(lengths, a.Len)
		}
	}
	var err error
	if s.arrays, err = s.queue.NewArrays(lengths); err != nil {
		return err
	}
	if s.wideAt, err = g.allocBytes(8 * l.Len()); err != nil {
		return err
	}
	if s.rows, err = cuda.NewHost[T](s.device, cfg.Batch*s.model.In()); err != nil {
		return err
	}
	g.hosts = append(g.hosts, &s.rows)
	if s.squares, err = cuda.NewHost[float64](s.device, len(lengths)); err != nil {
		return err
	}
	g.hosts = append(g.hosts, &s.squares)
	if s.wide, err = cuda.NewHost[float64](s.device, l.Len()); err != nil {
		return err
	}
	g.hosts = append(g.hosts, &s.wide)
	return nil
}

// compile is the method of session of that name, on the device.
func (s *deviceSession[T]) compile(loss func(*gorgonia.Node) (*gorgonia.Node, error)) (*machine, error) {
	s.graph.next, s.graph.training = 0, loss != nil
	b := &Builder{graph: gorgonia.NewGraph(), run: &s.run, layout: s.layout, dtype: s.graph.dtype, device: s.graph}
	return b.compile(s.model, s.graph.tensor(s.x, s.run.Batch, s.model.In()), loss)
}

func (s *deviceSession[T]) Batch() int { return s.run.Batch }

// enter is Device.Enter for calls that return no error.
func (s *deviceSession[T]) enter() {
	if err := s.device.Enter(); err != nil && s.broken == nil {
		s.broken = err
	}
}

// sync waits for the device, for calls that return no error.
func (s *deviceSession[T]) sync() bool {
	if s.broken == nil {
		s.broken = s.queue.Sync()
	}
	return s.broken == nil
}

func (s *deviceSession[T]) checkLen(verb string, n int) {
	if n != s.layout.Len() {
		panic(fmt.Sprintf("nn: %s a vector of length %d, want %d", verb, n, s.layout.Len()))
	}
}

func (s *deviceSession[T]) Load(theta []float64) {
	s.checkLen("load", len(theta))
	s.enter()
	defer s.device.Leave()
	s.run.Version++
	if s.upload(theta) {
		s.queue.FromDouble(s.value, s.wideAt, len(theta))
	}
}

// upload copies a vector to wideAt, after the last use of it.
func (s *deviceSession[T]) upload(theta []float64) bool {
	if !s.sync() {
		return false
	}
	copy(s.wide.Data, theta)
	cuda.Upload(s.queue.Stream, s.wideAt, s.wide.Data[:len(theta)])
	return true
}

func (s *deviceSession[T]) Store(theta []float64) {
	s.checkLen("store", len(theta))
	s.download(theta, s.value)
}

// download reads the elements at p as doubles, NaN after an error.
func (s *deviceSession[T]) download(dst []float64, p kernels.Ptr) {
	s.enter()
	defer s.device.Leave()
	s.queue.ToDouble(s.wideAt, p, len(dst))
	cuda.Download(s.queue.Stream, s.wide.Data[:len(dst)], s.wideAt)
	if s.sync() {
		copy(dst, s.wide.Data)
		return
	}
	for i := range dst {
		dst[i] = math.NaN()
	}
}

func (s *deviceSession[T]) SetRow(i int, x []float64) { setDeviceRow(s, i, x) }

func (s *deviceSession[T]) SetRow32(i int, x []float32) { setDeviceRow(s, i, x) }

// setDeviceRow writes to the memory that the next run uploads; the upload of the
// last run is done, because every run waits for its predictions.
func setDeviceRow[T, S graphop.Float](s *deviceSession[T], i int, x []S) {
	in := s.model.In()
	checkRow(i, s.run.Batch, len(x), in)
	dst := s.rows.Data[i*in : (i+1)*in]
	for k, v := range x {
		dst[k] = T(v)
	}
}

// runRows runs m on the first rows rows.
func (s *deviceSession[T]) runRows(m *machine, rows int, train bool) error {
	if rows <= 0 || rows > s.run.Batch {
		return fmt.Errorf("nn: %d rows in a graph of %d", rows, s.run.Batch)
	}
	if s.broken != nil {
		return s.broken
	}
	s.run.Rows, s.run.Train = rows, train
	cuda.Upload(s.queue.Stream, s.x, s.rows.Data[:rows*s.model.In()])
	return m.Run()
}

func (s *deviceSession[T]) Gradient(rows int) (float64, error) {
	if s.queue == nil {
		return 0, errClosed
	}
	if s.train == nil {
		return 0, errors.New("nn: the session was compiled without a loss")
	}
	s.enter()
	defer s.device.Leave()
	if err := s.runRows(s.train, rows, true); err != nil {
		return 0, err
	}
	loss := graphop.Number(s.train.Value(s.train.out))
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return 0, fmt.Errorf("loss is %v: %w", loss, ErrNonFinite)
	}
	return loss, nil
}

func (s *deviceSession[T]) CopyGradient(dst []float64) {
	checkGradient(len(dst), s.layout.Trainable())
	s.download(dst, s.grad)
}

func (s *deviceSession[T]) AddProximal(mu float64, ref []float64) {
	s.checkLen("add the proximal term of", len(ref))
	s.enter()
	defer s.device.Leave()
	if n := s.layout.Trainable(); s.upload(ref[:n]) {
		s.queue.Proximal(s.grad, s.value, s.wideAt, mu, n)
	}
}

func (s *deviceSession[T]) ResetOptimizer() {
	s.enter()
	defer s.device.Leave()
	s.step = 0
	bytes := uint64(s.layout.Trainable() * s.queue.Elem().Size())
	s.queue.Zero(s.m, bytes)
	s.queue.Zero(s.v, bytes)
}

// Update waits for the device: that a gradient is not finite is an error of this
// step. The device has then changed nothing.
func (s *deviceSession[T]) Update(o Adam, lr float64) error {
	o, err := o.step(lr)
	if err != nil {
		return err
	}
	s.enter()
	defer s.device.Leave()
	if s.broken != nil {
		return s.broken
	}
	next := kernel.AdamStep{Rate: lr, Beta1: o.Beta1, Beta2: o.Beta2, Epsilon: o.Epsilon, Step: s.step + 1}
	rate, root := next.Corrected()
	s.queue.Clip(s.arrays, s.grad, o.Clip, o.ClipGlobal)
	cuda.Download(s.queue.Stream, s.squares.Data, s.arrays.Squares())
	s.queue.Adam(s.arrays, s.value, s.grad, s.m, s.v, kernels.AdamStep{
		Beta1: o.Beta1, Rest1: 1 - o.Beta1, Beta2: o.Beta2, Rest2: 1 - o.Beta2, Rate: rate, Root: root, Epsilon: o.Epsilon})
	if err := s.queue.Sync(); err != nil {
		return err
	}
	for i, a := range s.layout.Segments()[:len(s.squares.Data)] {
		if err := finiteNorm(a, s.squares.Data[i]); err != nil {
			return err
		}
	}
	s.step++
	s.run.Version++
	return nil
}

func (s *deviceSession[T]) Predict(dst []float64, rows int) error {
	if len(dst) != rows*s.model.Out() {
		return fmt.Errorf("nn: predictions of %d rows into %d values, want %d", rows, len(dst), rows*s.model.Out())
	}
	if s.queue == nil {
		return errClosed
	}
	s.enter()
	defer s.device.Leave()
	if err := s.runRows(s.eval, rows, false); err != nil {
		return err
	}
	y := graphop.Data[T](s.eval.Value(s.eval.out))[:len(dst)]
	for i, v := range y {
		dst[i] = float64(v)
	}
	return finiteRows(y, s.model.Out())
}

func (s *deviceSession[T]) Close() error {
	if s.queue == nil {
		return nil
	}
	s.enter()
	defer s.device.Leave()
	return errors.Join(s.free(), s.broken)
}

// free waits for the device and gives everything back.
func (s *deviceSession[T]) free() error {
	stream := s.queue.Stream
	err := s.queue.Close()
	if s.arrays != nil {
		s.arrays.Free(s.device)
	}
	err = errors.Join(err, s.graph.close(), stream.Close())
	s.queue, s.train, s.eval = nil, nil, nil
	return err
}
