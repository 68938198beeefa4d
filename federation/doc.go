// Package federation is the server of federated training as a pure state
// machine: one model is trained across clients that keep their data, and only
// parameter vectors travel (paper, Table 1, stage 2; McMahan et al. 2017).
//
// # A round
//
//	plan, err := server.Begin(round)   // who takes part, and from which model
//	...                                // each participant trains locally
//	err = server.Submit(update)        // once per participant, in any order
//	report, err := server.Close()      // aggregate; the model moves
//
// A round takes m of the N clients that have training data, uniformly without
// replacement, where m = min(max(⌈fraction·N⌉, 1), N). FedAvg then moves the
// global model by the weighted mean of the clients' changes,
//
//	theta <- theta + Σ_j (n_j / Σ n) (theta_j - theta),
//
// over the clients whose update was accepted; n_j is the client's number of
// training samples. Other rules implement [Aggregator].
//
// # What it promises
//
// The machine does no IO, reads no clock and draws no random number except
// from internal/stream: the participants of a round follow from (seed,
// "clients", round). The new model depends on the set of accepted updates
// only, bit for bit, never on the order in which they arrived. An update that
// cannot be used is refused with a typed error ([Rejection]), recorded in the
// round's report, and changes nothing.
//
// All state is one plain struct ([State]) that encoding/json and encoding/gob
// write and read without loss, also in the middle of a round: a coordinator
// that dies goes on from its last copy ([Resume]).
//
// A Server belongs to one goroutine at a time. Parameter vectors are passed
// without copying and are never written to by this package: the server keeps
// the Params of an update that it accepted, and hands out its own model in
// [Plan] and [Server.Model]. Nobody may change either afterwards.
package federation
