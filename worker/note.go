package worker

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// note is what a worker keeps beside a run for its successor: whose claim it is, what it was given and what was
// measured so far.
type note struct {
	Version   int              `json:"version"`
	Claim     queue.ClaimState `json:"claim"`
	Given     gpuslots.State   `json:"given"`
	Measured  *job.Aggregate   `json:"measured,omitempty"` // before the last restart of the worker
	LogOffset int64            `json:"log_offset,omitempty"`
	Evidence  string           `json:"evidence,omitempty"` // of the fault for which it is being stopped

	Steps map[int]*job.Aggregate `json:"steps,omitempty"` // of a pipeline, what each has shown so far
}

const noteVersion = 1

func (n note) encode() []byte {
	b, err := json.Marshal(n)
	if err != nil {
		panic(err) // plain fields of our own
	}
	return b
}

// errNewerNote: what it says may not be guessed.
var errNewerNote = errors.New("the worker's note beside the run is a newer Berth's")

func decodeNote(b []byte) (note, error) {
	var n note
	err := json.Unmarshal(b, &n)
	var form struct{ Version int }
	if json.Unmarshal(b, &form) == nil && form.Version > noteVersion { // the rest of it may have other types
		n.Version, err = form.Version, nil
	}
	if err != nil {
		return n, fmt.Errorf("the worker's note beside the run is damaged: %w", err)
	}
	if n.Version > noteVersion {
		return n, fmt.Errorf("%w (version %d; this one knows up to %d): start that worker again and the run goes on; "+
			"otherwise its shim ends it when the session is over", errNewerNote, n.Version, noteVersion)
	}
	return n, nil
}

// mergeAggregates joins what was measured before and after a restart of the worker: extremes of extremes, means weighed
// by their samples.
func mergeAggregates(a *job.Aggregate, b job.Aggregate) job.Aggregate {
	if a == nil || a.SampleCount == 0 {
		return b
	}
	out := job.Aggregate{
		MonitoringDurationSeconds: a.MonitoringDurationSeconds + b.MonitoringDurationSeconds,
		SampleCount:               a.SampleCount + b.SampleCount,
		GPUStats:                  map[string]job.GPUStats{},
	}
	wa, wb := float64(a.SampleCount), float64(b.SampleCount)
	for key, s := range b.GPUStats {
		out.GPUStats[key] = s
	}
	for key, x := range a.GPUStats {
		y, both := b.GPUStats[key]
		if !both {
			out.GPUStats[key] = x
			continue
		}
		m := job.GPUStats{
			Name: y.Name, UUID: y.UUID,
			MemoryUsedMB:       mergeStat(x.MemoryUsedMB, y.MemoryUsedMB, wa, wb),
			MemoryUsagePercent: mergeStat(x.MemoryUsagePercent, y.MemoryUsagePercent, wa, wb),
			TemperatureC:       mergeStat(x.TemperatureC, y.TemperatureC, wa, wb),
			PowerDrawW:         mergeStat(x.PowerDrawW, y.PowerDrawW, wa, wb),
			Utilization:        mergeCounted(x.Utilization, y.Utilization),
		}
		if x.EnergyJoules != nil && y.EnergyJoules != nil {
			sum := *x.EnergyJoules + *y.EnergyJoules
			m.EnergyJoules = &sum
		}
		out.GPUStats[key] = m
	}
	return out
}

func mergeStat(x, y *job.Stat, wx, wy float64) *job.Stat {
	switch {
	case x == nil || wx == 0:
		return y
	case y == nil || wy == 0:
		return x
	}
	return &job.Stat{Min: min(x.Min, y.Min), Max: max(x.Max, y.Max), Mean: (x.Mean*wx + y.Mean*wy) / (wx + wy)}
}

func mergeCounted(x, y *job.CountedStat) *job.CountedStat {
	switch {
	case x == nil || x.Samples == 0:
		return y
	case y == nil || y.Samples == 0:
		return x
	}
	return &job.CountedStat{
		Stat:    *mergeStat(&x.Stat, &y.Stat, float64(x.Samples), float64(y.Samples)),
		Samples: x.Samples + y.Samples,
	}
}
