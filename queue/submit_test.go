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

func TestSubmitIsOneMessage(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	client, err := OpenClient(b.ctx, b.connect(), Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	group := newJob("many")
	group.Tasks = &job.Tasks{Indexes: "1-1000", Count: 1000}
	for i, j := range []job.Job{newJob("one"), group} {
		r, err := client.Submit(b.ctx, j)
		if err != nil {
			t.Fatal(err)
		}
		if r.Number != uint64(i+1) || r.ID == "" || r.Duplicate {
			t.Errorf("receipt: %+v", r)
		}
	}
	got, err := b.q.Job(b.ctx, 1)
	if err != nil || got.Project != "lab" || got.User != "ada" || got.Version != job.Version || got.SubmittedAt.IsZero() {
		t.Errorf("stored: %+v, %v", got, err)
	}
}

func TestSubmitRefusesWhatNobodyCouldRun(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	for name, edit := range map[string]func(*job.Job){
		"project":              func(j *job.Job) { j.Project = "Lab.x" },
		"no user":              func(j *job.Job) { j.User = "" },
		"negative":             func(j *job.Job) { j.Requirements.GPUs = -1 },
		"deadline in the past": func(j *job.Job) { past := time.Now().Add(-time.Minute); j.Spec.Deadline = &past },
		"begin after deadline": func(j *job.Job) {
			deadline, begin := time.Now().Add(time.Hour), time.Now().Add(2*time.Hour)
			j.Spec.Deadline, j.Spec.Begin = &deadline, &begin
		},
		"empty group": func(j *job.Job) { j.Tasks = &job.Tasks{} },
		"too many":    func(j *job.Job) { j.Tasks = &job.Tasks{Indexes: "1-100001", Count: 100001} },
		"wrong count": func(j *job.Job) { j.Tasks = &job.Tasks{Indexes: "1-3", Count: 4} },
		"twice":       func(j *job.Job) { j.Tasks = &job.Tasks{Indexes: "1-3,2", Count: 4} },
		"params missing": func(j *job.Job) {
			j.Tasks = &job.Tasks{Indexes: "1-3", Count: 3, Params: []map[string]any{{"a": 1}}}
		},
	} {
		j := newJob(name)
		edit(&j)
		if r, err := b.q.Submit(b.ctx, j); err == nil {
			t.Errorf("%s: accepted as %d", name, r.Number)
		}
	}
	big := newJob("big")
	big.Tasks = &job.Tasks{Indexes: "1-50000", Count: 50000}
	for range big.Tasks.Count {
		big.Tasks.Params = append(big.Tasks.Params, map[string]any{"learning-rate": 0.001})
	}
	if _, err := b.q.Submit(b.ctx, big); !errors.Is(err, ErrTooLarge) {
		t.Errorf("big: %v", err)
	}
	if state, err := b.q.streamState(b.ctx, StreamJobs, ""); err != nil || state.Msgs != 0 {
		t.Errorf("%d messages were stored (%v)", state.Msgs, err)
	}
}

// Many submits with one idempotency key at the same time are one job, and all of them hear its number and id.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	keyed := func() job.Job {
		j := newJob("keyed")
		j.Spec.IdempotencyKey = "monday's run"
		return j
	}
	var wg sync.WaitGroup
	receipts := make([]Receipt, 8)
	for i := range receipts {
		wg.Go(func() {
			r, err := b.q.Submit(b.ctx, keyed())
			if err != nil {
				t.Error(err)
			}
			receipts[i] = r
		})
	}
	wg.Wait()
	firsts := 0
	for _, r := range receipts {
		if r.Number != 1 || r.ID != receipts[0].ID {
			t.Errorf("receipt %+v, the first is %+v", r, receipts[0])
		}
		if !r.Duplicate {
			firsts++
		}
	}
	if firsts != 1 {
		t.Errorf("%d of them were told to be the first", firsts)
	}

	// The clerk keeps the key longer than the broker remembers message ids.
	b.background(b.q.RunClerk)
	eventually(t, "the key is remembered", func() bool {
		r, err := b.q.knownKey(b.ctx, keyed())
		return err == nil && r.Number == 1
	})
	other := keyed()
	other.User = "bob"
	if r, err := b.q.Submit(b.ctx, other); err != nil || r.Duplicate || r.Number != 2 {
		t.Errorf("another user's key: %+v, %v", r, err)
	}
}

// A second job under a key that slipped past the broker's memory ends cancelled and names the first.
func TestKeyThatSlippedThrough(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	first := newJob("first")
	first.Spec.IdempotencyKey, first.ID = "k", "id-1"
	r, err := b.q.Submit(b.ctx, first)
	if err != nil {
		t.Fatal(err)
	}
	late := newJob("late")
	late.Spec.IdempotencyKey, late.ID, late.Version = "k", "id-2", job.Version
	m := newMsg(jobSubject("lab", "ada"), mustJSON(t, late))
	ack, err := b.q.publish(b.ctx, m) // without the message id, as after the broker's memory of it
	if err != nil {
		t.Fatal(err)
	}
	b.background(b.q.RunClerk)
	end := b.wait(JobRef(ack.Sequence))
	if end.State != job.Cancelled || end.Reason != "Duplicate" || !strings.Contains(end.Evidence, fmt.Sprint(r.Number)) {
		t.Errorf("result: %+v", end)
	}
}

// A submit while the broker is away is stored once when it comes back.
func TestSubmitOutlastsABrokerRestart(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.submit(newJob("before"))
	b.broker.Stop()
	got := make(chan error, 1)
	go func() {
		r, err := b.q.Submit(b.ctx, newJob("during"))
		if err == nil && r.Number != 2 {
			err = fmt.Errorf("it got number %d", r.Number)
		}
		got <- err
	}()
	short, cancel := context.WithTimeout(b.ctx, tryTimeout+pauseMax)
	defer cancel()
	if _, err := b.q.Submit(short, newJob("impatient")); err == nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("without a broker: %v", err)
	}
	b.broker.Start()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
	b.submit(newJob("after")) // behind whatever was on its way
	if state, err := b.q.streamState(b.ctx, StreamJobs, ""); err != nil || state.Msgs != 3 {
		t.Errorf("%d jobs stored, want 3: the impatient one was told that it failed (%v)", state.Msgs, err)
	}
}
