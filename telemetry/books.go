package telemetry

import (
	"fmt"
	"log/slog"
	"math"
)

// books are what a sampler knows of this machine's devices, against which every answer is held. Libraries do answer
// nonsense (and drivers are upgraded under a running worker): what cannot be true becomes an absent gauge or a lost
// device, with one warning when it begins.
type books struct {
	log     *slog.Logger
	devices []Device
	index   map[string]int
	warned  map[string]bool // what is wrong now and has been said
	still   map[string]bool // what is wrong in this snapshot
	before  map[string]Reading
	health  SourceHealth
}

// enter puts a snapshot in order: every device ever seen, in the order they were first seen, one reading for each.
func (b *books) enter(snap Snapshot) Snapshot {
	if b.index == nil {
		b.index, b.warned, b.before = map[string]int{}, map[string]bool{}, map[string]Reading{}
		b.health = HealthOK
	}
	b.still = map[string]bool{}
	b.register(snap)
	out := Snapshot{At: snap.At, Health: snap.Health, Err: snap.Err}
	if out.Health == "" {
		out.Health = HealthOK
	}
	given := map[string]Reading{}
	for _, r := range snap.Readings {
		if _, twice := given[r.UUID]; twice {
			b.warn(r.UUID, "read twice", "the GPU source names one device twice; the first counts")
			continue
		}
		given[r.UUID] = r
	}
	for _, d := range b.devices {
		r, ok := given[d.UUID]
		if !ok {
			r = b.missing(d, out)
		}
		out.Devices = append(out.Devices, d)
		out.Readings = append(out.Readings, b.sane(d, r))
	}
	b.sayHealth(out)
	b.warned = b.still
	return out
}

// register takes in devices not seen before. After the first snapshot that deserves a word.
func (b *books) register(snap Snapshot) {
	first := len(b.devices) == 0
	for _, d := range snap.Devices {
		if d.UUID == "" {
			b.warn("", "no uuid", "the GPU source names a device without UUID; it is left out", "index", d.Index)
			continue
		}
		if _, known := b.index[d.UUID]; known {
			continue
		}
		if !first {
			b.log.Warn("a GPU appeared that was not there at the start", "gpu", d.UUID, "index", d.Index, "name", d.Name)
		}
		d.MemoryTotalMB = max(d.MemoryTotalMB, 0)
		b.index[d.UUID] = len(b.devices)
		b.devices = append(b.devices, d)
	}
}

// missing is the reading of a device the source did not speak of.
func (b *books) missing(d Device, snap Snapshot) Reading {
	r := Reading{UUID: d.UUID}
	if snap.Health != HealthOK {
		r.Err = snap.Err
		return r
	}
	r.Err = "the driver lists this GPU no more"
	r.Fault = &Fault{UUID: d.UUID, Kind: FaultLost, Fatal: true, At: snap.At, Text: r.Err}
	return r
}

// sane drops what cannot be true.
func (b *books) sane(d Device, r Reading) Reading {
	r.UtilizationPercent = b.gauge(d, "utilisation", r.UtilizationPercent, 0, 100)
	r.TemperatureC = b.gauge(d, "temperature", r.TemperatureC, -100, 300)
	r.PowerW = b.gauge(d, "power", r.PowerW, 0, 100_000)
	r.EnergyJoules = b.gauge(d, "energy", r.EnergyJoules, 0, math.MaxFloat64)
	r.MemoryTotalMB = b.memory(d, "total memory", r.MemoryTotalMB, math.MaxInt32)
	most := int64(math.MaxInt32) // 2 EiB: no card yet
	if r.MemoryTotalMB != nil {
		most = *r.MemoryTotalMB
	}
	r.MemoryUsedMB = b.memory(d, "used memory", r.MemoryUsedMB, most)
	r.MemoryFreeMB = b.memory(d, "free memory", r.MemoryFreeMB, most)
	r.Processes = b.processes(d, r.Processes, most)
	if r.Fault != nil && r.Fault.UUID == "" {
		fault := *r.Fault
		fault.UUID = d.UUID
		r.Fault = &fault
	}
	return r
}

func (b *books) processes(d Device, given []Process, most int64) []Process {
	if len(given) == 0 {
		return nil
	}
	out := make([]Process, 0, len(given))
	at := map[int]int{}
	for _, p := range given {
		if p.PID <= 0 {
			b.warn(d.UUID, "pid", "the GPU source names a process without PID; it is left out", "pid", p.PID)
			continue
		}
		p.MemoryMB = b.memory(d, "process memory", p.MemoryMB, most)
		p.UtilizationPercent = b.gauge(d, "process utilisation", p.UtilizationPercent, 0, 100)
		if i, twice := at[p.PID]; twice { // computes and draws: two lists, one process, one figure
			out[i].MemoryMB = larger(out[i].MemoryMB, p.MemoryMB)
			out[i].Graphics = out[i].Graphics && p.Graphics
			continue
		}
		at[p.PID] = len(out)
		out = append(out, p)
	}
	return out
}

func larger(a, b *int64) *int64 {
	if a == nil || (b != nil && *b > *a) {
		return b
	}
	return a
}

func (b *books) gauge(d Device, what string, v *float64, least, most float64) *float64 {
	if v == nil {
		return nil
	}
	if math.IsNaN(*v) || *v < least || *v > most {
		b.warn(d.UUID, what, "a gauge cannot be true and is left out", "gauge", what, "value", *v)
		return nil
	}
	return v
}

func (b *books) memory(d Device, what string, v *int64, most int64) *int64 {
	if v == nil {
		return nil
	}
	if *v < 0 || *v > most {
		b.warn(d.UUID, what, "a gauge cannot be true and is left out", "gauge", what, "value_mb", *v, "most_mb", most)
		return nil
	}
	return v
}

// warn says something once for as long as it stays wrong.
func (b *books) warn(uuid, what, text string, facts ...any) {
	id := uuid + "/" + what
	if !b.warned[id] && !b.still[id] {
		b.log.Warn(text, append([]any{"gpu", uuid}, facts...)...)
	}
	b.still[id] = true
}

func (b *books) sayHealth(snap Snapshot) {
	if snap.Health == b.health {
		return
	}
	if snap.Health == HealthOK {
		b.log.Info("gpus can be read again")
	} else {
		b.log.Warn("gpu source", "health", snap.Health, "err", snap.Err)
	}
	b.health = snap.Health
}

// news are the faults that show between the snapshot before and this one.
func (b *books) news(snap Snapshot) []Fault {
	var out []Fault
	for _, r := range snap.Readings {
		before, seen := b.before[r.UUID]
		if r.Fault != nil && (before.Fault == nil || before.Fault.Kind != r.Fault.Kind) {
			out = append(out, *r.Fault)
		}
		if more := grown(before.ECCUncorrected, r.ECCUncorrected); seen && more > 0 {
			text := fmt.Sprintf("%d memory errors that could not be corrected", more)
			out = append(out, Fault{UUID: r.UUID, Kind: FaultECC, Fatal: true, At: snap.At, Text: text})
		}
		if r.ECCUncorrected == nil {
			r.ECCUncorrected = before.ECCUncorrected // a reading missed must not hide an error
		}
		b.before[r.UUID] = r
	}
	return out
}

func grown(before, now *int64) int64 {
	if before == nil || now == nil {
		return 0
	}
	return *now - *before
}
