package knapsack

import (
	"fmt"
	"math"

	"fedrspo/oracle"
)

// projector solves the regularised problem over a region.
type projector struct {
	*region
	// p is -theta/lambda, less what shift has moved into it.
	p []float64
	// tau is the multiplier of the last pass relative to p: the solution is
	// clip(p - tau a, 0, 1). shifted is what shift has moved, up to rounding.
	tau, shifted float64
	// active: the constraint binds at the solution. solved: p, tau and active
	// describe a successful Project.
	active, solved bool
	// limit is the number of passes after which a solve stops short.
	limit int
}

// passLimit is out of reach: between two shifts a bracket closes in at most
// some 160 passes, and each shift scales the multiplier down by 2^26.
const passLimit = 1 << 14

func newProjector(r *region) *projector {
	return &projector{region: r, p: make([]float64, len(r.a)), limit: passLimit}
}

// Project implements oracle.Projector.
func (s *projector) Project(dst, theta []float64, lambda float64, _ *oracle.Warm) (oracle.Info, error) {
	s.solved, s.active = false, false
	if len(theta) != len(s.a) || len(dst) != len(s.a) || !(lambda > 0 && lambda <= math.MaxFloat64) {
		return oracle.Info{}, oracle.CheckProject(dst, theta, lambda, len(s.a))
	}
	excess, start, finite := s.begin(dst, theta, lambda)
	if !finite {
		if err := oracle.CheckProject(dst, theta, lambda, len(s.a)); err != nil {
			return oracle.Info{}, err
		}
		return oracle.Info{}, fmt.Errorf("-theta/lambda overflows for lambda %v: %w", lambda, oracle.ErrNonFinite)
	}
	info := oracle.Info{Status: oracle.Optimal, Iterations: 1}
	switch {
	case s.fixed:
		for i := range dst {
			dst[i] = s.fill
		}
	case s.equality || !s.slack && excess > s.fine:
		s.active = true
		var err error
		if info, err = s.findMultiplier(dst, excess, start); err != nil {
			return info, err
		}
		info.Gap *= lambda
	}
	s.solved = true
	return info, nil
}

// begin sets p to -theta/lambda and dst to the solution for tau = 0, whose
// a.dst - b is excess. start is a first guess of tau: the solution of the
// problem without its upper bounds (nor, for an equality, its lower ones) and
// with the p far above 1, which those bounds would hold back, moved to 2.
// finite reports whether all of p is.
func (s *projector) begin(dst, theta []float64, lambda float64) (excess, start float64, finite bool) {
	p := s.p
	a, aa := s.a[:len(p)], s.aa[:len(p)]
	dst, theta = dst[:len(p)], theta[:len(p)]
	s.tau, s.shifted = 0, 0
	var used, reach, square, bad float64
	if s.equality {
		for i, x := range theta {
			q := -x / lambda
			p[i] = q
			bad += q - q
			reach += float64(a[i] * q)
			square += aa[i]
		}
		return 0, (reach - s.b) / square, bad == 0
	}
	for i, x := range theta {
		q := -x / lambda
		p[i] = q
		bad += q - q // 0, or NaN for a q that is not finite
		w, _ := clip(q)
		dst[i] = w
		used += float64(a[i] * w)
		c, positive := clipTo2(q)
		reach += float64(a[i] * c)
		square += selected(aa[i], positive)
	}
	return used - s.b, (reach - s.b) / square, bad == 0
}

// JVP implements oracle.Projector.
func (s *projector) JVP(dst, v []float64) error {
	if err := oracle.CheckSolve(dst, v, len(s.a)); err != nil {
		return err
	}
	if !s.solved {
		return oracle.ErrNoProjection
	}
	if s.fixed {
		clear(dst)
		return nil
	}
	p := s.p
	a, aa := s.a[:len(p)], s.aa[:len(p)]
	dst, v = dst[:len(p)], v[:len(p)]
	var along, square float64
	for i := range p {
		free := interior(p[i] - float64(s.tau*a[i]))
		dst[i] = selected(v[i], free)
		along += float64(a[i] * dst[i])
		square += selected(aa[i], free)
	}
	if !s.active || square == 0 {
		return nil
	}
	along /= square
	bad := 0.0
	for i := range p {
		free := interior(p[i] - float64(s.tau*a[i]))
		dst[i] -= selected(float64(a[i]*along), free)
		bad += dst[i] - dst[i]
	}
	if bad != 0 {
		return fmt.Errorf("the Jacobian-vector product overflows: %w", oracle.ErrNonFinite)
	}
	return nil
}
