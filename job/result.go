package job

import (
	"encoding/json"
	"time"
)

// Result is the one message that ends a round on berth.results.<project>.<job>, also for a job cancelled, expired or
// refused while queued. A Run (one attempt, on berth.runs…) has the same form with that attempt's figures.
type Result struct {
	Version     int               `json:"version"`
	JobID       string            `json:"job_id"`
	Number      uint64            `json:"number"`
	Index       *int              `json:"index,omitempty"`
	Group       uint64            `json:"group,omitempty"` // the group's number, on a task's result
	Name        string            `json:"name,omitempty"`
	Project     string            `json:"project"`
	User        string            `json:"user"`
	UserClaimed bool              `json:"user_claimed,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Params      map[string]any    `json:"params,omitempty"`
	Round       int               `json:"round"`
	Attempt     int               `json:"attempt"` // 0: never started
	Outcome     Outcome           `json:"outcome,omitempty"`
	State       State             `json:"state"`
	Exit        *Exit             `json:"exit,omitempty"`
	Reason      string            `json:"reason,omitempty"`
	Evidence    string            `json:"evidence,omitempty"`
	Warnings    []string          `json:"warnings,omitempty"`
	Progress    *Progress         `json:"progress,omitempty"` // the last the run said of it
	Machine     string            `json:"machine,omitempty"`
	RunAs       string            `json:"run_as,omitempty"` // the account on that machine

	QueuedAt      time.Time  `json:"queued_at"`
	StartedAt     *time.Time `json:"started_at,omitempty"`
	EndedAt       *time.Time `json:"ended_at,omitempty"`
	QueuedSeconds float64    `json:"queued_seconds"`
	RunSeconds    float64    `json:"run_seconds"`

	GPUInfo       *GPUInfo        `json:"gpu_info,omitempty"`
	GPUMonitoring *Aggregate      `json:"gpu_monitoring,omitempty"`
	Steps         []StepResult    `json:"steps,omitempty"`
	Report        *Report         `json:"report,omitempty"`
	Attempts      []Attempt       `json:"attempts,omitempty"`
	Artifacts     []Artifact      `json:"artifacts,omitempty"`
	Tasks         map[State]int   `json:"tasks,omitempty"`  // of a group: how many of its tasks ended how
	Output        json.RawMessage `json:"output,omitempty"` // the job's BERTH_RESULT_FILE

	Extra map[string]json.RawMessage `json:"-"`
}

// Run is one attempt's message on berth.runs.<project>.<job>.<attempt>.
type Run = Result

// GPUInfo is the founding R11 block.
type GPUInfo struct {
	Model     string     `json:"model"`
	Count     int        `json:"count"`
	DeviceIDs []string   `json:"device_ids"` // indexes as text, as the founding system wrote them
	WorldSize int        `json:"world_size"`
	GPUInfo   GPUDetails `json:"gpu_info"`
}

// GPUDetails says which devices and why these.
type GPUDetails struct {
	Count            int         `json:"count"`
	Indices          []int       `json:"indices"`
	AllocationMethod string      `json:"allocation_method"`
	Details          []GPUDetail `json:"details"`
}

// GPUDetail is one device at the moment it was given.
type GPUDetail struct {
	Index              int      `json:"index"`
	UUID               string   `json:"uuid,omitempty"`
	Name               string   `json:"name"`
	MemoryFreeMB       *int64   `json:"memory_free_mb,omitempty"`
	UtilizationPercent *float64 `json:"utilization_percent,omitempty"`
	AvailabilityScore  *float64 `json:"availability_score,omitempty"`
}

// Aggregate is the founding R10 block: one attempt's view of the sampler. Keys of GPUStats are device indexes
// ("0"), a MIG device's is "0.<instance>".
type Aggregate struct {
	MonitoringDurationSeconds float64             `json:"monitoring_duration_seconds"`
	SampleCount               int                 `json:"sample_count"`
	GPUStats                  map[string]GPUStats `json:"gpu_stats"`
}

// GPUStats are one device's gauges over an attempt. A gauge the card does not have is absent.
type GPUStats struct {
	Name               string       `json:"name"`
	UUID               string       `json:"uuid,omitempty"`
	Utilization        *CountedStat `json:"utilization,omitempty"`
	MemoryUsedMB       *Stat        `json:"memory_used_mb,omitempty"`
	MemoryUsagePercent *Stat        `json:"memory_usage_percent,omitempty"`
	TemperatureC       *Stat        `json:"temperature_c,omitempty"`
	PowerDrawW         *Stat        `json:"power_draw_w,omitempty"`
	EnergyJoules       *float64     `json:"energy_joules,omitempty"`
}

// Stat is min, max and mean of one gauge.
type Stat struct {
	Min  float64 `json:"min"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
}

// CountedStat also says how many samples it rests on.
type CountedStat struct {
	Stat
	Samples int `json:"samples"`
}

// StepResult is one step of a pipeline.
type StepResult struct {
	Name          string     `json:"name"`
	Attempt       int        `json:"attempt,omitempty"` // in which it ran; absent: not yet
	Exit          *Exit      `json:"exit,omitempty"`    // absent: it did not run, or nobody saw it end
	StartedAt     *time.Time `json:"started_at,omitempty"`
	EndedAt       *time.Time `json:"ended_at,omitempty"`
	RunSeconds    float64    `json:"run_seconds"`
	GPUMonitoring *Aggregate `json:"gpu_monitoring,omitempty"`
}

// Succeeded reports whether the step has run and ended well.
func (s StepResult) Succeeded() bool { return s.Exit != nil && s.Exit.Code == 0 && s.Exit.Signal == "" }

// Report is what the run cost and how it could cost less.
type Report struct {
	GPUHours     float64  `json:"gpu_hours"`
	EnergyJoules *float64 `json:"energy_joules,omitempty"`
	CPUSeconds   *float64 `json:"cpu_seconds,omitempty"`
	PeakMemoryMB *int64   `json:"peak_memory_mb,omitempty"` // host
	Advice       []string `json:"advice,omitempty"`
}

// Artifact is a file the job left behind, by name and size.
type Artifact struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
}
