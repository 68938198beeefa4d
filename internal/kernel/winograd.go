package kernel

func winogradHas(s ConvShape) bool {
	return false
}

func winogradPays(s ConvShape) bool { return false }

func winogradPack[T Float](p *packedWeights[T], hwio []T, g *correlation) {}

func winograd[T Float](t *threadScratch[T], g *correlation, weights, dst, src []T) {}

func winogradGradient[T Float](t *threadScratch[T], g *correlation, dw, x, dy []T) {}
