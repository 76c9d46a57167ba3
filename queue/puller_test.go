package queue

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/berthq/berth/job"
)

// lane makes a lane of its own by a requirement nobody else has.
func (b *bundle) lane(mb int64, priority int) (job.Job, job.Lane) {
	b.t.Helper()
	j := newJob(fmt.Sprint("needs ", mb))
	j.Requirements.GPUMemoryMB = mb
	j.Spec.Priority = &priority
	j.SubmittedAt = time.Now()
	p := b.q.parcelFor(&j, JobRef(1), nil)
	if err := b.q.ensureLane(b.ctx, p.lane, p.shape, 0); err != nil {
		b.t.Fatal(err)
	}
	return j, p.lane
}

// waitingPulls counts the pulls that stand on a lane.
func (b *bundle) waitingPulls(l job.Lane) int {
	c, err := b.q.js.Consumer(b.ctx, StreamLanes, laneConsumer(l))
	if err != nil {
		return -1
	}
	return c.CachedInfo().NumWaiting
}

func TestNextTakesTheFirstLaneFirst(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	low, lowLane := b.lane(4096, 10)
	high, highLane := b.lane(4096, 90)
	for range 3 {
		b.submit(low)
		b.submit(high)
	}
	eventually(t, "all are on their lanes", func() bool { return b.onLanes() == 6 })
	m := b.machine("m1")
	wants := []Want{{Lane: highLane}, {Lane: lowLane}}
	var got []job.Lane
	for range 6 {
		d, err := m.p.Next(b.ctx, wants)
		if err != nil {
			t.Fatal(err)
		}
		c, err := d.Claim(b.ctx, nil)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, d.Lane)
		if err := c.Finish(b.ctx, succeeded); err != nil {
			t.Fatal(err)
		}
	}
	for i, l := range got {
		if want := wants[i/3].Lane; l != want {
			t.Errorf("job %d came from %v, want %v", i+1, l, want)
		}
	}
}

// One waiting pull stands on each empty lane, however often Next is called and ended, and it brings the next job at
// once.
func TestOneWaitingPullPerEmptyLane(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	j, lane := b.lane(4096, 50)
	m := b.machine("m1")
	wants := []Want{{Lane: lane}}
	for range 5 {
		ctx, cancel := context.WithCancel(b.ctx)
		done := make(chan error, 1)
		go func() {
			_, err := m.p.Next(ctx, wants)
			done <- err
		}()
		eventually(t, "a pull stands", func() bool { return b.waitingPulls(lane) >= 1 })
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Fatalf("next: %v", err)
		}
		if n := b.waitingPulls(lane); n != 1 {
			t.Fatalf("%d pulls stand on the lane, want 1", n)
		}
	}
	ref := b.submit(j)
	d, err := m.p.Next(b.ctx, wants)
	if err != nil || d.Ref() != ref {
		t.Fatalf("next: %v, %v", d, err)
	}
}

// A job that comes on a waiting pull while the worker is busy goes back at once, so that another machine gets it.
func TestSurplusIsReturnedAtOnce(t *testing.T) {
	t.Parallel()
	opts := quick()
	opts.AckWait = 30 * time.Second // so that a job that is not returned stays away for the whole test
	b := setup(t, opts)
	b.background(b.q.RunClerk)
	j, lane := b.lane(4096, 50)
	best, other := b.machine("best"), b.machine("other")
	ctx, cancel := context.WithCancel(b.ctx)
	done := make(chan error, 1)
	go func() {
		_, err := best.p.Next(ctx, []Want{{Lane: lane, Priority: 0}})
		done <- err
	}()
	eventually(t, "the best machine's pull stands", func() bool { return b.waitingPulls(lane) == 1 })
	cancel() // from here on the best machine is busy
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	ref := b.submit(j)
	began := time.Now()
	d, err := other.p.Next(b.ctx, []Want{{Lane: lane, Priority: 9}})
	if err != nil || d.Ref() != ref {
		t.Fatalf("next: %v, %v", d, err)
	}
	if waited := time.Since(began); waited > opts.AckWait/2 {
		t.Errorf("the job came after %v: it was kept by a machine that has no use for it", waited)
	}
}

// The broker gives a new job to the machine with the best score.
func TestBestScoreGetsTheJob(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	j, lane := b.lane(4096, 50)
	type got struct {
		score int
		ref   Ref
	}
	arrivals := make(chan got, 5)
	for _, score := range []int{7, 3, 9, 0, 5} {
		m := b.machine(fmt.Sprint("m", score))
		b.background(func(ctx context.Context) error {
			d, err := m.p.Next(ctx, []Want{{Lane: lane, Priority: score}})
			if err == nil {
				arrivals <- got{score, d.Ref()}
			}
			return err
		})
	}
	eventually(t, "all pulls stand", func() bool { return b.waitingPulls(lane) == 5 })
	for _, want := range []int{0, 3, 5, 7, 9} {
		ref := b.submit(j)
		if g := <-arrivals; g.score != want || g.ref != ref {
			t.Errorf("job %s went to score %d, want %s to %d", g.ref, g.score, ref, want)
		}
	}
}

// A lane whose consumer was deleted is served again, and no job on it is lost.
func TestDeletedConsumerComesBack(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	j, lane := b.lane(4096, 50)
	ref := b.submit(j)
	eventually(t, "it is on its lane", func() bool { return b.onLanes() == 1 })
	if err := b.q.js.DeleteConsumer(b.ctx, StreamLanes, laneConsumer(lane)); err != nil {
		t.Fatal(err)
	}
	m := b.machine("m1")
	if d := m.next(); d.Ref() != ref {
		t.Errorf("got %s", d.Ref())
	}
}

// Waiting pulls are forgotten on a reconnection: a broker that was restarted knows none of them.
func TestPullsAreMadeAnewAfterReconnection(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	j, lane := b.lane(4096, 50)
	m := b.machine("m1")
	got := make(chan *Delivery, 1)
	b.background(func(ctx context.Context) error {
		d, err := m.p.Next(ctx, []Want{{Lane: lane}})
		got <- d
		return err
	})
	eventually(t, "the pull stands", func() bool { return b.waitingPulls(lane) == 1 })
	b.broker.Stop()
	b.broker.Start()
	ref := b.submit(j)
	select {
	case d := <-got:
		if d.Ref() != ref {
			t.Errorf("got %s", d.Ref())
		}
	case <-time.After(patience):
		t.Fatal("the machine never asked again")
	}
}

// A lane nobody has used for long gets no waiting pull, yet its next job starts at once.
func TestColdLaneWakes(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	j, lane := b.lane(4096, 50)
	// The lane's last job was an hour ago.
	body := mustJSON(t, laneValue{DueIn: -time.Hour})
	if _, err := b.q.publish(b.ctx, newMsg("$KV."+BucketShapes+"."+laneKey(lane), body)); err != nil {
		t.Fatal(err)
	}
	cold := b.machine("m1") // reads the lanes as they are now
	got := make(chan *Delivery, 1)
	b.background(func(ctx context.Context) error {
		d, err := cold.p.Next(ctx, []Want{{Lane: lane}})
		got <- d
		return err
	})
	eventually(t, "the lane was found empty", func() bool {
		cold.p.mu.Lock()
		defer cold.p.mu.Unlock()
		return len(cold.p.quiet) == 1
	})
	if n := b.waitingPulls(lane); n != 0 {
		t.Errorf("%d pulls stand on a cold lane", n)
	}
	clerk := b.open()
	b.background(clerk.RunClerk)
	ref := b.submit(j)
	select {
	case d := <-got:
		if d.Ref() != ref {
			t.Errorf("got %s", d.Ref())
		}
	case <-time.After(coldSweep - 5*time.Second):
		t.Fatal("the job waited for the slow sweep")
	}
}

func TestTooManyLanesIsAClearRefusal(t *testing.T) {
	t.Parallel()
	opts := quick()
	opts.MaxLanes = 2
	b := setup(t, opts)
	b.background(b.q.RunClerk)
	var last Ref
	for i := range 3 {
		j := newJob("x")
		j.Requirements.Machine = fmt.Sprint("machine-", i)
		last = b.submit(j)
	}
	r := b.wait(last)
	if r.State != job.Dead || r.Reason != "TooManyLanes" || r.Evidence == "" {
		t.Errorf("result: %+v", r)
	}
}

// Binary garbage on a lane is dropped; where it names a job, that job ends dead with the reason. The worker lives on.
func TestGarbageOnALane(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	j, lane := b.lane(4096, 50)
	doomed := b.submit(j) // no clerk runs: only the garbage speaks of it
	for _, m := range []*nats.Msg{
		{Data: []byte{0, 1, 2, 0xff}},
		{Data: []byte(`{"v":1,"n":999999,"e":1}`)},
		{Data: []byte(`{"v":1,"n":1,"i":5,"e":1}`)},
		{Data: []byte("\x00"), Header: nats.Header{headerMsgID: {dispatchID(doomed, 1)}}},
		{},
	} {
		m.Subject = laneSubject(lane)
		if _, err := b.q.publish(b.ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	m := b.machine("m1")
	b.background(m.workOff)
	eventually(t, "the lane is clean", func() bool { return b.onLanes() == 0 })
	if r := b.wait(doomed); r.State != job.Dead || r.Reason != "Garbage" || r.Evidence == "" {
		t.Errorf("result of the job that was named: %+v", r)
	}
	b.background(b.q.RunClerk)
	if r := b.wait(b.submit(j)); r.State != job.Succeeded {
		t.Errorf("the next job: %+v", r)
	}
}

// Binary garbage on the jobs stream ends dead with a result, and the clerk lives on.
func TestGarbageOnTheJobsStream(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	wrong := newJob("somebody else's")
	wrong.Version, wrong.ID, wrong.User = 1, "x", "bob"
	var refs []Ref
	for _, body := range [][]byte{{0, 1, 2, 0xff}, []byte(`{}`), []byte(`[]`), mustJSON(t, wrong), nil} {
		ack, err := b.q.publish(b.ctx, newMsg(jobSubject("lab", "ada"), body))
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, JobRef(ack.Sequence))
	}
	for _, ref := range refs {
		r := b.wait(ref)
		if r.State != job.Dead || r.Reason != "Garbage" || r.Evidence == "" || r.User != "ada" || r.Attempt != 0 {
			t.Errorf("result of %s: %+v", ref, r)
		}
		if v, err := b.q.Show(b.ctx, ref); err != nil || v.State != job.Dead {
			t.Errorf("show %s: %+v, %v", ref, v, err)
		}
	}
	m := b.machine("m1")
	b.background(m.workOff)
	if r := b.wait(b.submit(newJob("good"))); r.State != job.Succeeded {
		t.Errorf("the next job: %+v", r)
	}
}
