package worker

import (
	"strconv"
	"strings"
	"testing"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

func TestOneJobOnOneGPU(t *testing.T) {
	h := newHouse(t, "2x24Gi")
	h.work("alpha")
	n := h.submit(job.Requirements{GPUs: 1, WorldSize: 1, Model: "llama-7b"}, "env", "print=hello", "err=careful", `result={"loss":0.5}`, "sleep=1s", "exit=0")
	r := h.result(queue.JobRef(n))
	if r.State != job.Succeeded || r.Attempt != 1 || r.Exit == nil || r.Exit.Code != 0 || r.Machine != "alpha" {
		t.Errorf("result %+v", r)
	}
	if r.GPUInfo == nil || r.GPUInfo.Count != 1 || r.GPUInfo.Model != "llama-7b" || len(r.GPUInfo.GPUInfo.Details) != 1 {
		t.Fatalf("gpu_info %+v", r.GPUInfo)
	}
	given := r.GPUInfo.GPUInfo.Details[0]
	if given.AvailabilityScore == nil || *given.AvailabilityScore <= 0.5 {
		t.Errorf("the idle GPU had score %v", given.AvailabilityScore)
	}
	key := strconv.Itoa(given.Index)
	if r.GPUMonitoring == nil || r.GPUMonitoring.SampleCount == 0 || r.GPUMonitoring.GPUStats[key].MemoryUsedMB == nil {
		t.Errorf("gpu_monitoring %+v", r.GPUMonitoring)
	}
	if string(r.Output) != `{"loss":0.5}` {
		t.Errorf("output %s", r.Output)
	}
	if r.Report == nil || r.Report.GPUHours <= 0 {
		t.Errorf("report %+v", r.Report)
	}
	out, errs := h.logOf(n, 1)
	if !strings.Contains(out, "hello\n") || errs != "careful\n" {
		t.Errorf("stdout %q\nstderr %q", out, errs)
	}
	for _, want := range []string{"CUDA_VISIBLE_DEVICES=" + given.UUID, "CUDA_DEVICE_ORDER=PCI_BUS_ID", "BERTH_JOB_ID=" + strconv.FormatUint(n, 10), "BERTH_ATTEMPT=1"} {
		if !strings.Contains(out, want+"\n") {
			t.Errorf("the run did not see %s in\n%s", want, out)
		}
	}
	if runs := h.count(queue.StreamRuns, "berth.runs.lab.>"); runs != 1 {
		t.Errorf("%d attempt messages, want 1", runs)
	}
}
