package queue

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/job"
)

func TestRetryIsANewRound(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	m := b.machine("m1")
	ref := b.submit(newJob("again"))
	if err := b.q.Retry(b.ctx, ref, "ada", false); !errors.Is(err, ErrNotFinal) {
		t.Errorf("retry of a waiting job: %v", err)
	}
	if err := m.claim().Finish(b.ctx, failed); err != nil {
		t.Fatal(err)
	}
	if err := b.q.Retry(b.ctx, ref, "ada", true); !errors.Is(err, ErrBadRequest) {
		t.Errorf("--failed for a single job: %v", err)
	}
	if err := b.q.Retry(b.ctx, ref, "ada", false); err != nil {
		t.Fatal(err)
	}
	if err := m.claim().Finish(b.ctx, succeeded); err != nil {
		t.Fatal(err)
	}
	if r := b.wait(ref); r.State != job.Succeeded || r.Round != 2 || len(r.Attempts) != 2 || r.Attempts[1].Round != 2 {
		t.Errorf("the second round: %+v", r)
	}
	all := b.results(ref)
	if len(all) != 2 || all[0].Round != 1 || all[0].State != job.Failed || all[1].Round != 2 {
		t.Errorf("results of both rounds: %+v", all)
	}
	if rec := b.record(ref); rec.ResultSeq == 0 {
		t.Error("the second result was not tied to the first")
	}
	eventually(t, "the wish is off the stream", func() bool {
		n, err := b.q.countSubjects(b.ctx, StreamDuties, prefixRound+"*")
		return err == nil && n == 0
	})
}

// Only what did not succeed runs again; the rest keeps its results.
func TestRetryOfWhatFailed(t *testing.T) {
	t.Parallel()
	opts := quick()
	opts.Window = 2
	b := setup(t, opts)
	b.background(b.q.RunClerk)
	m := b.machine("m1")
	array := newJob("array")
	array.Tasks = &job.Tasks{Indexes: "0-9", Count: 10}
	ref := b.submit(array)
	stop := b.background(m.fate(func(index int) job.Result {
		if index%3 == 0 {
			return failed
		}
		return succeeded
	}))
	if r := b.wait(ref); r.Tasks[job.Failed] != 4 {
		t.Fatalf("the first round: %s %v", r.State, r.Tasks)
	}
	stop()
	if err := b.q.Retry(b.ctx, ref, "ada", true); err != nil {
		t.Fatal(err)
	}
	if v, err := b.q.Show(b.ctx, ref); err != nil || v.State.Final() || v.Tasks.Ended != 6 {
		t.Errorf("the second round is shown as %s with %+v, %v", v.State, v.Tasks, err)
	}
	if err := b.q.Retry(b.ctx, TaskRef(ref.Number, 3), "ada", false); !errors.Is(err, ErrNotFinal) {
		t.Errorf("retry of a task while its group runs: %v", err)
	}
	stop = b.background(m.fate(func(index int) job.Result {
		if index == 9 {
			return failed
		}
		return succeeded
	}))
	r := b.wait(ref)
	if r.Round != 2 || r.State != job.Failed || r.Tasks[job.Succeeded] != 9 || r.Tasks[job.Failed] != 1 {
		t.Errorf("the second round: %d %s %v", r.Round, r.State, r.Tasks)
	}
	stop()
	if n := b.taskRuns(ref); n != 14 {
		t.Errorf("%d runs, want 10 and 4 again", n)
	}
	// One task, as a round of its group.
	if err := b.q.Retry(b.ctx, TaskRef(ref.Number, 9), "ada", false); err != nil {
		t.Fatal(err)
	}
	b.background(m.fate(func(int) job.Result { return succeeded }))
	if r := b.wait(ref); r.Round != 3 || r.State != job.Succeeded || b.taskRuns(ref) != 15 {
		t.Errorf("the third round: %d %s %v, %d runs", r.Round, r.State, r.Tasks, b.taskRuns(ref))
	}
	if r, err := b.q.Result(b.ctx, "lab", TaskRef(ref.Number, 9)); err != nil || r.Round != 3 || len(r.Attempts) != 3 {
		t.Errorf("the task: %+v, %v", r, err)
	}
	if err := b.q.Retry(b.ctx, ref, "ada", true); !errors.Is(err, ErrNothingFailed) {
		t.Errorf("nothing is left to retry: %v", err)
	}
}

// What never had its turn before a cancel has it in the next round.
func TestRetryOfACancelledGroup(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	array := newJob("array")
	array.Tasks = &job.Tasks{Indexes: "1-6", Count: 6, MaxConcurrent: 2}
	ref := b.submit(array)
	eventually(t, "the first ones are there", func() bool { return b.onLanes() == 2 })
	if _, err := b.q.Cancel(b.ctx, ref, "ada", ""); err != nil {
		t.Fatal(err)
	}
	if r := b.wait(ref); r.State != job.Cancelled || r.Tasks[job.Cancelled] != 6 {
		t.Fatalf("cancelled: %s %v", r.State, r.Tasks)
	}
	if err := b.q.Retry(b.ctx, ref, "ada", true); err != nil {
		t.Fatal(err)
	}
	b.background(b.machine("m1").workOff)
	if r := b.wait(ref); r.State != job.Succeeded || r.Round != 2 || r.Tasks[job.Succeeded] != 6 {
		t.Errorf("after the retry: %s, round %d, %v", r.State, r.Round, r.Tasks)
	}
}

// A crash between any two steps of a retry leaves either nothing, or a round that takes place.
func TestCrashBetweenStepsOfRetry(t *testing.T) {
	t.Parallel()
	for _, step := range []string{"retry:ask", "retry:cas", "retry:dispatch"} {
		for _, group := range []bool{false, true} {
			name := strings.ReplaceAll(step, ":", "-")
			if group {
				name += "-group"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				crashWhileRetrying(t, step, group)
			})
		}
	}
}

func crashWhileRetrying(t *testing.T, step string, group bool) {
	b := setup(t, Options{ClaimTTL: 60 * time.Second, AckWait: time.Second})
	clerk := b.background(b.q.RunClerk)
	j := newJob("again")
	if group {
		j.Tasks = &job.Tasks{Indexes: "1-3", Count: 3}
	}
	ref := b.submit(j)
	m := b.machine("m1")
	stop := b.background(m.fate(func(int) job.Result { return failed }))
	b.wait(ref)
	stop()
	clerk()
	victim := b.open()
	crashed := crashOnce(victim, step)
	if err := victim.Retry(b.ctx, ref, "ada", false); !errors.Is(err, errCrash) || !crashed() {
		t.Fatalf("the crash did not happen: %v", err)
	}
	b.background(b.q.RunClerk)
	b.background(m.workOff)
	if step == "retry:ask" { // nothing has happened
		if err := b.q.Retry(b.ctx, ref, "ada", false); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the second round ends", func() bool {
		r, err := b.q.Result(b.ctx, "lab", ref)
		return err == nil && r.Round == 2 && r.State == job.Succeeded
	})
	if own := b.resultsOf(ref); len(own) != 2 {
		t.Errorf("%d results, want one a round", len(own))
	}
}
