package queue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/berthq/berth/job"
)

func TestJudge(t *testing.T) {
	t.Parallel()
	queued := job.Record{State: job.Queued, Epoch: 2}
	running := job.Record{State: job.Running, Epoch: 2}
	ended := job.Record{State: job.Failed, Epoch: 2}
	held := job.Record{State: job.Held, Epoch: 2}
	wanted := job.Record{State: job.Queued, Epoch: 2, Cancel: &job.Cancel{}}
	for _, c := range []struct {
		name  string
		rec   *job.Record
		epoch int
		want  verdict
	}{
		{"never seen", nil, 1, mayClaim},
		{"record expired", nil, 3, mayClaim},
		{"queued", &queued, 2, mayClaim},
		{"older epoch", &queued, 1, mayForget},
		{"copy lags", &queued, 3, tooEarly},
		{"running", &running, 2, isRunning},
		{"older epoch of a running one", &running, 1, mayForget},
		{"ended", &ended, 2, mayForget},
		{"ended, a new round not visible yet", &ended, 3, tooEarly},
		{"held", &held, 2, mayForget},
		{"cancel wished", &wanted, 2, mayForget},
	} {
		if got := judge(c.rec, c.epoch); got != c.want {
			t.Errorf("%s: verdict %d, want %d", c.name, got, c.want)
		}
	}
}

// A worker that was cut off, lost its session and comes back late must not be able to write, publish or acknowledge
// anything.
func TestZombiesFinishIsRefused(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{ClaimTTL: 2 * time.Second, AckWait: time.Second})
	b.background(b.q.RunClerk)
	ref := b.submit(newJob("haunted"))
	zombie := b.machine("m1")
	old := zombie.claim()
	zombie.s.Detach() // its session runs out, the process lives on

	heir := b.machine("m2").claim()
	if heir.Ref() != ref || heir.Attempt() != 2 {
		t.Fatalf("the heir has %s attempt %d", heir.Ref(), heir.Attempt())
	}
	lie := succeeded
	lie.Reason = "written by a zombie"
	for name, end := range map[string]func() error{
		"finish":  func() error { return old.Finish(b.ctx, lie) },
		"requeue": func() error { return old.Requeue(b.ctx, job.Attempt{Outcome: job.OutcomeFailed}, Requeue{}) },
		"return":  func() error { return old.Return(b.ctx, 0, "drained") },
	} {
		if err := end(); !errors.Is(err, ErrClaimLost) {
			t.Errorf("the zombie's %s: %v, want ErrClaimLost", name, err)
		}
	}
	if rec := b.record(ref); rec.State != job.Running || rec.Session != heir.session.ID() {
		t.Errorf("the record after the zombie: %+v", rec)
	}
	if err := heir.Finish(b.ctx, succeeded); err != nil {
		t.Fatal(err)
	}
	all := b.results(ref)
	if len(all) != 1 || all[0].Attempt != 2 || all[0].Reason != "" {
		t.Errorf("results: %+v", all)
	}
	lost := all[0].Attempts[0]
	if lost.Outcome != job.OutcomeMachineLost || lost.Machine != "m1" || lost.Evidence == "" {
		t.Errorf("the lost attempt: %+v", lost)
	}
	if n := b.runs(ref); n != 2 {
		t.Errorf("%d attempt messages, want 2", n)
	}
}

func TestHoldNoticesALostClaim(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{ClaimTTL: 2 * time.Second, AckWait: time.Second})
	b.background(b.q.RunClerk)
	b.submit(newJob("x"))
	m := b.machine("m1")
	c := m.claim()
	held := make(chan error, 1)
	go func() { held <- c.Hold(b.ctx) }()
	m.q.nc.Close() // cut off: nothing is confirmed any more
	select {
	case err := <-held:
		if !errors.Is(err, ErrClaimLost) {
			t.Errorf("hold: %v", err)
		}
	case <-time.After(patience):
		t.Fatal("a worker without a broker still believes in its claim")
	}
	if time.Now().Before(m.s.Deadline()) {
		t.Error("it gave up before its deadline")
	}
}

// A dead machine's job is handed on after claim_ttl, not before and without anybody's help.
func TestDeadMachinesJobRunsElsewhere(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{ClaimTTL: 2 * time.Second, AckWait: time.Second})
	b.background(b.q.RunClerk)
	ref := b.submit(newJob("orphan"))
	first := b.machine("m1")
	first.claim()
	first.die()

	heir := b.machine("m2")
	c := heir.claim()
	if c.Ref() != ref || c.Attempt() != 2 || c.Epoch() != 1 {
		t.Fatalf("%s attempt %d epoch %d", c.Ref(), c.Attempt(), c.Epoch())
	}
	alive, err := b.q.alive(b.ctx, first.s.ID())
	if err != nil || alive {
		t.Errorf("the job was handed on while its holder's session stood (alive %v, %v)", alive, err)
	}
	if err := c.Finish(b.ctx, succeeded); err != nil {
		t.Fatal(err)
	}
}

func TestPoisonJobEndsDead(t *testing.T) {
	t.Parallel()
	b := setup(t, Options{ClaimTTL: 2 * time.Second, AckWait: time.Second, SystemAttempts: 2})
	b.background(b.q.RunClerk)
	ref := b.submit(newJob("poison"))
	for i, name := range []string{"m1", "m2"} {
		m := b.machine(name)
		if c := m.claim(); c.Attempt() != i+1 {
			t.Fatalf("attempt %d on %s", c.Attempt(), name)
		}
		m.die()
	}
	m := b.machine("m3")
	b.background(func(ctx context.Context) error {
		d, err := m.p.Next(ctx, m.wants())
		if err == nil {
			t.Errorf("it was given to a third machine: %s", d.Ref())
		}
		return err
	})
	r := b.wait(ref)
	if r.State != job.Dead || r.Reason != "system_attempts" || len(r.Attempts) != 2 || r.Evidence == "" {
		t.Errorf("result: %+v", r)
	}
	eventually(t, "the lane is empty", func() bool { return b.onLanes() == 0 })
}

// A message of an older epoch is forgotten, and must not take the newer one with it.
func TestOldEpochIsForgotten(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	ref := b.submit(newJob("again"))
	m := b.machine("m1")
	c := m.claim()
	if err := c.Requeue(b.ctx, job.Attempt{Outcome: job.OutcomeFailed, Exit: &job.Exit{Code: 3}}, Requeue{Why: "retry 1 of 1"}); err != nil {
		t.Fatal(err)
	}
	// A second message of epoch 1, as a crash between dispatch and acknowledgement leaves it.
	j, err := b.q.Job(b.ctx, ref.Number)
	if err != nil {
		t.Fatal(err)
	}
	stale := b.q.parcelFor(j, ref, nil)
	msg, err := b.q.prepare(b.ctx, stale)
	if err != nil {
		t.Fatal(err)
	}
	msg.Header.Del(headerMsgID)
	if _, err := b.q.publish(b.ctx, msg); err != nil {
		t.Fatal(err)
	}

	c = m.claim()
	if c.Epoch() != 2 || c.Attempt() != 2 {
		t.Fatalf("epoch %d attempt %d", c.Epoch(), c.Attempt())
	}
	if d, err := m.tryNext(time.Second); err == nil {
		if _, err := d.Claim(b.ctx, nil); !errors.Is(err, ErrForget) {
			t.Fatalf("the old epoch was claimed: %v", err)
		}
	}
	if n := b.onLanes(); n != 1 {
		t.Errorf("%d messages on lanes, want the claimed one only", n)
	}
	if err := c.Finish(b.ctx, succeeded); err != nil {
		t.Fatal(err)
	}
	r := b.results(ref)
	if len(r) != 1 || len(r[0].Attempts) != 2 || r[0].Attempts[0].Exit.Code != 3 {
		t.Errorf("results: %+v", r)
	}
	if n := b.runs(ref); n != 2 {
		t.Errorf("%d attempt messages, want 2", n)
	}
}

func TestRequeueWithDelay(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	ref := b.submit(newJob("later"))
	m := b.machine("m1")
	more := job.Requirements{GPUs: 1, GPUMemoryMB: 9000}
	c := m.claim()
	began := time.Now()
	err := c.Requeue(b.ctx, job.Attempt{Outcome: job.OutcomeOOMGPU}, Requeue{Delay: 1500 * time.Millisecond, Requirements: &more, Why: "more memory"})
	if err != nil {
		t.Fatal(err)
	}
	if rec := b.record(ref); rec.State != job.Queued || rec.Reason != "Backoff" || rec.NotBefore == nil || rec.Run == nil {
		t.Errorf("record while it waits: %+v", rec)
	}
	d := m.next()
	if waited := time.Since(began); waited < 1400*time.Millisecond {
		t.Errorf("it came back after %v", waited)
	}
	if d.Requirements.GPUMemoryMB != 9000 || d.Epoch != 2 || d.Attempts() != 1 {
		t.Errorf("delivery: %+v", d)
	}
	c, err = d.Claim(b.ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Finish(b.ctx, succeeded); err != nil {
		t.Fatal(err)
	}
}

func TestReturnIsFreeOfCharge(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	first := b.submit(newJob("first"))
	m := b.machine("m1")
	c := m.claim()
	if err := c.Return(b.ctx, 0, "drained"); err != nil {
		t.Fatal(err)
	}
	c = m.claim()
	if c.Ref() != first || c.Attempt() != 2 || c.Epoch() != 1 {
		t.Fatalf("got %s attempt %d epoch %d", c.Ref(), c.Attempt(), c.Epoch())
	}
	if a := c.Record().Attempts[0]; a.Outcome != job.OutcomeInterrupted || a.Outcome.Charged() || a.Reason != "drained" {
		t.Errorf("the returned attempt: %+v", a)
	}
	if err := c.Finish(b.ctx, succeeded); err != nil {
		t.Fatal(err)
	}
}

// A worker that was killed and started again goes on with its run: same attempt, one result.
func TestResumeAfterWorkerRestart(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	ref := b.submit(newJob("adopted"))
	before := b.machine("m1")
	state := before.claim().State()
	before.die()

	after := b.machine("m1")
	c, err := after.q.Resume(b.ctx, after.s, state)
	if err != nil {
		t.Fatal(err)
	}
	if c.Attempt() != 1 || c.Job.Spec.Name != "adopted" {
		t.Errorf("resumed: attempt %d of %q", c.Attempt(), c.Job.Spec.Name)
	}
	if err := c.Finish(b.ctx, succeeded); err != nil {
		t.Fatal(err)
	}
	if r := b.results(ref); len(r) != 1 || r[0].Attempt != 1 || len(r[0].Attempts) != 1 {
		t.Errorf("results: %+v", r)
	}
	eventually(t, "the lane is empty", func() bool { return b.onLanes() == 0 })

	third := b.machine("m1")
	if _, err := third.q.Resume(b.ctx, third.s, state); !errors.Is(err, ErrClaimLost) {
		t.Errorf("resume of a finished job: %v", err)
	}
}

// While a machine sleeps its steady clock stands; the broker's does not, and the deadline of its runs must not either.
func TestSleepOfTheMachineCounts(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	s := b.machine("m1").s
	awake := s.Deadline()
	s.mu.Lock()
	s.boot = func() time.Duration { return bootClock() + time.Hour }
	s.mu.Unlock()
	if slept := awake.Sub(s.Deadline()); slept < time.Hour-time.Second || slept > time.Hour+time.Second {
		t.Errorf("after an hour of sleep the deadline is %v earlier", slept)
	}
	if time.Now().Before(s.Deadline()) {
		t.Error("the session is believed in although the machine slept through it")
	}
}
