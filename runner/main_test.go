package runner_test

import (
	"testing"

	"github.com/berthq/berth/runner/fakerun"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	fakerun.Take()
	goleak.VerifyTestMain(m)
}
