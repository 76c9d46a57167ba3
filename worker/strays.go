package worker

import (
	"strings"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/telemetry"
)

// warnStrays tells the runs that are seen on GPUs which are not theirs: it stands in their result. Mostly a program
// sets CUDA_VISIBLE_DEVICES by itself.
func (w *Worker) warnStrays() {
	for _, g := range w.pool.Status(w.cfg.Now()).GPUs {
		for _, s := range g.Strays {
			if s.Elsewhere {
				w.warnStray(g, s)
			}
		}
	}
}

func (w *Worker) warnStray(g gpuslots.GPUStatus, s gpuslots.Stray) {
	w.runs.each(func(a *attempt) {
		if a.id != s.Run || !a.firstStray(g.UUID) {
			return
		}
		a.warn("process %d of this run was on GPU %s (%s), which was not given to it: it was given %s",
			s.PID, g.Key, g.UUID, given(a.devices()))
		a.log.Warn("run_on_foreign_gpu", "gpu", g.UUID, "pid", s.PID)
	})
}

func given(devices []telemetry.Device) string {
	if len(devices) == 0 {
		return "none"
	}
	names := make([]string, len(devices))
	for i, d := range devices {
		names[i] = "GPU " + d.Key()
	}
	return strings.Join(names, " and ")
}

// firstStray reports whether the run was not seen on that GPU before.
func (a *attempt) firstStray(uuid string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.strayed[uuid] {
		return false
	}
	if a.strayed == nil {
		a.strayed = map[string]bool{}
	}
	a.strayed[uuid] = true
	return true
}
