package worker

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/runner"
	"github.com/berthq/berth/telemetry"
)

// result is everything an attempt has to show: what the queue does not know by itself.
func (w *Worker) result(a *attempt, e end) job.Result {
	rec := a.claim.Record()
	exit := job.Exit{Code: e.exit.Code, Signal: e.exit.Signal}
	started, ended := e.exit.StartedAt, e.exit.EndedAt
	seconds := ended.Sub(started).Seconds()
	r := job.Result{
		Version: job.Version, Machine: w.cfg.Machine, Exit: &exit, StartedAt: &started, EndedAt: &ended,
		QueuedSeconds: started.Sub(rec.QueuedAt).Seconds(), RunSeconds: seconds, Output: e.exit.Output,
	}
	if len(a.devices()) > 0 {
		r.GPUInfo = gpuInfo(rec.Requirements, a)
		if a.meter != nil {
			r.GPUMonitoring = a.measuredNow()
		}
	}
	r.Steps = a.stepResults(e, rec)
	v := Judge(a.ending(e, r.GPUMonitoring))
	v.Reason = inStep(r.Steps, v)
	r.Outcome, r.Reason, r.Evidence = v.Outcome, v.Reason, v.Evidence
	r.Progress = w.progressNow(a)
	if account, err := w.account(a); err == nil && e.startErr == nil {
		r.RunAs = runAs(account)
	}
	r.Warnings = append(a.warned(), e.exit.Warnings...)
	if n := e.exit.LogDropped; n > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d of %d bytes of its output were not kept: the log has the head and the tail (log_cap)", n, e.exit.LogBytes))
	}
	r.Report = Report(rec.Requirements, r.GPUMonitoring, cardMemory(a.devices()), len(a.devices()), seconds,
		Usage{CPUSeconds: counted(e.exit.CPUSeconds), PeakMemoryMB: e.exit.PeakMemoryMB})
	return r
}

// counted is nil where nobody counted.
func counted(seconds float64) *float64 {
	if seconds == 0 {
		return nil
	}
	return &seconds
}

// ending gathers the evidence.
func (a *attempt) ending(e end, seen *job.Aggregate) Ending {
	a.mu.Lock()
	fault := a.fault
	a.mu.Unlock()
	if e.exit.Refused != "" && e.startErr == nil {
		e.startErr = &runner.StartError{Code: e.exit.Code, Reason: e.exit.Refused}
	}
	out := Ending{
		Cause: e.exit.Cause, Exit: job.Exit{Code: e.exit.Code, Signal: e.exit.Signal}, StartErr: e.startErr,
		GPUs: len(a.devices()), OOMKills: e.exit.OOMKills, GPUFault: fault, Tail: e.exit.Tail, CancelledBy: strings.TrimPrefix(e.exit.Why, "cancelled by "),
		Why: e.exit.Why, Rules: a.spec().FailReasons,
	}
	if a.meter != nil {
		for _, f := range a.meter.Faults() {
			switch {
			case f.Fatal && out.GPUFault == "":
				out.GPUFault = f.String()
			case !f.Fatal && out.GPUAppFault == "":
				out.GPUAppFault = f.String()
			}
		}
	}
	if seen != nil {
		for _, s := range seen.GPUStats {
			if p := s.MemoryUsagePercent; p != nil && (out.PeakMemoryPercent == nil || p.Max > *out.PeakMemoryPercent) {
				out.PeakMemoryPercent = &p.Max
			}
		}
	}
	return out
}

// measuredNow is the whole attempt's aggregate, with what was measured before a restart of the worker.
func (a *attempt) measuredNow() *job.Aggregate {
	agg := a.meter.Stop()
	a.mu.Lock()
	defer a.mu.Unlock()
	agg = mergeAggregates(a.measured, agg)
	return &agg
}

func (a *attempt) warn(format string, args ...any) {
	a.mu.Lock()
	defer a.mu.Unlock()
	const most = 20
	if len(a.warnings) < most {
		a.warnings = append(a.warnings, fmt.Sprintf(format, args...))
	}
}

func (a *attempt) warned() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.warnings...)
}

// gpuInfo is the founding R11 block: which devices, and how they looked when they were given.
func gpuInfo(req job.Requirements, a *attempt) *job.GPUInfo {
	info := &job.GPUInfo{
		Model: req.Model, Count: len(a.devices()), WorldSize: max(req.WorldSize, len(a.devices())),
		DeviceIDs: []string{}, GPUInfo: job.GPUDetails{Count: len(a.devices()), Indices: []int{}, AllocationMethod: a.alloc.Method, Details: a.alloc.Details},
	}
	for _, d := range a.devices() {
		info.DeviceIDs = append(info.DeviceIDs, strconv.Itoa(d.Index))
		info.GPUInfo.Indices = append(info.GPUInfo.Indices, d.Index)
	}
	return info
}

func cardMemory(devices []telemetry.Device) map[string]int64 {
	mb := map[string]int64{}
	for _, d := range devices {
		mb[d.Key()] = d.MemoryTotalMB
	}
	return mb
}

func paramsOf(j job.Job, ref queue.Ref) map[string]any {
	if !ref.Task {
		return nil
	}
	return queue.TaskParams(&j, ref.Index)
}

// meterFor starts the attempt's view of the sampler; nil for a run without a GPU.
func (w *Worker) meterFor(a *attempt) *telemetry.Meter {
	every := w.cfg.SampleEvery
	if t := a.claim.Job.Spec.Telemetry; t != nil && t.Interval > 0 {
		every = time.Duration(t.Interval)
	}
	uuids := a.alloc.UUIDs()
	if len(uuids) == 0 {
		return nil
	}
	return w.sampler.MeterEvery(every, uuids...)
}

func keys(devices []telemetry.Device) []string {
	out := make([]string, len(devices))
	for i, d := range devices {
		out[i] = d.Key()
	}
	return out
}
