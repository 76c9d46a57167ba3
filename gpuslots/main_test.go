package gpuslots_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if os.Getenv(holdEnv) != "" {
		holdUntilEOF()
	}
	goleak.VerifyTestMain(m)
}
