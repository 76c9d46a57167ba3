//go:build cgo && linux

package nvml_test

import (
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/conformance"
	"github.com/berthq/berth/telemetry/fakenvml"
	"github.com/berthq/berth/telemetry/nvml"
	_ "github.com/berthq/berth/telemetry/nvml/probe"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patient are limits that a loaded machine keeps too.
func patient(m *fakenvml.Machine) nvml.Options {
	opts := quick(m)
	opts.Suspect, opts.Unreadable = time.Minute, 2*time.Minute
	return opts
}

// quick are limits that a test can wait for, where silence is what it is about.
func quick(m *fakenvml.Machine) nvml.Options {
	return nvml.Options{
		Library: m.Library, Suspect: 400 * time.Millisecond, Unreadable: 3 * time.Second,
		Backoff: 10 * time.Millisecond, BackoffMax: 100 * time.Millisecond,
	}
}

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, func(t *testing.T) *conformance.Machine {
		m := fakenvml.New(t, 2)
		return &conformance.Machine{
			Open: func() (telemetry.Source, error) {
				if strings.HasSuffix(t.Name(), "/Hang") {
					return nvml.Open(t.Context(), quick(m))
				}
				return nvml.Open(t.Context(), patient(m))
			},
			Hold: func(gpu, pid int, mb int64) {
				m.GPU(gpu).Processes(fakenvml.Process{PID: pid, MemoryMB: max(mb, 512), SM: 40})
			},
			Lose: func(gpu int, on bool) {
				if on {
					m.GPU(gpu).Lose()
				} else {
					m.GPU(gpu).Return()
				}
			},
			XID:  m.XID,
			Hang: m.Hang,
			Bare: func(gpu int) { m.GPU(gpu).Unset("power_mw") },
		}
	})
}
