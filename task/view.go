package task

import "image"

// View says how a client's costs and decisions are shown to people. The zero
// value is a plain list of entries; a task sets what it knows. Nothing is
// computed from it.
type View struct {
	// Entry and Amount name what an entry of a decision is ("item") and what
	// its value says ("amount taken").
	Entry, Amount string
	// Value names a cost, or with Negated the negated cost, which then is what
	// people know ("value" of an item).
	Value   string
	Negated bool
	// Size, unless nil, is what a unit of each entry takes of the client's
	// limit, by which entries are ordered: value per size.
	Size []float64
	// Grid, unless nil, lays the entries out as the cells of a map.
	Grid *Grid
	// Picture, unless nil, shows test sample i as its features do.
	Picture func(i int) image.Image
}

// Grid is a map of Height rows and Width columns, row-major, with the cells
// between which a path leads; row-major indices, and Source != Sink.
type Grid struct {
	Height, Width int
	Source, Sink  int
}
