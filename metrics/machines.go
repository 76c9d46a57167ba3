package metrics

import (
	"slices"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berthq/berth/queue"
)

// machines shows machines, their slots and their GPUs. A gauge that a card does not have is absent.
type machines struct{ list func() []Machine }

// gpuLabels are those of NVIDIA's dcgm-exporter, so that a query for its metrics finds these.
var gpuLabels = []string{"gpu", "UUID", "modelName", "Hostname"}

func machineDesc(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"machine"}, more...), nil)
}

func gpuDesc(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append(slices.Clone(gpuLabels), more...), nil)
}

var (
	info     = machineDesc("berth_machine_info", "1 for a machine that is there.", "version", "gpu_source", "isolation")
	draining = machineDesc("berth_machine_draining", "1 while the machine takes no more jobs.")
	running  = machineDesc("berth_machine_runs", "Runs on the machine now.")
	heldBy   = machineDesc("berth_machine_gpus_held", "GPUs that runs of a project hold on the machine.", "project")
	warnings = machineDesc("berth_machine_warnings", "Warnings of the machine that berth machines shows.")
	seen     = machineDesc("berth_machine_announced_timestamp_seconds", "When the machine last said that it is there, by its own clock.")

	slots     = gpuDesc("berth_gpu_slots", "Runs that may share the GPU.")
	slotsUsed = gpuDesc("berth_gpu_slots_used", "Slots of the GPU that are taken.")
	score     = gpuDesc("berth_gpu_score", "How good the GPU is for a job just now, 0 to 1.")
	state     = gpuDesc("berth_gpu_state", "1 for the state that the GPU is in, 0 for the others.", "state")

	util         = gpuDesc("DCGM_FI_DEV_GPU_UTIL", "GPU utilization (in %).")
	temperature  = gpuDesc("DCGM_FI_DEV_GPU_TEMP", "GPU temperature (in C).")
	power        = gpuDesc("DCGM_FI_DEV_POWER_USAGE", "Power draw (in W).")
	energy       = gpuDesc("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "Total energy consumption since boot (in mJ).")
	memoryFree   = gpuDesc("DCGM_FI_DEV_FB_FREE", "Framebuffer memory free (in MiB).")
	memoryUsed   = gpuDesc("DCGM_FI_DEV_FB_USED", "Framebuffer memory used (in MiB).")
	eccErrors    = gpuDesc("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "Total number of double-bit volatile ECC errors.")
	remapFailure = gpuDesc("DCGM_FI_DEV_ROW_REMAP_FAILURE", "Whether remapping of rows has failed.")
	remapPending = gpuDesc("DCGM_FI_DEV_ROW_REMAP_PENDING", "Whether rows wait for a reset to be remapped.")
)

// states are the words of berth_gpu_state: those of package gpuslots.
var states = []string{"ready", "busy", "foreign", "settling", "elsewhere", "dirty", "quarantined", "unreadable", "draining"}

func (m machines) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{info, draining, running, heldBy, warnings, seen, slots, slotsUsed, score, state,
		util, temperature, power, energy, memoryFree, memoryUsed, eccErrors, remapFailure, remapPending} {
		to <- d
	}
}

func (m machines) Collect(to chan<- prometheus.Metric) {
	for _, one := range m.list() {
		collectMachine(to, one.Machine)
		for _, g := range one.GPUs {
			collectGPU(to, one, g)
		}
	}
}

func collectMachine(to chan<- prometheus.Metric, m queue.Machine) {
	gauge(to, info, 1, m.Name, m.Version, m.Source, m.Isolation)
	gauge(to, draining, oneIf(m.Draining), m.Name)
	gauge(to, running, float64(len(m.Running)), m.Name)
	gauge(to, warnings, float64(len(m.Warnings)), m.Name)
	gauge(to, seen, float64(m.At.UnixMilli())/1000, m.Name)
	few, held := newNames(), map[string]int{}
	for project, n := range m.Projects {
		held[few.of(project)] += n
	}
	for project, n := range held {
		gauge(to, heldBy, float64(n), m.Name, project)
	}
}

func collectGPU(to chan<- prometheus.Metric, m Machine, g queue.GPU) {
	labels := []string{strconv.Itoa(g.Index), g.UUID, g.Name, m.Name}
	gauge(to, slots, float64(g.Slots), labels...)
	gauge(to, slotsUsed, float64(g.Active), labels...)
	known(to, score, g.Score, labels)
	for _, s := range withState(g.State) {
		gauge(to, state, oneIf(s == g.State), append(slices.Clone(labels), s)...)
	}
	known(to, util, g.UtilizationPercent, labels)
	known(to, temperature, g.TemperatureC, labels)
	known(to, power, g.PowerW, labels)
	known(to, memoryFree, g.MemoryFreeMB, labels)
	known(to, memoryUsed, g.MemoryUsedMB, labels)
	r, own := m.Readings[g.UUID]
	if !own {
		return
	}
	if r.EnergyJoules != nil {
		to <- prometheus.MustNewConstMetric(energy, prometheus.CounterValue, *r.EnergyJoules*1000, labels...)
	}
	if r.ECCUncorrected != nil {
		to <- prometheus.MustNewConstMetric(eccErrors, prometheus.CounterValue, float64(*r.ECCUncorrected), labels...)
	}
	if r.RemapPending != nil {
		gauge(to, remapPending, oneIf(*r.RemapPending), labels...)
	}
	if r.RemapFailed != nil {
		gauge(to, remapFailure, oneIf(*r.RemapFailed), labels...)
	}
}

// withState are the states, with one that a newer worker may have said.
func withState(s string) []string {
	if slices.Contains(states, s) {
		return states
	}
	return append(slices.Clone(states), s)
}

func gauge(to chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func known[T int64 | float64](to chan<- prometheus.Metric, d *prometheus.Desc, v *T, labels []string) {
	if v != nil {
		gauge(to, d, float64(*v), labels...)
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
