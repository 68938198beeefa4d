//go:build !amd64 || purego

package kernel

// This build has no assembly: every vector part handles no element and leaves
// all to the generic code.

func best() level { return levelGo }

func panelWidth[T Float]() int { return widthGeneric }

func (p *panel[T]) run() { panelGeneric(p) }

func transpose[T Float](dst []T, ldd int, src []T, lds, rows, k int) {
	transposeGeneric(dst, ldd, src, lds, rows, k)
}

func axpyVector[T Float](_ T, _, _ []T) int                       { return 0 }
func sumSquaresVector[T Float](_ *[sumLanes]float64, _ []T) int   { return 0 }
func nonFiniteVector[T Float](_ []T) (int, bool)                  { return 0, false }
func colSumsVector[T Float](_, _ []T, _, _ int) int               { return 0 }
func reluGradVector[T Float](_, _, _ []T) int                     { return 0 }
func reluGradColSumsVector[T Float](_, _, _, _ []T, _, _ int) int { return 0 }
func adamVector[T Float](_, _, _, _ []T, _ *adamScalars[T]) int   { return 0 }

func scaleShiftVector[T Float](_, _, _, _, _ []T, _ bool) int { return 0 }
func affine2Vector[T Float](_, _, _, _, _, _ []T) int         { return 0 }
func columnSumsVector[T Float](_, _, _ []T) int               { return 0 }
func gradientSumsVector[T Float](_, _, _, _, _, _, _ []T) int { return 0 }

func (p *MaxPool[T]) windowsVector(_ *windows[T], _ int, _ span, _ *windowRun) int { return 0 }
func (p *MaxPool[T]) scatterVector(_, _ []T, _ []uint8, _ span, _ *windowRun) int  { return 0 }

func transformVector[T Float](_ transform, _ []T, _, _ int, _ []T, _, _, _ int, _ []T) int { return 0 }
