//go:build cgo && linux

package nvml

import (
	"time"

	nv "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/berthq/berth/telemetry"
)

// usage is one process's last known utilisation. The library says it once, for the time since it was last asked.
type usage struct {
	percent float64
	at      time.Time
}

// usageKept is how long a utilisation is believed when nothing newer is said.
const usageKept = 5 * time.Second

// processes lists who computes and who draws. Known means that the list of computing ones could be read.
func (d *device) processes() {
	var compute, mps, graphics []nv.ProcessInfo
	d.reading.ProcessesKnown = d.ask(fnCompute, func() (ret nv.Return) { compute, ret = d.handle.GetComputeRunningProcesses(); return })
	d.ask(fnMPS, func() (ret nv.Return) { mps, ret = d.handle.GetMPSComputeRunningProcesses(); return })
	d.ask(fnGraphics, func() (ret nv.Return) { graphics, ret = d.handle.GetGraphicsRunningProcesses(); return })
	list := d.list(nil, compute, false)
	list = d.list(list, mps, false)
	list = d.list(list, graphics, true)
	d.usages(list)
	d.reading.Processes = list
}

func (d *device) list(to []telemetry.Process, infos []nv.ProcessInfo, graphics bool) []telemetry.Process {
	for _, info := range infos {
		p := telemetry.Process{PID: int(info.Pid), Graphics: graphics}
		if info.UsedGpuMemory != ^uint64(0) { // not available
			p.MemoryMB = mib(info.UsedGpuMemory)
		}
		to = append(to, p)
	}
	return to
}

// usages fills in how busy each process keeps the device.
func (d *device) usages(list []telemetry.Process) {
	if len(list) == 0 || d.Parent != "" {
		clear(d.procUtil)
		return
	}
	now := time.Now()
	var samples []nv.ProcessUtilizationSample
	d.ask(fnProcessUtil, func() (ret nv.Return) { samples, ret = d.handle.GetProcessUtilization(d.seenUtil); return })
	newest := map[int]uint64{}
	for _, s := range samples {
		d.seenUtil = max(d.seenUtil, s.TimeStamp)
		pid := int(s.Pid)
		if s.TimeStamp >= newest[pid] && s.SmUtil <= 100 {
			newest[pid] = s.TimeStamp
			d.procUtil[pid] = usage{percent: float64(s.SmUtil), at: now}
		}
	}
	for pid, u := range d.procUtil {
		if now.Sub(u.at) > usageKept {
			delete(d.procUtil, pid)
		}
	}
	for i := range list {
		if u, ok := d.procUtil[list[i].PID]; ok {
			list[i].UtilizationPercent = &u.percent
		}
	}
}
