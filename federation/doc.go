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
// training samples.
//
// # Faults
//
// Clients crash, hang and come back late; messages are lost, repeated, reordered
// and damaged. Of all this the machine sees updates that come or do not come,
// participants that the driver gave up ([Server.Drop]), and the time that the
// driver tells ([Server.Advance]). [Settings] says how long a round takes updates
// (Deadline), how many it needs (MinUpdates), how many more clients than that it
// asks (OverSelect), how far an update may be from the model (NormBound), and what
// becomes of a round that fails (OnFailure). [Report] accounts for every client
// and every message of a round.
//
// # Adversaries
//
// An update that is well-formed may still be wrong on purpose. [Median],
// [TrimmedMean], [Krum] and [MultiKrum] bear a number f of such clients under
// conditions on n and f that each names; Settings.Clip bounds what one client can
// do to a mean. Other rules implement [Aggregator]. Settings.Privacy adds noise
// so that the models tell little about any one client ([Privacy]).
//
// # What it promises
//
// The machine does no IO, reads no clock and draws no random number except
// from internal/stream: the participants of a round follow from (seed,
// "clients", round, attempt). The new model depends on the set of accepted
// updates only, bit for bit, never on the order in which they arrived or on the
// number of workers. A message that cannot be used is refused with a typed error
// ([Rejection]), recorded in the round's report, and changes nothing. A round
// that fails leaves the model as it was.
//
// All state is one plain struct ([State]) that encoding/json and encoding/gob
// write and read without loss, also in the middle of a round: a coordinator
// that dies goes on from its last copy ([Resume]).
//
// A Server belongs to one goroutine at a time. Parameter vectors are passed
// without copying and are never written to by this package: the server keeps
// the Params of an update that it accepted, or its scaled-down copy, and hands out
// its own model in [Plan] and [Server.Model]. Nobody may change either
// afterwards.
package federation
