// Package privacy accounts for the differential privacy of Gaussian noise on a
// sum over a random sample: Rényi differential privacy (RDP) of one release
// ([Gaussian], [Poisson], [WithoutReplacement], [ZeroOut]), composition
// ([Curve.Times], [Curve.Add]) and conversion to (ε, δ) ([Curve.Epsilon]).
//
// # Units and adjacency
//
// A noise multiplier z is the standard deviation of the noise over the
// sensitivity of the sum: the most that one unit, here a client, can change it
// in Euclidean norm. What "change" means is the adjacency. Let every unit
// contribute a vector of norm at most S, and let the noise be z S:
//
//   - add or remove a unit, and zero out (its vector becomes 0): sensitivity S,
//     noise multiplier z;
//   - replace a unit by another: sensitivity 2S, noise multiplier z/2.
//
// A sample is drawn in one of two ways, and a bound for one says nothing of the
// other. Poisson sampling takes every unit independently with probability q;
// sampling without replacement takes a fixed number m of N, q = m/N.
//
// # Numbers
//
// Expectations over a Gaussian are sums of the trapezoidal rule, whose error
// for these analytic integrands falls as exp(-c/h²) or exp(-c/h) in the step h;
// steps are chosen so that it is below the rounding error. Everything is
// summed in logarithms, so that nothing overflows. Bounds are RDP bounds: they
// are valid, and a few percent to tens of percent above the best possible ε.
//
// The package imports nothing of the module.
package privacy
