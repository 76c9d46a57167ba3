package smi

import (
	"strconv"
	"strings"
	"time"

	"github.com/berthq/berth/telemetry"
)

// snapshot makes devices and readings of a report. Capabilities come from elsewhere: the report has none.
func (r report) snapshot(caps map[string]string, at time.Time) telemetry.Snapshot {
	snap := telemetry.Snapshot{At: at, Health: telemetry.HealthOK}
	for i, g := range r.GPUs {
		uuid := strings.TrimSpace(g.UUID)
		if !strings.HasPrefix(uuid, "GPU-") || on(g.MIG) { // MIG devices have no name here: NVML's business
			continue
		}
		d := telemetry.Device{
			UUID: uuid, Index: i, Name: strings.TrimSpace(g.Name), Driver: strings.TrimSpace(r.Driver),
			PCIBusID: firstText(g.BusID, g.ID), ComputeCapability: caps[uuid],
		}
		if minor, err := strconv.Atoi(strings.TrimSpace(g.Minor)); err == nil {
			d.Minor = &minor
		}
		if total := mib(g.Memory.Total); total != nil {
			d.MemoryTotalMB = *total
		}
		snap.Devices = append(snap.Devices, d)
		snap.Readings = append(snap.Readings, g.reading(uuid, at))
	}
	return snap
}

func firstText(texts ...string) string {
	for _, t := range texts {
		if t = strings.TrimSpace(t); t != "" {
			return t
		}
	}
	return ""
}

func (g gpuReport) reading(uuid string, at time.Time) telemetry.Reading {
	r := telemetry.Reading{
		UUID:               uuid,
		UtilizationPercent: figure(g.Util),
		TemperatureC:       figure(g.Temp),
		PowerW:             firstFigure(g.Powers, g.Average, g.Instant, g.Old),
		MemoryTotalMB:      mib(g.Memory.Total),
		MemoryUsedMB:       mib(g.Memory.Used),
		MemoryFreeMB:       mib(g.Memory.Free),
		Throttle:           append(g.Events.throttle(), g.Reasons.throttle()...),
		ECCUncorrected:     g.ECC.uncorrected(),
		RemapPending:       on(g.Pending),
		RemapFailed:        on(g.Failure),
		RecoveryAction:     recoveryAction(g.Action),
	}
	for _, p := range g.Processes.List {
		pid, err := strconv.Atoi(strings.TrimSpace(p.PID))
		if err != nil || pid <= 0 {
			continue
		}
		r.Processes = append(r.Processes, telemetry.Process{PID: pid, MemoryMB: mib(p.Memory), Graphics: strings.TrimSpace(p.Type) == "G"})
	}
	r.ProcessesKnown = len(g.Processes.List) > 0 || strings.TrimSpace(g.Processes.Text) == ""
	switch {
	case g.isLost():
		r = telemetry.Reading{UUID: uuid, Err: lostText}
		r.Fault = lost(uuid, at)
	default:
		if r.Fault = telemetry.Ailment(r); r.Fault != nil {
			r.Fault.At = at
		}
	}
	return r
}

const lostText = "GPU is lost"

func lost(uuid string, at time.Time) *telemetry.Fault {
	return &telemetry.Fault{UUID: uuid, Kind: telemetry.FaultLost, Fatal: true, At: at, Text: lostText}
}

// isLost: a lost card's fields say so one by one.
func (g gpuReport) isLost() bool {
	for _, field := range []string{g.Memory.Used, g.Util, g.Temp} {
		if strings.Contains(strings.ToLower(field), "gpu is lost") {
			return true
		}
	}
	return false
}

func on(text string) bool {
	switch strings.ToLower(strings.TrimSpace(text)) {
	case "yes", "enabled", "active":
		return true
	}
	return false
}

func (f flags) throttle() []string {
	var out []string
	for _, e := range f.List {
		_, name, _ := strings.Cut(e.XMLName.Local, "_reason_") // clocks_event_reason_…, clocks_throttle_reason_…
		if reason, ok := throttleNames[name]; ok && on(e.Text) {
			out = append(out, reason)
		}
	}
	return out
}

// uncorrected sums the uncorrected memory errors since the driver was loaded, whatever parts the card counts.
func (f flags) uncorrected() *int64 {
	var sum *int64
	for _, e := range f.List {
		if !strings.Contains(e.XMLName.Local, "uncorrectable") && !strings.Contains(e.XMLName.Local, "double_bit") {
			continue
		}
		if n := mib(e.Text); n != nil {
			if sum == nil {
				sum = new(int64)
			}
			*sum += *n
		}
	}
	return sum
}

// recoveryAction is NVML's number for nvidia-smi's word.
func recoveryAction(text string) *int {
	for action, word := range []string{"none", "reset", "reboot", "drain p2p", "drain and reset"} {
		if strings.EqualFold(strings.TrimSpace(text), word) {
			return &action
		}
	}
	return nil
}
