package operator

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/natsembed/natstest"
	"github.com/berthq/berth/queue"
)

// room is a machine that answers questions about its room, and counts them.
type room struct {
	t     *testing.T
	queue *queue.Queue
	name  string
	free  atomic.Bool
	asked chan struct{} // one for every question
}

func newRoom(t *testing.T, name string) *room {
	t.Helper()
	broker := natstest.New(t)
	q, err := queue.Open(t.Context(), broker.Connect(), queue.Options{LogBytes: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	r := &room{t: t, queue: q, name: name, asked: make(chan struct{}, 1000)}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- q.ServeLeases(ctx, queue.LeaseDesk{Machine: name, Held: func() []queue.HeldLease { return nil }, Room: r.answer})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
		q.Close()
	})
	for { // it listens once it answers
		if _, err := q.Leases(t.Context(), name, queue.Me{Project: "p", User: "u"}); err == nil {
			break
		}
	}
	r.announce()
	return r
}

func (r *room) answer(context.Context, job.Requirements) queue.Room {
	defer func() { r.asked <- struct{}{} }()
	if r.free.Load() {
		return queue.Room{OK: true, Text: "yes"}
	}
	return queue.Room{Text: "all busy"}
}

func (r *room) announce() {
	r.t.Helper()
	if err := r.queue.Announce(r.t.Context(), queue.Machine{Name: r.name, At: time.Now()}); err != nil {
		r.t.Fatal(err)
	}
}

func (r *room) checker() checker {
	return checker{q: r.queue, me: queue.Me{Project: "p", User: "u"}, req: job.Requirements{GPUs: 1}}
}

// Who waits for GPUs asks once when he begins, once when he watches, and then once for each word of a machine: never by
// the clock.
func TestCheckIsWokenByWhatMachinesSay(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "titan")
	done := make(chan answer, 1)
	go func() {
		a, err := r.checker().await(t.Context(), 5*time.Minute)
		if err != nil {
			t.Error(err)
		}
		done <- a
	}()
	<-r.asked // at once
	<-r.asked // the machine as the watch finds it
	for range 5 {
		r.announce()
		<-r.asked
	}
	select {
	case <-r.asked:
		t.Error("asked though no machine has said anything")
	case a := <-done:
		t.Fatalf("answered %+v with nothing free", a)
	default:
	}
	r.free.Store(true)
	r.announce()
	if a := <-done; !a.OK || a.Machine != "titan" || a.Text != "titan: yes" {
		t.Errorf("%+v", a)
	}
	<-r.asked
	if n := len(r.asked); n != 0 {
		t.Errorf("asked %d times more than there was news", n)
	}
}

func TestCheckGivesUpAndSaysSo(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "titan")
	a, err := r.checker().await(t.Context(), 200*time.Millisecond)
	if err != nil || a.OK || a.Text != "titan: no: all busy (waited 200ms)" {
		t.Errorf("%+v, %v", a, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := r.checker().await(ctx, time.Minute); err == nil {
		t.Error("an interrupted check has an answer")
	}
}

// A machine that has died is asked in vain: that is a no with its name, not an error.
func TestCheckOfAMachineThatIsSilent(t *testing.T) {
	t.Parallel()
	r := newRoom(t, "titan")
	if err := r.queue.Announce(t.Context(), queue.Machine{Name: "silent", At: time.Now()}); err != nil {
		t.Fatal(err)
	}
	c := r.checker()
	c.machine = "silent"
	if a, err := c.now(t.Context()); err != nil || a.OK || !strings.Contains(a.Text, "the worker of silent does not answer") {
		t.Errorf("%+v, %v", a, err)
	}
	r.free.Store(true)
	if a, err := r.checker().now(t.Context()); err != nil || !a.OK || a.Machine != "titan" {
		t.Errorf("beside one that answers: %+v, %v", a, err)
	}
}

func TestChooseAmongAnswers(t *testing.T) {
	t.Parallel()
	yes := answer{OK: true, Text: "yes"}
	no, never := answer{Text: "busy"}, answer{Never: true, Text: "too small"}
	for _, c := range []struct {
		answers []answer
		want    string
	}{
		{[]answer{no}, "busy"},
		{[]answer{no, yes, yes}, "yes"},
		{[]answer{never, no}, "busy (and no on the other machine)"},
		{[]answer{never, never, never}, "too small (and no on 2 other machines)"},
	} {
		if got := choose(c.answers); got.Text != c.want {
			t.Errorf("%v: %q, want %q", c.answers, got.Text, c.want)
		}
	}
}
