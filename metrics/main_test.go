package metrics_test

import (
	"testing"

	"go.uber.org/goleak"

	_ "github.com/berthq/berth/runner/shim" // the test binary is the shim of its worker's runs
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
