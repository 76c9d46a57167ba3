package runner

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/berthq/berth/runner/cgroup"
)

// Inside is what the command of a run knows that only stands for the real one, elsewhere on the machine: a container's
// helper. It keeps the file [InsideFile] in the run's folder; the runner reads it.
type Inside struct {
	ID     string        `json:"id,omitempty"`     // the container's, once it runs
	Group  string        `json:"group,omitempty"`  // folder of the control group its processes are in
	Legacy cgroup.Legacy `json:"legacy,omitempty"` // of v1, where the controllers sit there

	NotStarted string `json:"not_started,omitempty"` // why the job could not be started
	Code       int    `json:"code,omitempty"`        // beside it, as a shell has it
	Machine    bool   `json:"machine,omitempty"`     // beside it: this machine is to blame, not the job
	Lost       string `json:"lost,omitempty"`        // why nobody knows how it ended

	OOMKills     int      `json:"oom_kills,omitempty"`
	CPUSeconds   *float64 `json:"cpu_seconds,omitempty"`
	PeakMemoryMB *int64   `json:"peak_memory_mb,omitempty"`
}

// InsideFile is the name of the file in the run's folder.
const InsideFile = "inside.json"

// WriteInside replaces the file.
func WriteInside(stateDir string, in Inside) error {
	if err := replaceFile(stateDir, InsideFile, marshal(in)); err != nil {
		return fmt.Errorf("keep what is known of the container: %w", err)
	}
	return nil
}

// EngineLost is the cause of an end that nobody saw because the container engine was gone.
const EngineLost Cause = "engine_lost"

// addInside takes up what the command said about what it stood for. The shim counted the command alone.
func (e *Exit) addInside(dir string) {
	var in Inside
	err := readJSON(filepath.Join(dir, InsideFile), &in)
	if errors.Is(err, os.ErrNotExist) {
		return // an ordinary run
	}
	e.CPUSeconds, e.PeakMemoryMB = 0, nil
	if err != nil {
		e.Warnings = append(e.Warnings, InsideFile+": "+err.Error())
		return
	}
	if in.CPUSeconds != nil {
		e.CPUSeconds = *in.CPUSeconds
	}
	e.PeakMemoryMB = in.PeakMemoryMB
	e.OOMKills += in.OOMKills
	if e.Cause != "" {
		return // it was ended: what it looked like from inside is a consequence
	}
	switch {
	case in.Lost != "":
		e.Cause, e.Why = EngineLost, in.Lost
	case in.NotStarted != "" && in.Machine:
		e.MachineErr = errors.New(in.NotStarted)
	case in.NotStarted != "":
		e.NotStarted = &StartError{Code: in.Code, Reason: in.NotStarted}
	}
}

// inside lists the processes that the command of the run stands for.
func (h *Handle) inside() []int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.within == nil && readJSON(filepath.Join(h.dir, InsideFile), &h.within) != nil {
		h.within = nil // none yet, or none ever
		return nil
	}
	if h.within.Group == "" {
		h.within = nil
		return nil
	}
	return cgroup.Group{Dir: h.within.Group}.PIDs()
}
