package kernel

import "fmt"

// Pixel is the element types of stored images.
type Pixel interface{ uint8 | float32 | float64 }

// FromNCHW turns images [n, channels, pixels] into [n, pixels, channels] and
// normalises each channel: dst = scale[c] src + shift[c], the product and the
// sum rounded. Nil scale and shift leave the numbers as they are.
func FromNCHW[T Float, S Pixel](dst []T, src []S, n, channels, pixels int, scale, shift []T) {
	checkLayout("FromNCHW", len(dst), len(src), n, channels, pixels, len(scale), len(shift))
	for i := range n {
		d := dst[i*channels*pixels:][:channels*pixels]
		for c := range channels {
			plane := src[(i*channels+c)*pixels:][:pixels]
			a, b := T(1), T(0)
			if scale != nil {
				a, b = scale[c], shift[c]
			}
			for p, v := range plane {
				d[p*channels+c] = T(a*T(v)) + b
			}
		}
	}
}

// FromNHWC is FromNCHW for images that are [n, pixels, channels] already.
func FromNHWC[T Float, S Pixel](dst []T, src []S, n, channels, pixels int, scale, shift []T) {
	checkLayout("FromNHWC", len(dst), len(src), n, channels, pixels, len(scale), len(shift))
	for lo := 0; lo < n*channels*pixels; lo += channels {
		for c, v := range src[lo : lo+channels] {
			a, b := T(1), T(0)
			if scale != nil {
				a, b = scale[c], shift[c]
			}
			dst[lo+c] = T(a*T(v)) + b
		}
	}
}

// ToNCHW turns images [n, pixels, channels] into [n, channels, pixels].
func ToNCHW[T Float](dst, src []T, n, channels, pixels int) {
	checkLayout("ToNCHW", len(dst), len(src), n, channels, pixels, 0, 0)
	for i := range n {
		image := src[i*channels*pixels:][:channels*pixels]
		for c := range channels {
			plane := dst[(i*channels+c)*pixels:][:pixels]
			for p := range plane {
				plane[p] = image[p*channels+c]
			}
		}
	}
}

func checkLayout(op string, dst, src, n, channels, pixels, scale, shift int) {
	if n < 0 || channels < 1 || pixels < 0 || min(dst, src) < n*channels*pixels {
		panic(fmt.Sprintf("kernel.%s: %d and %d elements for %d images of %d channels, %d pixels", op, dst, src, n, channels, pixels))
	}
	if (scale != 0 || shift != 0) && (scale != channels || shift != channels) {
		panic(fmt.Sprintf("kernel.%s: scale and shift of %d and %d elements for %d channels", op, scale, shift, channels))
	}
}
