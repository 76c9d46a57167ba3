package runner_test

import (
	"os"
	"testing"

	"github.com/berthq/berth/runner/fakerun"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getpid() == 1 {
		beInit()
		return
	}
	fakerun.Take()
	if store := os.Getenv(workerKey); store != "" {
		beWorker(store)
	}
	goleak.VerifyTestMain(m)
}
