package bench

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/berthq/berth/runner"
)

// What a shim costs: the same command started directly, and as a run, from a binary that links everything Berth has.
// exec is the time until the command is started, whole until nothing of the run is left.
func BenchmarkShim(b *testing.B) {
	r, err := runner.New(runner.Options{StoreDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	var plain, started, whole []time.Duration
	for n := 1; b.Loop(); n++ {
		began := time.Now()
		if err := exec.Command(trivial[0]).Run(); err != nil {
			b.Fatal(err)
		}
		plain = append(plain, time.Since(began))
		s, w := shimmed(b, r, n)
		started, whole = append(started, s), append(whole, w)
	}
	b.ReportMetric(quantile(plain, 0.5), "plain-p50-ms")
	b.ReportMetric(quantile(started, 0.5), "exec-p50-ms")
	b.ReportMetric(quantile(whole, 0.5), "whole-p50-ms")
}

func shimmed(tb testing.TB, r *runner.Process, n int) (started, whole time.Duration) {
	tb.Helper()
	began := time.Now()
	h, err := r.Start(tb.Context(), runner.Run{ID: fmt.Sprintf("%d.1", n), Command: trivial, Env: os.Environ(), Dir: "/"})
	if err != nil {
		tb.Fatal(err)
	}
	exit, err := h.Wait(tb.Context())
	if err != nil {
		tb.Fatal(err)
	}
	if err := h.Release(); err != nil {
		tb.Fatal(err)
	}
	return exit.StartedAt.Sub(began), time.Since(began)
}
