package job_test

import (
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/job"
)

func TestLeaseSpecs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ spec, problem string }{
		{"kind: lease\nresources: {gpus: 2}\n", ""},
		{"kind: lease\nresources: {gpu_ids: [GPU-1]}\nlease: {for: 0s}\n", ""},
		{"kind: lease\nresources: {gpus: 1}\nlease: {process: {pid: 7, start: 9, boot: b}}\n", ""},
		{"kind: leese\ncommand: [ls]\n", `1:7: kind: "leese": want one of lease (did you mean`},
		{"lease: {for: 1h}\ncommand: [ls]\n", "1:8: lease: is for kind: lease"},
		{"kind: lease\ncommand: [ls]\nresources: {gpus: 1}\n", "2:10: command: is for a job that runs something"},
		{"kind: lease\narray: 1-3\nresources: {gpus: 1}\n", "2:8: array: is for a job that runs something"},
		{"kind: lease\ntime_limit: 1h\nresources: {gpus: 1}\n", "2:13: time_limit: is for a job that runs something: give a lease `lease: {for: 1h}`"},
		{"kind: lease\n", "resources.gpus: a lease holds GPUs"},
		{"kind: lease\nresources: {gpus: 0}\n", "resources.gpus: a lease holds GPUs"},
		{"kind: lease\nresources: {gpus: 1}\nlease: {process: {pid: 7}}\n", "lease.process: want pid, start and boot"},
		{"kind: lease\nresources: {gpus: 1}\nlease: {for: -1h}\n", "is negative"},
	} {
		_, err := job.ParseSpecs([]byte(c.spec), "")
		switch {
		case c.problem == "" && err != nil:
			t.Errorf("%q: %v", c.spec, err)
		case c.problem != "" && (err == nil || !strings.Contains(err.Error(), c.problem)):
			t.Errorf("%q: %v\nwant %q", c.spec, err, c.problem)
		}
	}
}

func TestLeaseTerm(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"": 8 * time.Hour, "lease: {for: 90m}\n": 90 * time.Minute, "lease: {for: 0s}\n": 0, "lease: {asker: {pid: 1, start: 1, boot: b}}\n": 8 * time.Hour,
	} {
		specs, err := job.ParseSpecs([]byte("kind: lease\nresources: {gpus: 1}\n"+text), "")
		if err != nil {
			t.Fatal(err)
		}
		if got := specs[0].LeaseTerm(); got != want {
			t.Errorf("%q lasts %s, want %s", text, got, want)
		}
	}
}
