package graphop

import (
	"fmt"

	"gorgonia.org/gorgonia"
)

// Machine runs a graph, operation after operation, on the caller's goroutine.
//
// Gorgonia's TapeMachine hands every run to another goroutine while the caller
// is locked to its thread, and allocates per operation; beside operations of
// tens of microseconds that hand-off was half of a training run's time. Our
// operations own their outputs, so there are no registers to manage either.
// The order of execution is Gorgonia's topological order, and both machines
// compute the same bits.
type Machine struct {
	values []gorgonia.Value
	vars   []variable
	steps  []step
	index  map[*gorgonia.Node]int
}

// variable is a node whose value is set from outside.
type variable struct {
	node *gorgonia.Node
	slot int
}

// step is one operation; args are its inputs' slots, in a buffer of its own.
type step struct {
	op   gorgonia.Op
	args []int
	in   []gorgonia.Value
	out  int
}

// NewMachine compiles all of g.
func NewMachine(g *gorgonia.ExprGraph) (*Machine, error) {
	sorted, err := gorgonia.Sort(g)
	if err != nil {
		return nil, fmt.Errorf("graphop: %w", err)
	}
	m := &Machine{values: make([]gorgonia.Value, len(sorted)), index: make(map[*gorgonia.Node]int, len(sorted))}
	for k := len(sorted) - 1; k >= 0; k-- { // Sort puts the root first
		n, slot := sorted[k], len(m.index)
		m.index[n] = slot
		if n.Op() == nil {
			m.vars = append(m.vars, variable{n, slot})
			continue
		}
		s := step{op: n.Op(), out: slot}
		for inputs := g.From(n.ID()); inputs != nil && inputs.Next(); {
			child, ok := m.index[inputs.Node().(*gorgonia.Node)]
			if !ok {
				return nil, fmt.Errorf("graphop: %v reads a value that is not computed before it", n.Op())
			}
			s.args = append(s.args, child)
		}
		if want := n.Op().Arity(); want >= 0 && len(s.args) != want {
			return nil, fmt.Errorf("graphop: %v has %d inputs, want %d", n.Op(), len(s.args), want)
		}
		s.in = make([]gorgonia.Value, len(s.args))
		m.steps = append(m.steps, s)
	}
	return m, nil
}

// Run computes every node. An operation's own error is returned as it is.
func (m *Machine) Run() error {
	for _, v := range m.vars {
		if m.values[v.slot] = v.node.Value(); m.values[v.slot] == nil {
			return fmt.Errorf("graphop: input %s has no value", v.node.Name())
		}
	}
	for i := range m.steps {
		s := &m.steps[i]
		for k, slot := range s.args {
			s.in[k] = m.values[slot]
		}
		var err error
		if m.values[s.out], err = s.op.Do(s.in...); err != nil {
			return err
		}
	}
	return nil
}

// Value returns the value of a node after Run, valid until the next Run; nil
// for a node of another graph.
func (m *Machine) Value(n *gorgonia.Node) gorgonia.Value {
	slot, ok := m.index[n]
	if !ok {
		return nil
	}
	return m.values[slot]
}
