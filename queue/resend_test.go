package queue

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A job that is still being sent when the broker may have forgotten its first try is looked for, and not stored twice.
func TestSubmitLooksBeforeItTriesAgain(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	message := func(id, user string) *nats.Msg {
		j := newJob(id)
		j.ID, j.User = id, user
		m := newMsg(jobSubject("lab", user), mustJSON(t, j))
		m.Header.Set(headerMsgID, id)
		return m
	}
	stored := func() uint64 {
		state, err := b.q.streamState(b.ctx, StreamJobs, "")
		if err != nil {
			t.Fatal(err)
		}
		return state.Msgs
	}
	const at = time.Nanosecond // there is no time to try it without a look
	late := message("late", "ada")
	for _, m := range []*nats.Msg{message("before", "ada"), message("other", "bob"), late} {
		if _, err := b.q.publish(b.ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	ack, err := b.q.publishJob(b.ctx, late, at)
	if err != nil || ack.Sequence != 3 || !ack.Duplicate {
		t.Errorf("acknowledged as %+v, %v", ack, err)
	}

	const sure = 300 * time.Millisecond
	b.broker.Stop()
	type answer struct {
		ack *jetstream.PubAck
		err error
	}
	got := make(chan answer, 1)
	go func() {
		ack, err := b.q.publishJob(b.ctx, message("away", "ada"), sure)
		got <- answer{ack, err}
	}()
	select { // the broker is away until it is too late to send it again without a look
	case a := <-got:
		t.Fatalf("without a broker: %+v, %v", a.ack, a.err)
	case <-time.After(3 * sure):
	}
	b.broker.Start()
	if a := <-got; a.err != nil || a.ack.Sequence != 4 || stored() != 4 {
		t.Errorf("acknowledged as %+v, %v; %d jobs are stored", a.ack, a.err, stored())
	}
}
