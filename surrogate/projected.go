package surrogate

import (
	"fmt"

	"fedrspo/oracle"
)

// projected is a Loss whose rows need one projection each, at Batch.Lambda, so
// that those of a batch can be solved together.
type projected interface {
	Loss
	// ask fills in what row i wants projected; the lambda is set.
	ask(b *Batch, i int, chat, grad []float64, r *oracle.Projection)
	// take returns the loss of row i and writes its gradient.
	take(b *Batch, i int, chat, grad []float64, r *oracle.Projection) float64
}

// projectedRow is the Row of a projected loss: a batch of one.
func projectedRow(l projected, s *oracle.Solver, b *Batch, i int, chat, grad []float64) (float64, error) {
	r := oracle.Projection{Theta: s.Scratch[0], Dst: s.Scratch[1], Lambda: b.Lambda}
	l.ask(b, i, chat, grad, &r)
	if err := s.Regularize(r.Dst, r.Theta, r.Lambda, r.Warm); err != nil {
		return 0, err
	}
	if r.V != nil {
		if err := s.Projector.JVP(r.JV, r.V); err != nil {
			return 0, fmt.Errorf("derivative of the projection: %w", err)
		}
	}
	return l.take(b, i, chat, grad, &r), nil
}

// projectedJob is the oracle.ProjectionJob of one Eval.
type projectedJob struct {
	*job
	loss projected
}

// Ask implements oracle.ProjectionJob.
func (j *projectedJob) Ask(_ *oracle.Solver, i int, r *oracle.Projection) error {
	chat := row(j.chat, i, j.d)
	if err := oracle.CheckVector("prediction", chat, j.d); err != nil {
		return err
	}
	r.Lambda = j.b.Lambda
	j.loss.ask(j.b, i, chat, row(j.grad, i, j.d), r)
	return nil
}

// Take implements oracle.ProjectionJob.
func (j *projectedJob) Take(_ *oracle.Solver, i int, r *oracle.Projection) error {
	grad := row(j.grad, i, j.d)
	return j.keep(i, j.loss.take(j.b, i, row(j.chat, i, j.d), grad, r), grad)
}
