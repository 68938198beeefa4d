// Package bench measures the oracles of this module on random problems like
// those they meet in training, and checks their answers.
//
// # Problems
//
// A [Problem] names an oracle, a size, how well costs are predicted and lambda.
// Its instances are thousands of distinct ones, because a processor learns the
// branches of a few that repeat. Costs c are those of the paper's tasks; the
// vector that is projected is that of the RSPO+ loss, 2 ĉ - c, with ĉ a
// prediction of the chosen [Quality]. With Warm > 0 a projection starts from
// what the solver remembers of the same instance, before its prediction changed
// by about that share.
//
// # Times
//
// [Measure] runs the projection and the linear minimiser of the same set in
// turns of a few milliseconds, and repeats its instances until the time is
// over. The time of one worker is processor time (on Linux) in the median run of
// every chunk of instances; that of several is wall time in the fastest run. On
// a busy machine ratios of times from one Measure are more telling than the
// times.
//
// # Accuracy
//
// With p = -theta/lambda an answer w has the certificate
//
//	gap = g.w - min over s in S of g.s >= |w - Π(p)|²/2,   g = w - p,
//
// which the linear minimiser computes independently of the projection. All gaps
// of this package are in these units.
package bench
