package federation

import "fmt"

// Reason says why an update was refused. It is an error, so that
//
//	errors.Is(err, federation.NotFinite)
//
// tells the reasons apart, and plain text, so that a report can be stored.
type Reason string

// The reasons, in the order in which they are checked.
const (
	// NoRound: no round was open. The update is on record in the report of the
	// next one. errors.Is also finds ErrNoRound.
	NoRound Reason = "no round is open"
	// WrongRound: the update belongs to another round than the open one.
	WrongRound Reason = "wrong round"
	// UnknownClient: no client is registered under the ID.
	UnknownClient Reason = "unknown client"
	// NotParticipant: the client was not chosen for the round.
	NotParticipant Reason = "not a participant of the round"
	// Duplicate: an update of the client was accepted before in the round; the
	// first one stands.
	Duplicate Reason = "duplicate update"
	// Late: the round's deadline has passed.
	Late Reason = "after the deadline"
	// Surplus: as many updates as the round takes were accepted before.
	Surplus Reason = "the round has its updates"
	// WrongShape: the number of parameters is not that of the model.
	WrongShape Reason = "wrong number of parameters"
	// NotFinite: a parameter is NaN or infinite.
	NotFinite Reason = "not a finite number"
	// NormTooLarge: the change is longer than Settings.NormBound.
	NormTooLarge Reason = "norm above the bound"
)

// Error returns the reason as text.
func (r Reason) Error() string { return string(r) }

// Rejection is the error with which Submit refuses an update. It changes
// nothing but the round's report; a participant whose update was refused may
// send another.
type Rejection struct {
	// Client and Round are those named by the update.
	Client, Round int
	// Reason is one of the constants of type Reason.
	Reason Reason
	// Detail says what was found and what was expected.
	Detail string
}

// Error describes the rejection.
func (r *Rejection) Error() string {
	return fmt.Sprintf("update of client %d for round %d: %s: %s", r.Client, r.Round, string(r.Reason), r.Detail)
}

// Unwrap returns the Reason.
func (r *Rejection) Unwrap() error { return r.Reason }

// Is makes a Rejection for NoRound an ErrNoRound too.
func (r *Rejection) Is(target error) bool { return r.Reason == NoRound && target == ErrNoRound }

// maxRejections bounds the rejections kept in one round, so that a client that
// sends garbage without end cannot fill the server's memory.
const maxRejections = 1024
