package runner_test

import (
	"testing"

	"github.com/berthq/berth/runner"
	"github.com/berthq/berth/runner/runnertest"
)

func TestProcess(t *testing.T) {
	t.Parallel()
	runnertest.Suite(t, opener(runner.Options{}))
}

func TestProcessWithoutCgroups(t *testing.T) {
	t.Parallel()
	runnertest.Suite(t, opener(runner.Options{NoCgroups: true}))
}

func opener(o runner.Options) func(*testing.T, string) runner.Runner {
	return func(t *testing.T, store string) runner.Runner {
		t.Helper()
		o := o
		o.StoreDir = store
		r, err := runner.New(o)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
}
