package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthq/berth/job"
)

var errCrash = errors.New("crashed here")

// crashOnce makes a queue "crash" the first time it comes to a step.
func crashOnce(q *Queue, step string) (crashed func() bool) {
	var mu sync.Mutex
	done := false
	q.failpoint = func(s string) error {
		mu.Lock()
		defer mu.Unlock()
		if s != step || done {
			return nil
		}
		done = true
		return errCrash
	}
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		return done
	}
}

// steps are all places where a crash can separate two writes of a verb.
var endSteps = map[string][]string{
	"finish":  {"finish:cas", "finish:run", "finish:result", "finish:ack"},
	"requeue": {"requeue:cas", "requeue:run", "requeue:dispatch", "requeue:ack"},
	"return":  {"return:cas", "return:run", "return:ack"},
}

// A worker that crashes between any two steps of ending a claim loses nothing: the job ends with one result, each
// attempt with one message, and the lane is empty.
func TestCrashBetweenStepsOfEnding(t *testing.T) {
	t.Parallel()
	for verb, steps := range endSteps {
		for _, step := range steps {
			t.Run(strings.ReplaceAll(step, ":", "-"), func(t *testing.T) {
				t.Parallel()
				crashWhileEnding(t, verb, step)
			})
		}
	}
}

func crashWhileEnding(t *testing.T, verb, step string) {
	b := setup(t, Options{ClaimTTL: 2 * time.Second, AckWait: time.Second})
	b.background(b.q.RunClerk)
	ref := b.submit(newJob(verb))
	victim := b.machine("m1")
	c := victim.claim()
	crashed := crashOnce(victim.q, step)
	var err error
	switch verb {
	case "finish":
		err = c.Finish(b.ctx, succeeded)
	case "requeue":
		err = c.Requeue(b.ctx, job.Attempt{Outcome: job.OutcomeFailed}, Requeue{})
	case "return":
		err = c.Return(b.ctx, 0, "drained")
	}
	if !errors.Is(err, errCrash) || !crashed() {
		t.Fatalf("the crash did not happen: %v", err)
	}
	victim.die()

	heir := b.machine("m2")
	stop := b.background(heir.workOff)
	r := b.wait(ref)
	eventually(t, "the lane is empty", func() bool { return b.onLanes() == 0 })
	stop()
	if r.State != job.Succeeded {
		t.Errorf("it ended %s", r.State)
	}
	if n := len(b.results(ref)); n != 1 {
		t.Errorf("%d results, want 1", n)
	}
	if rec := b.record(ref); len(rec.Attempts) != b.runs(ref) {
		t.Errorf("%d attempts, %d attempt messages", len(rec.Attempts), b.runs(ref))
	}
}

// A clerk that crashes between any two steps loses no job and dispatches none twice.
func TestCrashBetweenStepsOfClerk(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"clerk:dispatch", "clerk:ack", "group:cursor"} {
		t.Run(strings.ReplaceAll(step, ":", "-"), func(t *testing.T) {
			t.Parallel()
			b := setup(t, Options{ClaimTTL: 60 * time.Second, AckWait: time.Second})
			q := b.open()
			crashed := crashOnce(q, step)
			stop := b.background(q.RunClerk)
			group := newJob("group")
			group.Tasks = &job.Tasks{Indexes: "1-5", Count: 5}
			single, many := b.submit(newJob("single")), b.submit(group)
			eventually(t, "the crash happened", crashed)
			stop() // the first clerk is gone
			b.background(b.q.RunClerk)
			m := b.machine("m1")
			b.background(m.workOff)
			for _, ref := range []Ref{single, many} {
				if r := b.wait(ref); r.State != job.Succeeded {
					t.Errorf("%s ended %s: %s", ref, r.State, r.Reason)
				}
				for _, r := range b.results(ref) {
					if r.Attempt > 1 {
						t.Errorf("%d.%v ran %d times", r.Number, r.Index, r.Attempt)
					}
				}
			}
			if n := len(b.results(many)); n != 6 {
				t.Errorf("%d results of a group of 5, want 6", n)
			}
			eventually(t, "the lanes are empty", func() bool { return b.onLanes() == 0 })
		})
	}
}

// A clerk, or a person's command, that crashes while a group comes to its end leaves it to the next clerk: one result.
func TestCrashWhileAGroupEnds(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		step   string
		cancel bool // else all its tasks succeed
	}{{"group:close", false}, {"group:result", false}, {"cancel:group", true}, {"group:result", true}} {
		name := strings.ReplaceAll(c.step, ":", "-")
		if c.cancel {
			name += "-asked"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, Options{ClaimTTL: 60 * time.Second, AckWait: time.Second})
			j := newJob("group")
			j.Tasks = &job.Tasks{Indexes: "1-3", Count: 3}
			ref, want := b.submit(j), job.Succeeded
			q := b.open()
			crashed := crashOnce(q, c.step)
			if c.cancel {
				want = job.Cancelled
				if _, err := q.cancelGroup(b.ctx, ref, b.job(ref), job.Cancel{By: "ada"}); !errors.Is(err, errCrash) {
					t.Fatalf("the crash did not happen: %v", err)
				}
			} else {
				b.background(b.machine("m1").workOff)
				stop := b.background(q.RunClerk)
				eventually(t, "the crash happened", crashed)
				stop()
			}
			b.background(b.q.RunClerk)
			if r := b.wait(ref); r.State != want || r.Tasks[want] != 3 {
				t.Errorf("the group: %s %v", r.State, r.Tasks)
			}
			if n := len(b.resultsOf(ref)); n != 1 {
				t.Errorf("%d results", n)
			}
			eventually(t, "the lanes are empty", func() bool { return b.onLanes() == 0 })
		})
	}
}

func (b *bundle) job(ref Ref) *job.Job {
	b.t.Helper()
	j, err := b.q.Job(b.ctx, ref.Number)
	if err != nil {
		b.t.Fatal(err)
	}
	return j
}

// A crash right after a job was ended from outside (a cancel) leaves the result in the record; the message on the lane
// brings somebody who publishes it.
func TestCrashWhileCancelling(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"end:cas", "end:result"} {
		t.Run(strings.ReplaceAll(step, ":", "-"), func(t *testing.T) {
			t.Parallel()
			b := setup(t, quick())
			b.background(b.q.RunClerk)
			ref := b.submit(newJob("unwanted"))
			eventually(t, "it is on a lane", func() bool { return b.onLanes() == 1 })
			q := b.open()
			crashOnce(q, step)
			if _, err := q.cancelJob(b.ctx, ref, job.Cancel{By: "ada"}); !errors.Is(err, errCrash) {
				t.Fatalf("the crash did not happen: %v", err)
			}
			if _, err := b.q.cancelJob(b.ctx, ref, job.Cancel{By: "ada"}); err != nil && !errors.Is(err, ErrFinal) {
				t.Fatal(err) // asked again, as a person would
			}
			r := b.wait(ref)
			if r.State != job.Cancelled || r.Attempt != 0 || len(b.results(ref)) != 1 {
				t.Errorf("result: %+v", r)
			}
		})
	}
}

// workOff takes every job and lets it succeed at once.
func (m *machine) workOff(ctx context.Context) error {
	for ctx.Err() == nil {
		d, err := m.tryNextIn(ctx)
		if err != nil {
			return ctx.Err()
		}
		c, err := d.Claim(ctx, nil)
		if err != nil {
			if isDealtWith(err) || ctx.Err() != nil {
				continue
			}
			return fmt.Errorf("claim %s: %w", d.Ref(), err)
		}
		if err := c.Finish(m.ctx, succeeded); err != nil {
			return err
		}
	}
	return ctx.Err()
}
