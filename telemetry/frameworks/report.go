package frameworks

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/berthq/berth/telemetry"
)

// The frameworks, by the name that Python imports and that a job requires them by.
const (
	Torch         = "torch"
	CuPy          = "cupy"
	TensorFlow    = "tensorflow"
	JAX           = "jax"
	Pyclesperanto = "pyclesperanto"
)

// All are the frameworks that can be asked.
func All() []string { return []string{Torch, CuPy, TensorFlow, JAX, Pyclesperanto} }

// Eager are those asked when nobody names any: all but JAX.
func Eager() []string { return []string{Torch, CuPy, TensorFlow, Pyclesperanto} }

// Report is what one interpreter's frameworks see.
type Report struct {
	Interpreter string `json:"interpreter"` // as Python names itself
	Python      string `json:"python"`      // its version
	// Installed are all the frameworks found, also those not asked.
	Installed []string `json:"installed,omitempty"`
	// Frameworks has those that were asked and are installed.
	Frameworks map[string]Seen `json:"frameworks,omitempty"`
}

// Seen is one framework's answer.
type Seen struct {
	Version string   `json:"version,omitempty"`
	UUIDs   []string `json:"uuids,omitempty"` // of the machine's devices, in their order
	Count   int      `json:"count"`           // as the framework counts: more than UUIDs when it sees others too
	Note    string   `json:"note,omitempty"`  // why it sees none, in its own words
	Err     string   `json:"err,omitempty"`   // why there is no answer

	Took   time.Duration `json:"took"`
	Cached bool          `json:"-"` // known from before
}

// Devices are the UUIDs each framework sees, as gpuslots wants them.
func (r Report) Devices() map[string][]string {
	out := make(map[string][]string, len(r.Frameworks))
	for name, seen := range r.Frameworks {
		out[name] = slices.Clone(seen.UUIDs)
	}
	return out
}

// Missing are the sentences an operator should read: every framework that is installed and sees fewer of the devices
// than there are, or could not be asked. None when all is well, or when there are no devices.
func Missing(devices []telemetry.Device, r Report) []string {
	if len(devices) == 0 {
		return nil
	}
	var out []string
	for _, name := range All() {
		seen, asked := r.Frameworks[name]
		if !asked {
			continue
		}
		if s := shortfall(devices, name, r.Interpreter, seen); s != "" {
			out = append(out, s)
		}
	}
	return out
}

func shortfall(devices []telemetry.Device, name, interpreter string, seen Seen) string {
	who := strings.TrimSpace(name+" "+seen.Version) + " (" + interpreter + ")"
	if seen.Err != "" {
		return fmt.Sprintf("%s could not be asked which GPUs it sees: %s", who, seen.Err)
	}
	unseen := without(devices, seen.UUIDs)
	switch {
	case len(unseen) == 0:
		return ""
	case len(unseen) < len(devices):
		return fmt.Sprintf("%s sees %d of %s, not %s: jobs that require it get none of those",
			who, len(devices)-len(unseen), gpus(len(devices)), list(unseen))
	case seen.Note != "":
		return fmt.Sprintf("%s sees none of %s: %s", who, gpus(len(devices)), seen.Note)
	case seen.Count > 0:
		return fmt.Sprintf("%s sees %s, but none that this worker has", who, gpus(seen.Count))
	}
	return fmt.Sprintf("%s sees none of %s: its build may need a newer driver than this machine's%s",
		who, gpus(len(devices)), driver(devices))
}

func without(devices []telemetry.Device, uuids []string) []telemetry.Device {
	var out []telemetry.Device
	for _, d := range devices {
		if !slices.Contains(uuids, d.UUID) {
			out = append(out, d)
		}
	}
	return out
}

func gpus(n int) string {
	if n == 1 {
		return "1 GPU"
	}
	return fmt.Sprintf("%d GPUs", n)
}

func list(devices []telemetry.Device) string {
	names := make([]string, len(devices))
	for i, d := range devices {
		names[i] = fmt.Sprintf("GPU %s (%s, %s)", d.Key(), d.Name, d.UUID)
	}
	return strings.Join(names, " and ")
}

func driver(devices []telemetry.Device) string {
	if devices[0].Driver == "" {
		return ""
	}
	return " (" + devices[0].Driver + ")"
}
