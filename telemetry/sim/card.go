package sim

import (
	"crypto/sha256"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/berthq/berth/telemetry"
)

// card is one simulated GPU.
type card struct {
	telemetry.Device
	config DeviceConfig

	at          time.Time
	temperature float64
	power       float64
	energy      float64
	errors      int64
	action      int
	lost        bool
	hungSince   time.Time
	foreign     map[int]telemetry.Process // put there by the control file
}

// Temperature and power go the way to where they belong in about this time, as a card with its cooler does.
const (
	temperatureTime = 25 * time.Second
	powerTime       = 1500 * time.Millisecond
)

func newCard(seed string, index int, config DeviceConfig) *card {
	mb, _ := config.Memory.MB()
	sum := sha256.Sum256(fmt.Appendf(nil, "berth simulated gpu\x00%s\x00%d", seed, index))
	return &card{
		Device: telemetry.Device{
			UUID:  fmt.Sprintf("GPU-%x-%x-%x-%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]),
			Index: index, Name: config.Name, MemoryTotalMB: mb, ComputeCapability: config.Capability,
			PCIBusID: fmt.Sprintf("%08X:%02X:00.0", index/0x80, 1+index%0x80), Driver: "simulated",
		},
		config:      config,
		temperature: idleC + float64(index%4),
		power:       config.IdleW,
		foreign:     map[int]telemetry.Process{},
	}
}

const (
	idleC = 32.0
	fullC = 78.0
)

// advance lets time pass under a load.
func (c *card) advance(now time.Time, percent float64) {
	if !c.at.IsZero() && now.After(c.at) {
		dt := now.Sub(c.at)
		load := percent / 100
		goal := idleC + float64(c.Index%4) + load*(fullC-idleC)
		c.temperature += (goal - c.temperature) * (1 - math.Exp(-dt.Seconds()/temperatureTime.Seconds()))
		before := c.power
		c.power += (c.config.IdleW + load*(c.config.MaxW-c.config.IdleW) - c.power) * (1 - math.Exp(-dt.Seconds()/powerTime.Seconds()))
		c.energy += (before + c.power) / 2 * dt.Seconds()
	}
	c.at = now
}

// read is the card's gauges with these processes on it.
func (c *card) read(now time.Time, on []telemetry.Process) telemetry.Reading {
	var percent float64
	var used int64
	for _, p := range on {
		percent += *p.UtilizationPercent
		used += *p.MemoryMB
	}
	percent, used = math.Min(percent, 100), min(used, c.MemoryTotalMB)
	c.advance(now, percent)
	if fault := c.trouble(now); fault != nil || !c.hungSince.IsZero() {
		r := telemetry.Reading{UUID: c.UUID, Fault: fault, Err: "the simulated driver does not answer for this GPU"}
		if c.lost {
			r.Err = fault.Text
		}
		return r
	}
	free, total, errors, action := c.MemoryTotalMB-used, c.MemoryTotalMB, c.errors, c.action
	r := telemetry.Reading{
		UUID:               c.UUID,
		UtilizationPercent: rounded(percent),
		TemperatureC:       rounded(c.temperature),
		PowerW:             rounded(c.power),
		EnergyJoules:       rounded(c.energy),
		MemoryUsedMB:       &used, MemoryFreeMB: &free, MemoryTotalMB: &total,
		ECCUncorrected: &errors, RecoveryAction: &action,
		Processes: on, ProcessesKnown: true,
	}
	c.hide(&r)
	if r.Fault = telemetry.Ailment(r); r.Fault != nil {
		r.Fault.At = now
	}
	return r
}

// trouble is why the card cannot be read at all.
func (c *card) trouble(now time.Time) *telemetry.Fault {
	switch {
	case c.lost:
		return &telemetry.Fault{UUID: c.UUID, Kind: telemetry.FaultLost, Fatal: true, At: now, Text: "GPU is lost"}
	case !c.hungSince.IsZero() && now.Sub(c.hungSince) >= unreadable:
		return &telemetry.Fault{UUID: c.UUID, Kind: telemetry.FaultUnreadable, At: now, Text: "no answer for 10 s"}
	}
	return nil
}

// hide takes away the gauges the card does not have.
func (c *card) hide(r *telemetry.Reading) {
	missing := func(gauge string) bool { return slices.Contains(c.config.Missing, gauge) }
	if missing("utilization_percent") {
		r.UtilizationPercent = nil
	}
	if missing("temperature_c") {
		r.TemperatureC = nil
	}
	if missing("power_w") {
		r.PowerW = nil
	}
	if missing("energy_joules") {
		r.EnergyJoules = nil
	}
	if missing("processes") {
		r.Processes, r.ProcessesKnown = nil, false
	}
}

func rounded(v float64) *float64 {
	v = math.Round(v*10) / 10
	return &v
}
