package exit_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.uber.org/goleak"

	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOf(t *testing.T) {
	t.Parallel()
	refused := exit.Errorf(exit.Refused, "no machine has 64 GPUs").Hinted("-g 8")
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"none", nil, 0},
		{"plain", errors.New("x"), 1},
		{"coded", refused, 5},
		{"wrapped", fmt.Errorf("submit: %w", refused), 5},
		{"first code wins", exit.With(exit.Broker, fmt.Errorf("submit: %w", refused)), 5},
		{"given a code", exit.With(exit.Broker, errors.New("x")), 3},
		{"silent", exit.Silent(33), 33},
		{"interrupted", fmt.Errorf("waiting: %w", context.Canceled), 130},
	} {
		if got := exit.Of(c.err); got != c.want {
			t.Errorf("%s: exit code %d, want %d", c.name, got, c.want)
		}
	}
	if exit.With(exit.Broker, nil) != nil {
		t.Error("With made an error of nil")
	}
}

func TestOfResult(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		r    job.Result
		want int
	}{
		{job.Result{State: job.Succeeded, Exit: &job.Exit{}}, 0},
		{job.Result{State: job.Failed, Exit: &job.Exit{Code: 33}}, 33},
		{job.Result{State: job.Failed, Exit: &job.Exit{Code: -1, Signal: "SIGSEGV"}}, 139},
		{job.Result{State: job.Failed, Exit: &job.Exit{Signal: "TERM"}}, 143},
		{job.Result{State: job.Failed}, 125},
		{job.Result{State: job.TimedOut, Exit: &job.Exit{Signal: "SIGTERM"}}, 124},
		{job.Result{State: job.Expired}, 124},
		{job.Result{State: job.OOMGPU, Exit: &job.Exit{Code: 1}}, 137},
		{job.Result{State: job.OOMHost}, 137},
		{job.Result{State: job.Cancelled}, 143},
		{job.Result{State: job.Dead}, 125},
	} {
		if got := exit.OfResult(c.r); got != c.want {
			t.Errorf("%s %+v: exit code %d, want %d", c.r.State, c.r.Exit, got, c.want)
		}
	}
}

// A command that waits for a job ends as the job did.
func ExampleOfResult() {
	fmt.Println(exit.OfResult(job.Result{State: job.Failed, Exit: &job.Exit{Code: 33}}))
	fmt.Println(exit.OfResult(job.Result{State: job.TimedOut}))
	// Output:
	// 33
	// 124
}
