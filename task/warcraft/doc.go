// Package warcraft is the paper's shortest path task (paper, appendix C) on the
// Warcraft II maps of Vlastelica et al. (2020): from the picture of a map to a
// path of least cost across its grid.
//
// A map is an RGB image [8G, 8G, 3] of G x G cells, each of one terrain with a
// cost of its own. Client j is an army with a way to go, from a cell of the
// border to its antipode, and a taste: what a terrain costs it is the map's
// cost times exp(s z), with z standard normal, one for every client and
// terrain. All see the same kind of maps; each has maps of its own to learn
// from; and all are judged on the same test maps, with their own endpoints and
// costs. The feasible set is the relaxed path polytope, [qp.Path].
//
// # Data
//
// [Load] reads the published files; [Generate] draws maps of the same format
// and difficulty, with pictures of our own making, for use without them. The
// package measures how the two compare in its tests.
//
// # Memory
//
// Pictures stay as they are in the files, a byte a number: 276 MB for the
// 10,000 maps of 12 x 12. They are normalised as they are copied, by a table
// with an entry for every colour and value.
package warcraft
