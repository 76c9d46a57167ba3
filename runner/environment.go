package runner

import (
	"slices"
	"strconv"
	"strings"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/telemetry"
)

// IDs are what a run is told about itself.
type IDs struct {
	JobID         string // "1842" or "1842.17"
	Attempt       int
	ArrayIndex    *int // of a task
	Params        map[string]any
	StateDir      string   // the run's folder
	CheckpointDir string   // kept between attempts
	Script        bool     // it has one, see [ScriptFile]
	Base          []string // of whom it runs as: HOME, USER, LOGNAME, SHELL, TMPDIR; a PATH for jobs that bring none
}

// defaultPath serves jobs that were submitted without a PATH.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Environment is the whole environment of a run, sorted: who it runs as, what the spec gives it, and what Berth says.
// The devices are named by UUID, so that the GPU it was given is the GPU it uses; the words of Berth win over the
// spec's, or two jobs could name one card. A nil value in the spec was not resolved by who submitted it and is left out.
func Environment(spec job.Spec, devices []telemetry.Device, ids IDs) []string {
	env := map[string]string{"PYTHONUNBUFFERED": "1"}
	for _, entry := range append([]string{defaultPath}, ids.Base...) {
		if key, value, found := strings.Cut(entry, "="); found {
			env[key] = value
		}
	}
	for key, value := range spec.Env {
		if value != nil {
			env[key] = *value
		}
	}
	uuids, indexes := names(devices)
	env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
	env["CUDA_VISIBLE_DEVICES"] = uuids
	env["NVIDIA_VISIBLE_DEVICES"] = uuids
	if len(devices) == 0 {
		env["NVIDIA_VISIBLE_DEVICES"] = "void"
	}
	env["BERTH_JOB_ID"] = ids.JobID
	env["BERTH_ATTEMPT"] = strconv.Itoa(ids.Attempt)
	env["BERTH_GPUS"] = uuids
	env["BERTH_GPU_INDICES"] = indexes
	delete(env, "BERTH_ARRAY_INDEX")
	if ids.ArrayIndex != nil {
		env["BERTH_ARRAY_INDEX"] = strconv.Itoa(*ids.ArrayIndex)
	}
	env["BERTH_RESULT_FILE"] = ResultFile(ids.StateDir)
	env["BERTH_PROGRESS"] = ProgressFile(ids.StateDir)
	env["BERTH_STOP_REASON_FILE"] = StopReasonFile(ids.StateDir)
	delete(env, "BERTH_CHECKPOINT_DIR")
	if ids.CheckpointDir != "" {
		env["BERTH_CHECKPOINT_DIR"] = ids.CheckpointDir
	}
	list := make([]string, 0, len(env))
	for key, value := range env {
		list = append(list, key+"="+value)
	}
	slices.Sort(list)
	return list
}

// names lists the devices' UUIDs and indexes, comma-separated, in the order they were given.
func names(devices []telemetry.Device) (uuids, indexes string) {
	var u, i []string
	for _, d := range devices {
		u, i = append(u, d.UUID), append(i, strconv.Itoa(d.Index))
	}
	return strings.Join(u, ","), strings.Join(i, ",")
}
