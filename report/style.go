package report

import (
	"bytes"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	vgdraw "gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
)

// dpi is the pictures' resolution: 2 pixels a point. Pages show them at 2/3 of
// their pixels, so that letters are crisp on dense screens.
const (
	dpi      = 144
	perPoint = dpi / 72
)

// The sizes of letters.
const (
	textSize  = vg.Length(8)
	smallSize = vg.Length(7)
)

var (
	ink   = color.NRGBA{R: 0x22, G: 0x22, B: 0x22, A: 0xff}
	faint = color.NRGBA{R: 0xe4, G: 0xe4, B: 0xe4, A: 0xff}
	grey  = color.NRGBA{R: 0x80, G: 0x80, B: 0x80, A: 0xff}
	white = color.NRGBA{R: 0xff, G: 0xff, B: 0xff, A: 0xff}
)

// methodColors are Okabe and Ito's (2008), without yellow, which is too light
// for lines.
var methodColors = []color.NRGBA{
	{0x00, 0x72, 0xb2, 0xff}, {0xd5, 0x5e, 0x00, 0xff}, {0x00, 0x9e, 0x73, 0xff},
	{0xcc, 0x79, 0xa7, 0xff}, {0xe6, 0x9f, 0x00, 0xff}, {0x56, 0xb4, 0xe9, 0xff},
}

var methodGlyphs = []vgdraw.GlyphDrawer{
	vgdraw.CircleGlyph{}, vgdraw.BoxGlyph{}, vgdraw.PyramidGlyph{},
	solid{{0, 1.35}, {1, 0}, {0, -1.35}, {-1, 0}}, // diamond
	solid{{-1.1, 0.9}, {1.1, 0.9}, {0, -1.1}},     // pyramid upside down
	solid{{-0.4, 1.2}, {0.4, 1.2}, {0.4, 0.4}, {1.2, 0.4}, {1.2, -0.4}, {0.4, -0.4}, {0.4, -1.2}, {-0.4, -1.2}, {-0.4, -0.4}, {-1.2, -0.4}, {-1.2, 0.4}, {-0.4, 0.4}}, // cross

}

// solid is a filled polygon as a mark, in units of its radius.
type solid [][2]float64

// DrawGlyph implements draw.GlyphDrawer.
func (s solid) DrawGlyph(c *vgdraw.Canvas, style vgdraw.GlyphStyle, at vg.Point) {
	pts := make([]vg.Point, len(s))
	for i, p := range s {
		pts[i] = vg.Point{X: at.X + vg.Length(p[0])*style.Radius, Y: at.Y + vg.Length(p[1])*style.Radius}
	}
	c.FillPolygon(style.Color, pts)
}

// methodStyle is the colour and mark of the k-th method of a run.
func methodStyle(k int) (color.NRGBA, vgdraw.GlyphDrawer) {
	return methodColors[k%len(methodColors)], methodGlyphs[k%len(methodGlyphs)]
}

// translucent is c at a share of its opacity.
func translucent(c color.NRGBA, alpha float64) color.NRGBA {
	c.A = uint8(alpha * 255)
	return c
}

// label is the style of a text: its size, and where it stands about its point.
func label(size vg.Length, x text.XAlignment, y text.YAlignment) text.Style {
	return text.Style{Color: ink, Font: font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size),
		XAlign: x, YAlign: y, Handler: plot.DefaultTextHandler}
}

// bold makes a style's letters bold.
func bold(s text.Style) text.Style {
	s.Font.Weight = 3 // font.WeightBold of golang.org/x/image
	return s
}

// figure is a picture being drawn, with its origin at the bottom left for vg
// and at the top left for pixels.
type figure struct {
	canvas *vgimg.Canvas
	vgdraw.Canvas
}

// newFigure returns a white picture.
func newFigure(w, h vg.Length) *figure {
	// Whole pixels, so that what is drawn in pixels meets what is drawn in points.
	w, h = vg.Length(math.Ceil(float64(w*perPoint)))/perPoint, vg.Length(math.Ceil(float64(h*perPoint)))/perPoint
	c := vgimg.NewWith(vgimg.UseWH(w, h), vgimg.UseDPI(dpi), vgimg.UseBackgroundColor(white))
	return &figure{canvas: c, Canvas: vgdraw.New(c)}
}

// pixels is the picture's raster.
func (f *figure) pixels() draw.Image { return f.canvas.Image() }

// at is the point of a position in pixels from the top left.
func (f *figure) at(x, y float64) vg.Point {
	h := float64(f.pixels().Bounds().Dy())
	return vg.Point{X: vg.Length(x / perPoint), Y: vg.Length((h - y) / perPoint)}
}

// write puts a text at a position in pixels from the top left.
func (f *figure) write(s text.Style, x, y float64, txt string) { f.FillText(s, f.at(x, y), txt) }

// fill colours a rectangle of pixels.
func (f *figure) fill(r image.Rectangle, c color.Color) {
	draw.Draw(f.pixels(), r, image.NewUniform(c), image.Point{}, draw.Over)
}

// line joins positions in pixels from the top left.
func (f *figure) line(c color.Color, width vg.Length, points ...[2]float64) {
	pts := make([]vg.Point, len(points))
	for i, p := range points {
		pts[i] = f.at(p[0], p[1])
	}
	f.StrokeLines(vgdraw.LineStyle{Color: c, Width: width}, pts)
}

// mark draws a glyph at a position in pixels from the top left.
func (f *figure) mark(c color.Color, radius vg.Length, shape vgdraw.GlyphDrawer, x, y float64) {
	f.DrawGlyphNoClip(vgdraw.GlyphStyle{Color: c, Radius: radius, Shape: shape}, f.at(x, y))
}

// encode returns the picture as PNG.
func (f *figure) encode() ([]byte, error) {
	var buf bytes.Buffer
	err := png.Encode(&buf, f.pixels())
	return buf.Bytes(), err
}

// scale maps numbers to colours of increasing lightness or darkness.
type scale struct {
	lo, hi float64
	stops  []color.NRGBA
	// root spreads small numbers: colours follow the square root.
	root bool
}

// viridis is matplotlib's map of that name (van der Walt and Smith 2015, CC0),
// at nine places.
var viridis = []color.NRGBA{
	{0x44, 0x01, 0x54, 0xff}, {0x47, 0x2d, 0x7b, 0xff}, {0x3b, 0x52, 0x8b, 0xff}, {0x2c, 0x72, 0x8e, 0xff}, {0x21, 0x91, 0x8c, 0xff},
	{0x28, 0xae, 0x80, 0xff}, {0x5e, 0xc9, 0x62, 0xff}, {0xad, 0xdc, 0x30, 0xff}, {0xfd, 0xe7, 0x25, 0xff},
}

// blues goes from white, for nothing, to dark blue (Brewer).
var blues = []color.NRGBA{
	{0xff, 0xff, 0xff, 0xff}, {0xde, 0xeb, 0xf7, 0xff}, {0x9e, 0xca, 0xe1, 0xff}, {0x42, 0x92, 0xc6, 0xff}, {0x08, 0x51, 0x9c, 0xff}, {0x08, 0x30, 0x6b, 0xff},
}

// color of x; numbers outside the scale have the colour of its nearer end.
func (s scale) color(x float64) color.NRGBA {
	t := 0.0
	if s.hi > s.lo {
		t = min(max((x-s.lo)/(s.hi-s.lo), 0), 1)
	}
	if s.root {
		t = math.Sqrt(t)
	}
	t *= float64(len(s.stops) - 1)
	k := min(int(t), len(s.stops)-2)
	t -= float64(k)
	a, b := s.stops[k], s.stops[k+1]
	mix := func(p, q uint8) uint8 { return uint8(math.Round(float64(p) + t*(float64(q)-float64(p)))) }
	return color.NRGBA{mix(a.R, b.R), mix(a.G, b.G), mix(a.B, b.B), 0xff}
}

// at is the number whose colour stands at a share of the scale's length.
func (s scale) at(t float64) float64 {
	if s.root {
		t *= t
	}
	return s.lo + t*(s.hi-s.lo)
}

// scaleOver spans all numbers of the vectors, and 0. It spreads small numbers
// unless some are negative: a few dear cells would hide the differences of all
// others.
func scaleOver(stops []color.NRGBA, vectors ...[]float64) scale {
	s := scale{stops: stops}
	for _, v := range vectors {
		if len(v) > 0 {
			s.lo, s.hi = min(s.lo, slices.Min(v)), max(s.hi, slices.Max(v))
		}
	}
	s.root = s.lo == 0
	return s
}
