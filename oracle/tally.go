package oracle

// Tally counts projections by how hard they were.
type Tally struct {
	// Projections counts all of them, Hard those that took the slower of a
	// solver's methods; its package says which.
	Projections, Hard int64
	// Pairs is the sum over the projections onto paths of the pairs of
	// neighbours of which cycles are made; its package says how far they are
	// counted.
	Pairs int64
}

// Add adds o to t.
func (t *Tally) Add(o Tally) {
	t.Projections += o.Projections
	t.Hard += o.Hard
	t.Pairs += o.Pairs
}

// Tallier is a Projector that counts.
type Tallier interface {
	// Tally counts the projections since the solver was made.
	Tally() Tally
}

// Tally adds up the counts of the pool's projectors that are Talliers.
func (p *Pool) Tally() Tally {
	var t Tally
	for _, s := range p.solvers {
		if counts, ok := s.Projector.(Tallier); ok {
			t.Add(counts.Tally())
		}
	}
	return t
}
