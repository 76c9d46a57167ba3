package worker

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/runner"
	"github.com/berthq/berth/runner/fakerun"
	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/frameworks"
)

// pipeline is a spec with one fakerun script a step, named a, b, c.
func (h *house) pipeline(scripts ...[]string) job.Spec {
	h.t.Helper()
	spec := h.spec()
	spec.Command = nil
	for i, script := range scripts {
		spec.Steps = append(spec.Steps, job.Step{Name: string(rune('a' + i)), Command: fakerun.Command(script...), Input: "numpy"})
	}
	return spec
}

func stepNames(steps []job.StepResult, keep func(job.StepResult) bool) string {
	var names []string
	for _, s := range steps {
		if keep(s) {
			names = append(names, s.Name)
		}
	}
	return strings.Join(names, "")
}

// TestPipelineOnOneGPU: all steps on the same GPU, each with its own telemetry in the founding form.
func TestPipelineOnOneGPU(t *testing.T) {
	h := newHouse(t, "2x24Gi")
	h.work("alpha", func(c *Config) { c.SampleEvery = 20 * time.Millisecond })
	r := h.result(queue.JobRef(h.send(job.Job{
		Spec:         h.pipeline([]string{"env", "sleep=400ms"}, []string{"env", "sleep=400ms"}),
		Requirements: job.Requirements{GPUs: 1},
	})))
	if r.State != job.Succeeded || len(r.Steps) != 2 {
		t.Fatalf("state %s (%s), steps %+v", r.State, r.Reason, r.Steps)
	}
	for i, s := range r.Steps {
		if s.Exit == nil || s.RunSeconds < 0.3 || s.Attempt != 1 || s.GPUMonitoring == nil || s.GPUMonitoring.SampleCount == 0 {
			t.Errorf("step %d: %+v", i, s)
			continue
		}
		if len(s.GPUMonitoring.GPUStats) != 1 {
			t.Errorf("step %d shows %d GPUs", i, len(s.GPUMonitoring.GPUStats))
		}
	}
	if whole, parts := r.GPUMonitoring.SampleCount, r.Steps[0].GPUMonitoring.SampleCount+r.Steps[1].GPUMonitoring.SampleCount; parts > whole+2 {
		t.Errorf("the steps have %d samples, the run %d", parts, whole)
	}
	out, _ := h.logOf(r.Number, 1)
	var seen []string
	for line := range strings.Lines(out) {
		if strings.HasPrefix(line, "CUDA_VISIBLE_DEVICES=") {
			seen = append(seen, line)
		}
	}
	if len(seen) != 2 || seen[0] != seen[1] || !strings.Contains(seen[0], "GPU-") {
		t.Errorf("the steps saw %q", seen)
	}
	if !strings.Contains(out, "BERTH_STEP=a\n") || !strings.Contains(out, "BERTH_STEP_INDEX=2\n") {
		t.Errorf("the steps do not know who they are:\n%s", out)
	}
}

// TestPipelineStopsAndResumes: the first failure ends it; asked to, the retry begins with the step that failed.
func TestPipelineStopsAndResumes(t *testing.T) {
	h := newHouse(t, "1x24Gi")
	h.work("alpha")
	for _, resume := range []bool{false, true} {
		dir := t.TempDir()
		trace := func(name string) string { return "echo " + name + " >> " + filepath.Join(dir, "trace") + "; " }
		spec := h.pipeline(nil, nil, nil)
		spec.Steps[0].Command = job.Command{"sh", "-c", trace("a")}
		spec.Steps[1].Command = job.Command{"sh", "-c", trace("b") + "[ -e " + dir + "/tried ] || { touch " + dir + "/tried; exit 5; }"}
		spec.Steps[2].Command = job.Command{"sh", "-c", trace("c")}
		spec.Retry = &job.Retry{Retries: 1, Backoff: &job.Backoff{Initial: job.Duration(time.Millisecond)}, Resume: resume}
		ref := queue.JobRef(h.send(job.Job{Spec: spec, Requirements: job.Requirements{GPUs: 1}}))
		first := one[job.Result](h, queue.StreamRuns, "berth.runs.lab."+ref.String()+".1")
		if first.Outcome != job.OutcomeFailed || first.Exit.Code != 5 || !strings.HasPrefix(first.Reason, "step b (2 of 3): exit 5") {
			t.Errorf("the first attempt: %s %v %q", first.Outcome, first.Exit, first.Reason)
		}
		if ran := stepNames(first.Steps, func(s job.StepResult) bool { return s.Exit != nil }); ran != "ab" || len(first.Steps) != 3 {
			t.Errorf("the first attempt ran %q of %+v", ran, first.Steps)
		}
		r := h.result(ref)
		trail, _ := os.ReadFile(filepath.Join(dir, "trace"))
		want, again := "a b a b c", "abc"
		if resume {
			want, again = "a b b c", "bc"
		}
		if got := strings.Join(strings.Fields(string(trail)), " "); r.State != job.Succeeded || got != want {
			t.Errorf("resume %v: %s after %q, want %q", resume, r.State, got, want)
		}
		if got := stepNames(r.Steps, func(s job.StepResult) bool { return s.Attempt == 2 }); got != again {
			t.Errorf("resume %v: attempt 2 ran %q, want %q", resume, got, again)
		}
		if !slices.ContainsFunc(r.Steps, func(s job.StepResult) bool { return s.Name == "a" && s.Succeeded() }) {
			t.Errorf("resume %v: the result forgets step a: %+v", resume, r.Steps)
		}
	}
}

// TestPipelineIsDrainedAndGoesOn: what interrupts a pipeline is not its fault; it goes on with the step it was in.
func TestPipelineIsDrainedAndGoesOn(t *testing.T) {
	h := newHouse(t, "")
	first := h.work("alpha", func(c *Config) { c.DrainFor = time.Millisecond; c.Grace = 100 * time.Millisecond })
	dir := t.TempDir()
	up := filepath.Join(dir, "up")
	spec := h.pipeline(nil, nil)
	spec.Steps[0].Command = job.Command{"sh", "-c", "echo a >> " + dir + "/trace"}
	spec.Steps[1].Command = job.Command{"sh", "-c", "[ -e " + up + " ] || { touch " + up + "; exec sleep 1000; }"}
	spec.Retry = &job.Retry{Resume: true}
	ref := queue.JobRef(h.send(job.Job{Spec: spec}))
	appears(t, up)
	_ = first.end(errDrain)
	h.work("beta")
	r := h.result(ref)
	trail, _ := os.ReadFile(filepath.Join(dir, "trace"))
	if r.State != job.Succeeded || string(trail) != "a\n" || r.Steps[0].Attempt != 1 || r.Steps[1].Attempt != 2 {
		t.Errorf("%s, step a ran as %q, steps %+v", r.State, trail, r.Steps)
	}
}

// TestPipelineSurvivesTheWorker: the worker is away while one step ends and the next begins; telemetry goes on.
func TestPipelineSurvivesTheWorker(t *testing.T) {
	h := newHouse(t, "1x24Gi")
	store, dir := t.TempDir(), t.TempDir()
	settings := func(c *Config) { c.Store, c.SampleEvery = store, 20*time.Millisecond }
	first := h.work("alpha", settings)
	gate := func(name string) string { return filepath.Join(dir, name) }
	ref := queue.JobRef(h.send(job.Job{
		Spec: h.pipeline([]string{"touch=" + gate("a"), "wait=" + gate("go")}, []string{"touch=" + gate("b"), "wait=" + gate("end")}, []string{"sleep=300ms"}),

		Requirements: job.Requirements{GPUs: 1},
	}))
	appears(t, gate("a"))
	_ = first.end(ErrDetach)
	touch(t, gate("go"))
	appears(t, gate("b"))
	h.work("alpha", settings)
	touch(t, gate("end"))
	r := h.result(ref)
	if r.State != job.Succeeded || r.Attempt != 1 || len(r.Steps) != 3 {
		t.Fatalf("%s after %d attempts: %s", r.State, r.Attempt, r.Reason)
	}
	for _, s := range r.Steps {
		if !s.Succeeded() || s.Attempt != 1 || s.RunSeconds <= 0 {
			t.Errorf("step %+v", s)
		}
	}
	if last := r.Steps[2].GPUMonitoring; last == nil || last.SampleCount == 0 {
		t.Error("the last step has no telemetry")
	}
}

func touch(t *testing.T, path string) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestPipelineIsPlannedFirst: what a step asks of a machine that cannot give it ends the job before anything runs.
func TestPipelineIsPlannedFirst(t *testing.T) {
	h := newHouse(t, "1x24Gi")
	probed := frameworks.Report{Installed: []string{"torch"}}
	w := h.work("alpha", func(c *Config) {
		c.Frameworks = []FrameworkProbe{func(context.Context, []telemetry.Device, ...string) (frameworks.Report, error) { return probed, nil }}
	})
	spec := h.pipeline([]string{"touch=" + filepath.Join(t.TempDir(), "ran")}, []string{"exit=0"})
	spec.Steps[1].Output = "cupy"
	steps := spec.Steps
	devices := []telemetry.Device{{UUID: "GPU-1", Name: "NVIDIA L4"}}
	w.frameworks.enter(frameworks.Report{Installed: []string{"torch"}}, false)
	w.frameworks.finish(nil, nil)
	if why := w.unseenBy(steps[1], devices); !strings.Contains(why, "needs cupy, which does not see GPU") {
		t.Errorf("planned with %q", why)
	}
	if why := w.unseenBy(steps[1], nil); !strings.Contains(why, "no GPU") {
		t.Errorf("planned without a GPU: %q", why)
	}
	if why := w.unseenBy(steps[0], devices); why != "" {
		t.Errorf("a numpy step: %q", why)
	}
	ref := queue.JobRef(h.send(job.Job{Spec: spec})) // sent past submit's own check: no GPU
	r := h.result(ref)
	if r.State != job.Failed || !strings.Contains(r.Reason, "the pipeline was not started: step b holds cupy arrays, and the run has no GPU") {
		t.Errorf("%s: %q", r.State, r.Reason)
	}
	if next := h.result(queue.JobRef(h.submit(job.Requirements{GPUs: 1}, "exit=0"))); next.State != job.Succeeded {
		t.Errorf("the next job: %s %s", next.State, next.Reason)
	}
}

// TestFirstStep is where a pipeline begins, by what its attempts have left.
func TestFirstStep(t *testing.T) {
	t.Parallel()
	ok, bad := &job.Exit{}, &job.Exit{Code: 1}
	ran := func(exits ...*job.Exit) job.Attempt {
		var a job.Attempt
		for _, e := range exits {
			a.Steps = append(a.Steps, job.StepResult{Exit: e})
		}
		return a
	}
	spec := job.Spec{Steps: make([]job.Step, 3), Retry: &job.Retry{Resume: true}}
	for _, c := range []struct {
		name     string
		attempts []job.Attempt
		want     int
	}{
		{"first attempt", nil, 0},
		{"first attempt under way", []job.Attempt{{}}, 0},
		{"failed in the second", []job.Attempt{ran(ok, bad, nil), {}}, 1},
		{"nobody saw the third end", []job.Attempt{ran(ok, ok, nil), {}}, 2},
		{"lost with its machine meanwhile", []job.Attempt{ran(ok, bad, nil), {Outcome: job.OutcomeMachineLost}, {}}, 1},
		{"all done: from the beginning", []job.Attempt{ran(ok, ok, ok), {}}, 0},
	} {
		if got := firstStep(spec, job.Record{Attempts: c.attempts}); got != c.want {
			t.Errorf("%s: %d, want %d", c.name, got, c.want)
		}
	}
	spec.Retry = nil
	if got := firstStep(spec, job.Record{Attempts: []job.Attempt{ran(ok, bad, nil)}}); got != 0 {
		t.Errorf("resumed at %d without being asked", got)
	}
}

// TestStepResultGolden pins the form of a pipeline's steps in a result.
func TestStepResultGolden(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 31, 8, 0, 0, 0, time.UTC)
	end := at.Add(90 * time.Second)
	a := &attempt{}
	r := job.StepResult{Name: "segment"}
	fill := runner.StepState{Name: "segment", StartedAt: at, EndedAt: end, Code: 137, Signal: "SIGKILL"}
	a.claim = &queue.Claim{}
	a.tell(&r, fill, &job.Aggregate{MonitoringDurationSeconds: 90, SampleCount: 90, GPUStats: map[string]job.GPUStats{"0": {Name: "NVIDIA L4"}}})
	r.Attempt = 2
	got, err := json.MarshalIndent([]job.StepResult{r, {Name: "train"}}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/steps.json")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != strings.TrimSpace(string(want)) {
		t.Errorf("steps read\n%s\nwant\n%s", got, want)
	}
}
