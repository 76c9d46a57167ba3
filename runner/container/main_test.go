package container

import (
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/berthq/berth/runner/fakerun"
)

func TestMain(m *testing.M) {
	fakerun.Take()
	Take()
	goleak.VerifyTestMain(m)
	os.Exit(0)
}
