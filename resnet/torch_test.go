package resnet_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"fedrspo/nn"
	"fedrspo/resnet"

	"github.com/nlpodyssey/safetensors"
	"gorgonia.org/gorgonia"
)

// golden is what PyTorch computed: bench/peers/resnet_golden.py says what the
// arrays are, and the file's metadata with which versions.
type golden struct{ arrays safetensors.SafeTensors }

func readGolden(t *testing.T) golden {
	t.Helper()
	data, err := os.ReadFile("testdata/torch.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	g, err := safetensors.Deserialize(data)
	if err != nil {
		t.Fatal(err)
	}
	return golden{g}
}

func (g golden) get(t *testing.T, name string) []float64 {
	t.Helper()
	view, ok := g.arrays.Tensor(name)
	if !ok {
		t.Fatalf("the golden file has no %s", name)
	}
	switch data := view.Data(); view.DType() {
	case safetensors.F64:
		return decode[float64](t, data, 8)
	case safetensors.F32:
		return decode[float32](t, data, 4)
	default:
		return decode[uint8](t, data, 1)
	}
}

func decode[S uint8 | float32 | float64](t *testing.T, data []byte, size int) []float64 {
	t.Helper()
	raw := make([]S, len(data)/size)
	if err := binary.Read(bytes.NewReader(data), binary.LittleEndian, raw); err != nil {
		t.Fatal(err)
	}
	out := make([]float64, len(raw))
	for i, v := range raw {
		out[i] = float64(v)
	}
	return out
}

// theta returns the initial vector.
func (g golden) theta(t *testing.T, l *nn.Layout) []float64 {
	t.Helper()
	theta := make([]float64, l.Len())
	for _, s := range l.Segments() {
		name := "init." + s.Name
		if strings.HasPrefix(s.Name, "head.") {
			name = "head." + name
		}
		if v := g.get(t, name); copy(s.Slice(theta), v) != s.Len || len(v) != s.Len {
			t.Fatalf("%s has length %d, want %d", name, len(v), s.Len)
		}
	}
	return theta
}

// session returns a session in the initial state.
func (g golden) session(t *testing.T, cfg nn.SessionConfig) nn.Session {
	t.Helper()
	cfg.Batch = 2
	s := newSession(t, cfg)
	s.Load(g.theta(t, cfg.Model.Layout()))
	x := g.get(t, "image")
	for i := range x {
		x[i] = (x[i] - 128) / 64
	}
	for i := range 2 {
		s.SetRow(i, x[i*cfg.Model.In():(i+1)*cfg.Model.In()])
	}
	return s
}

// relative is the Euclidean distance of got from want, over the norm of want.
func relative(got, want []float64) float64 {
	d, n := 0.0, 0.0
	for i, w := range want {
		d += (got[i] - w) * (got[i] - w)
		n += w * w
	}
	return math.Sqrt(d / n)
}

// within fails unless got and want have one length and a relative distance of
// at most tol.
func within(t *testing.T, name string, got, want []float64, tol float64) float64 {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: length %d, want %d", name, len(got), len(want))
	}
	r := relative(got, want)
	if !(r <= tol) {
		t.Errorf("%s: relative distance %.2g, want at most %.0g", name, r, tol)
	}
	return r
}

// arithmetics are the ways to compute, with the accuracy asked of step 1's
// gradients against PyTorch in float64. In float64 what is left is the rounding
// of the golden numbers to float32.
var arithmetics = []struct {
	precision nn.Precision
	conv      nn.Convolution
	tol       float64
}{
	{nn.Float32, nn.ConvDirect, 2e-5},
	{nn.Float32, nn.ConvWinograd, 5e-5},
	{nn.Float64, nn.ConvDirect, 1e-7},
	{nn.Float64, nn.ConvWinograd, 1e-7},
}

// TestTorchFirstStep compares output and gradients of the first step with
// PyTorch.
func TestTorchFirstStep(t *testing.T) {
	g := readGolden(t)
	m := newModel(t, resnet.Config{})
	for _, a := range arithmetics {
		t.Run(fmt.Sprintf("%v/%v", a.precision, a.conv), func(t *testing.T) {
			l := &squared{rows: 2, target: g.get(t, "target")}
			s := g.session(t, nn.SessionConfig{Model: m, Precision: a.precision, Convolution: a.conv, Loss: l.apply})
			if _, err := s.Gradient(2); err != nil {
				t.Fatal(err)
			}
			within(t, "output", l.out, g.get(t, "output"), a.tol)
			grad := make([]float64, m.Layout().Trainable())
			s.CopyGradient(grad)
			worst, where := 0.0, ""
			for _, p := range m.Layout().Segments() {
				if !p.Trainable {
					break
				}
				if r := within(t, "gradient of "+p.Name, p.Slice(grad), g.get(t, "gradient."+p.Name), a.tol); r > worst {
					worst, where = r, p.Name
				}
			}
			t.Logf("worst gradient: %.2g (%s)", worst, where)
		})
	}
}

// upTo is the network cut off behind a number of blocks.
type upTo struct {
	*resnet.Model
	blocks int
}

func (m upTo) Out() int { return 24 * 24 * 64 }

// Layout is the network's without the blocks that are cut off.
func (m upTo) Layout() *nn.Layout {
	var l nn.Layout
	for _, s := range m.Model.Layout().Segments() {
		var block int
		if n, _ := fmt.Sscanf(s.Name, "layer1.%d.", &block); n == 1 && block >= m.blocks {
			continue
		}
		if s.Trainable {
			l.Add(s.Name, s.Shape...)
		} else {
			l.AddBuffer(s.Name, s.Shape...)
		}
	}
	return &l
}

func (m upTo) Build(b *nn.Builder, x *gorgonia.Node) (*gorgonia.Node, error) {
	im, err := b.Images(x, 96, 96, 3)
	if err != nil {
		return nil, err
	}
	if im, err = b.Stem(im, "conv1", "bn1"); err != nil {
		return nil, err
	}
	for i := range m.blocks {
		if im, err = b.BasicBlock(im, fmt.Sprintf("layer1.%d", i)); err != nil {
			return nil, err
		}
	}
	return im.Node, nil
}

// TestTorchActivations compares the outputs of stem and blocks in training.
// They have gone through fewer operations than gradients, so that a tenth of
// those's tolerance must do, beside the rounding of the golden numbers.
func TestTorchActivations(t *testing.T) {
	g := readGolden(t)
	for blocks, place := range []string{"stem", "layer1.0", "layer1.1"} {
		m := upTo{newModel(t, resnet.Config{}), blocks}
		for _, a := range arithmetics {
			l := &squared{rows: 2}
			s := g.session(t, nn.SessionConfig{Model: m, Precision: a.precision, Convolution: a.conv, Loss: l.apply})
			if _, err := s.Gradient(2); err != nil {
				t.Fatal(err)
			}
			name := fmt.Sprintf("%s, %v, %v", place, a.precision, a.conv)
			t.Logf("%s: %.2g", name, within(t, name, l.out, g.get(t, "activation."+place), a.tol/10+6e-8))
		}
	}
}

// TestTorchTraining follows ten steps of Adam. In float64 everything stays next
// to PyTorch's float64: losses, gradients, running statistics, and predictions
// with them; the tolerances are some hundred times what rounding came to. In float32 the losses do; Adam divides by the size of gradients, so
// that the rounding error of the smallest ones counts as much as the others.
func TestTorchTraining(t *testing.T) {
	g := readGolden(t)
	m := newModel(t, resnet.Config{})
	losses64, losses32 := g.get(t, "losses64"), g.get(t, "losses32")
	for _, a := range arithmetics {
		t.Run(fmt.Sprintf("%v/%v", a.precision, a.conv), func(t *testing.T) {
			if slow := testing.Short() || nn.KernelLevel() == "go"; slow && a.conv == nn.ConvDirect {
				t.Skip("the quicker algorithm takes the ten steps alone")
			}
			l := &squared{rows: 2, target: g.get(t, "target")}
			s := g.session(t, nn.SessionConfig{Model: m, Precision: a.precision, Convolution: a.conv, Loss: l.apply})
			grad := make([]float64, m.Layout().Trainable())
			worst, worstGradient := 0.0, 0.0
			for step := range losses64 {
				loss, err := s.Gradient(2)
				if err != nil {
					t.Fatal(err)
				}
				want, tol := losses32[step], 1e-3
				if a.precision == nn.Float64 {
					want, tol = losses64[step], 1e-12
				}
				d := math.Abs(loss-want) / want
				worst = max(worst, d)
				if !(d <= tol) {
					t.Errorf("loss of step %d is %v, want %v within %.0g", step+1, loss, want, tol)
				}
				if step > 0 && a.precision == nn.Float64 {
					s.CopyGradient(grad)
					for _, p := range m.Layout().Segments() {
						if p.Trainable {
							later := g.get(t, "later."+p.Name)[(step-1)*18:][:18]
							worstGradient = max(worstGradient, within(t, fmt.Sprintf("step %d: %s", step+1, p.Name), summary(p.Slice(grad)), later, 1e-10))
						}
					}
				}
				if err := s.Update(nn.Adam{}, 1e-3); err != nil {
					t.Fatal(err)
				}
			}
			t.Logf("worst loss: %.2g, worst later gradient: %.2g", worst, worstGradient)
			if a.precision == nn.Float32 {
				return
			}
			theta, y := make([]float64, m.Layout().Len()), make([]float64, 2*m.Out())
			s.Store(theta)
			for _, p := range m.Layout().Segments() {
				if strings.Contains(p.Name, "running") {
					within(t, p.Name, p.Slice(theta), g.get(t, "final."+p.Name), 1e-11)
				}
			}
			if err := s.Predict(y, 2); err != nil {
				t.Fatal(err)
			}
			within(t, "evaluation", y, g.get(t, "evaluation"), 1e-10)
		})
	}
}

// TestTorchConvHead compares the network with a convolution as head, some of
// whose outputs are clamped: output, loss and every gradient of step 1 and, in
// float64 by the quicker algorithm, losses and gradients of three steps of Adam
// more. Tolerances are those of the other tests.
func TestTorchConvHead(t *testing.T) {
	g := readGolden(t)
	m := newModel(t, resnet.Config{Head: resnet.Conv1x1})
	losses, output := g.get(t, "head.losses"), g.get(t, "head.output")
	if slices.Min(output) != 0 || slices.Max(output) == 0 {
		t.Fatal("the golden outputs are not partly clamped")
	}
	for _, a := range arithmetics {
		t.Run(fmt.Sprintf("%v/%v", a.precision, a.conv), func(t *testing.T) {
			steps := 4
			if a.precision == nn.Float32 || a.conv == nn.ConvDirect || testing.Short() || nn.KernelLevel() == "go" {
				steps = 1
			}
			l := &squared{rows: 2, target: g.get(t, "target")}
			s := g.session(t, nn.SessionConfig{Model: m, Precision: a.precision, Convolution: a.conv, Loss: l.apply})
			grad := make([]float64, m.Layout().Trainable())
			for step, want := range losses[:steps] {
				loss, err := s.Gradient(2)
				if err != nil {
					t.Fatal(err)
				}
				lossTol, tol := a.tol, a.tol
				if a.precision == nn.Float64 {
					lossTol, tol = 1e-12, 1e-10
				}
				if d := math.Abs(loss-want) / want; !(d <= lossTol) {
					t.Errorf("loss of step %d is %v, want %v within %.0g", step+1, loss, want, lossTol)
				}
				if step == 0 {
					within(t, "output", l.out, output, a.tol)
				}
				if step == 0 || a.precision == nn.Float64 {
					s.CopyGradient(grad)
					for _, p := range m.Layout().Segments() {
						if p.Trainable {
							row := g.get(t, "head.steps."+p.Name)[step*18:][:18]
							within(t, fmt.Sprintf("step %d: %s", step+1, p.Name), summary(p.Slice(grad)), row, tol)
						}
					}
				}
				if err := s.Update(nn.Adam{}, 1e-3); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// summary returns norm, mean and 16 entries of a gradient.
func summary(g []float64) []float64 {
	sum, squares := 0.0, 0.0
	for _, v := range g {
		sum += v
		squares += v * v
	}
	out := []float64{math.Sqrt(squares), sum / float64(len(g))}
	for i := range 16 {
		out = append(out, g[i*(len(g)-1)/15])
	}
	return out
}
