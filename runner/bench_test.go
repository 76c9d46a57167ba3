package runner_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/runner"
)

// BenchmarkStart compares a run's start, from Start to the command's exec, with a bare fork and exec in the same loop.
// The target is less than 5 ms beyond it at the median.
func BenchmarkStart(b *testing.B) {
	for _, mode := range []struct {
		name string
		off  bool
	}{{"cgroup", false}, {"group", true}} {
		b.Run(mode.name, func(b *testing.B) {
			r := newRunner(b, runner.Options{NoCgroups: mode.off})
			var bare, shimmed []time.Duration
			for i := range b.N {
				began := time.Now()
				cmd := exec.Command("/bin/sleep", "60")
				if err := cmd.Start(); err != nil {
					b.Fatal(err)
				}
				bare = append(bare, time.Since(began))
				_ = cmd.Process.Kill()
				_ = cmd.Wait()

				began = time.Now()
				h, err := r.Start(b.Context(), runner.Run{ID: strconv.Itoa(i), Command: []string{"/bin/sleep", "60"}, Env: []string{"PATH=/bin"}, Dir: "/"})
				if err != nil {
					b.Fatal(err)
				}
				shimmed = append(shimmed, time.Since(began))
				end(b, h)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(ms(median(bare)), "bare-ms")
			b.ReportMetric(ms(median(shimmed)), "start-ms")
			b.ReportMetric(ms(median(shimmed)-median(bare)), "beyond-ms")
		})
	}
}

// BenchmarkRun is a trivial job from Start to Wait and Release.
func BenchmarkRun(b *testing.B) {
	r := newRunner(b, runner.Options{})
	for i := range b.N {
		h, err := r.Start(b.Context(), runner.Run{ID: strconv.Itoa(i), Command: []string{"/bin/true"}, Dir: "/"})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := h.Wait(b.Context()); err != nil {
			b.Fatal(err)
		}
		if err := h.Release(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkIdleShim weighs shims that wait: their proportional share of memory, beside the worker that has the same
// binary mapped. The target is less than 3 MiB each.
func BenchmarkIdleShim(b *testing.B) {
	const shims = 10
	for range b.N {
		r := newRunner(b, runner.Options{})
		var handles []*runner.Handle
		for i := range shims {
			h, err := r.Start(b.Context(), runner.Run{ID: strconv.Itoa(i), Command: []string{"/bin/sleep", "60"}, Env: []string{"PATH=/bin"}, Dir: "/"})
			if err != nil {
				b.Fatal(err)
			}
			handles = append(handles, h)
		}
		time.Sleep(300 * time.Millisecond) // idle is what is measured
		var pss, anon []float64
		for _, h := range handles {
			p, a := weigh(b, h)
			pss, anon = append(pss, p), append(anon, a)
		}
		slices.Sort(pss)
		slices.Sort(anon)
		b.ReportMetric(pss[shims/2]/1024, "pss-MiB")
		b.ReportMetric(anon[shims/2]/1024, "anon-MiB")
		b.ReportMetric(pss[shims-1]/1024, "pss-max-MiB")
		for _, h := range handles {
			end(b, h)
		}
	}
}

// BenchmarkLog is the way of a job's output from its write to the worker's reader. The target is 50 MB/s.
func BenchmarkLog(b *testing.B) {
	const size = 256 << 20
	r := newRunner(b, runner.Options{})
	b.SetBytes(size)
	for i := range b.N {
		line := strings.Repeat("x", 79)
		h, err := r.Start(b.Context(), runner.Run{ID: strconv.Itoa(i), Dir: "/", Env: []string{"PATH=/bin:/usr/bin"},
			Command: []string{"/bin/sh", "-c", fmt.Sprintf("yes %s | head -c %d", line, size)}})
		if err != nil {
			b.Fatal(err)
		}
		log, total := h.Log(0), 0
		for {
			f, err := log.Next(b.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				b.Fatal(err)
			}
			total += len(f.Data)
		}
		if total != size {
			b.Fatalf("%d bytes came, want %d", total, size)
		}
		log.Close()
		end(b, h)
	}
}

func newRunner(tb testing.TB, o runner.Options) *runner.Process {
	tb.Helper()
	o.StoreDir = tb.TempDir()
	r, err := runner.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { r.Close() })
	return r
}

func end(tb testing.TB, h *runner.Handle) {
	tb.Helper()
	if err := h.Kill(runner.Cancelled, "measured"); err != nil {
		tb.Fatal(err)
	}
	if _, err := h.Wait(tb.Context()); err != nil {
		tb.Fatal(err)
	}
	if err := h.Release(); err != nil {
		tb.Fatal(err)
	}
}

// weigh reads a shim's PSS and anonymous memory, in KiB.
func weigh(tb testing.TB, h *runner.Handle) (pss, anon float64) {
	tb.Helper()
	state, err := os.ReadFile(filepath.Join(h.Dir(), "state.json"))
	if err != nil {
		tb.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(state), `"shim":{"pid":`)
	pid, _, _ := strings.Cut(rest, ",")
	rollup, err := os.ReadFile("/proc/" + pid + "/smaps_rollup")
	if err != nil {
		tb.Fatal(err)
	}
	for line := range strings.Lines(string(rollup)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		n, _ := strconv.ParseFloat(f[1], 64)
		switch f[0] {
		case "Pss:":
			pss = n
		case "Pss_Anon:":
			anon = n
		}
	}
	return pss, anon
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
