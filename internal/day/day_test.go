package day

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Every spec is one that submit takes; none passes for real, and none would run for ever without somebody who ends it.
func TestSpecs(t *testing.T) {
	t.Parallel()
	projects := map[string]bool{}
	err := fs.WalkDir(specs, "specs", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(specs, path)
		if err != nil {
			return err
		}
		jobs, err := job.ParseSpecs(text, path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
		}
		if !strings.HasPrefix(string(text), "# ") {
			t.Errorf("%s does not say what it is for", path)
		}
		for _, j := range jobs {
			projects[j.Project] = true
		}
		return nil
	})
	if err != nil || len(projects) < 5 {
		t.Errorf("%d projects, %v", len(projects), err)
	}
}

// Scenes are in the order of their hours, so that the list reads as the day goes.
func TestScenesAreInOrder(t *testing.T) {
	t.Parallel()
	for i := 1; i < len(scenes); i++ {
		if scenes[i].at < scenes[i-1].at {
			t.Errorf("%s comes before %s", scenes[i].name, scenes[i-1].name)
		}
	}
}

// What happens to a machine's cards is a line of its control file, behind the lines before.
func TestHappen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m := fleet[0]
	if _, err := m.write(dir); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"0 lost on", "0 lost off"} {
		if err := happen(dir, m.name, "%s", line); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(control(dir, m.name)); err != nil || string(got) != "0 lost on\n0 lost off\n" {
		t.Errorf("%q, %v", got, err)
	}
	if err := happen(dir, "nobody", "0 lost on"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a machine that is not there: %v", err)
	}
}

// Who waits is woken by the change that he waits for, and by the end of the day.
func TestBoard(t *testing.T) {
	t.Parallel()
	b := newBoard()
	ref := queue.JobRef(7)
	found := make(chan entry, 1)
	go func() {
		e, err := b.running(t.Context(), ref, 2)
		if err != nil {
			t.Error(err)
		}
		found <- e
	}()
	b.record(queue.JobRef(8), &job.Record{State: job.Running, Machine: "elsewhere", Attempts: make([]job.Attempt, 2)})
	b.record(ref, &job.Record{State: job.Running, Machine: "first", Attempts: make([]job.Attempt, 1)})
	b.record(ref, &job.Record{State: job.Queued, Attempts: make([]job.Attempt, 1)})
	b.record(ref, &job.Record{State: job.Running, Machine: "second", Attempts: make([]job.Attempt, 2)})
	if e := <-found; e.machine != "second" {
		t.Errorf("found %+v", e)
	}
	b.record(ref, nil)
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := b.ended(ctx, ref); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a job that is gone: %v", err)
	}
}

// A day that is told to end has not failed; one that lost its queue has.
func TestEnded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(nil)
	if err := ended(ctx, ctx.Err()); err != nil {
		t.Error(err)
	}
	lost := errors.New("lost")
	ctx, cancel = context.WithCancelCause(t.Context())
	cancel(lost)
	if err := ended(ctx, context.Cause(ctx)); !errors.Is(err, lost) {
		t.Errorf("%v", err)
	}
}
