package queue

import (
	"context"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// What a caller may want to tell apart.
var (
	// ErrUnreachable: nobody answers at the address.
	ErrUnreachable = errors.New("the broker is not reachable")
	// ErrUnauthorized: the broker answers and refuses the token or credentials, or what they may do.
	ErrUnauthorized = errors.New("the broker refused these credentials")
	// ErrNoJetStream: a NATS server without JetStream.
	ErrNoJetStream = errors.New("the NATS server runs without JetStream")
	// ErrNoStreams: a broker on which Berth has not been set up, and this user may not do it.
	ErrNoStreams = errors.New("the broker has no Berth streams")
	// ErrNotFound: no such job.
	ErrNotFound = errors.New("no such job")
	// ErrAmbiguous: more than one job is meant by that.
	ErrAmbiguous = errors.New("more than one job fits")
	// ErrTooLarge: the job does not fit into one message.
	ErrTooLarge = errors.New("the job is larger than the broker's limit for one message")
	// ErrTooManyLanes: the fleet's queue has as many kinds of jobs as it can serve.
	ErrTooManyLanes = errors.New("too many different kinds of jobs are queued")
	// ErrFinal: the job has ended already.
	ErrFinal = errors.New("the job has ended already")
	// ErrNotAllowed: the job belongs to another project.
	ErrNotAllowed = errors.New("not allowed")

	// ErrNotKept: the log begins after the sequence that was asked for.
	ErrNotKept = errors.New("that sequence is not kept any more")
	// ErrNotYet: the log has not come to the sequence that was asked for.
	ErrNotYet = errors.New("that sequence is ahead of the log")

	// ErrForget: the delivery is of no use any more (job finished, older epoch, cancelled); it has been acknowledged.
	ErrForget = errors.New("the job needs nobody any more")
	// ErrHeld: another worker with a live session holds the job; the delivery has been returned.
	ErrHeld = errors.New("another worker holds the job")
	// ErrStepBack: another writer was faster; the delivery has been returned.
	ErrStepBack = errors.New("the record was changed by another worker")
	// ErrClaimLost: the right to run the job is gone. Stop the run; write and acknowledge nothing.
	ErrClaimLost = errors.New("the claim is lost")
	// ErrSessionLost: the worker's proof of life is gone.
	ErrSessionLost = errors.New("the session is lost")
	// ErrClosed: the puller, session or queue has been closed.
	ErrClosed = errors.New("closed")
)

// errConflict: the compare-and-set found another revision.
var errConflict = errors.New("the key has another revision")

// isWrongLast knows both codes for "wrong last sequence", of single and of replicated streams.
func isWrongLast(err error) bool {
	if errors.Is(err, jetstream.ErrKeyExists) {
		return true
	}
	var api *jetstream.APIError
	return errors.As(err, &api) &&
		(api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence ||
			api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// isTransient tells an error that the same request may outlive (a broker restarting, an election) from one that it
// will meet for ever.
func isTransient(err error) bool {
	for _, passing := range []error{
		context.DeadlineExceeded, nats.ErrTimeout, nats.ErrNoResponders, jetstream.ErrNoStreamResponse,
		nats.ErrStaleConnection, nats.ErrReconnectBufExceeded, nats.ErrConnectionReconnecting, nats.ErrDisconnected,
	} {
		if errors.Is(err, passing) {
			return true
		}
	}
	var api *jetstream.APIError
	return errors.As(err, &api) && api.Code >= 500
}
