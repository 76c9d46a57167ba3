package telemetry

import "time"

// Reading is what one device's gauges show now. A gauge the device does not have, or that could not be read, is nil.
type Reading struct {
	UUID               string   `json:"uuid"`
	UtilizationPercent *float64 `json:"utilization_percent,omitempty"`
	TemperatureC       *float64 `json:"temperature_c,omitempty"`
	PowerW             *float64 `json:"power_w,omitempty"`
	MemoryUsedMB       *int64   `json:"memory_used_mb,omitempty"`
	MemoryFreeMB       *int64   `json:"memory_free_mb,omitempty"` // what can still be allocated: total - used - reserved
	MemoryTotalMB      *int64   `json:"memory_total_mb,omitempty"`
	EnergyJoules       *float64 `json:"energy_joules,omitempty"` // counter since the driver was loaded

	// Throttle says what holds the clocks down just now, of what is worth a warning: see the Throttle constants.
	Throttle       []string `json:"throttle,omitempty"`
	ECCUncorrected *int64   `json:"ecc_uncorrected,omitempty"` // counter since the driver was loaded
	RemapPending   bool     `json:"remap_pending,omitempty"`   // memory rows wait for a reset to be replaced
	RemapFailed    bool     `json:"remap_failed,omitempty"`    // no spare rows left: the card is worn out
	RecoveryAction *int     `json:"recovery_action,omitempty"` // what the driver asks for; 0 = nothing

	Processes      []Process `json:"processes,omitempty"`
	ProcessesKnown bool      `json:"processes_known,omitempty"` // false: an empty Processes means nothing

	Fault *Fault `json:"fault,omitempty"` // what is wrong with the device now; nil when nothing is
	Err   string `json:"err,omitempty"`   // why gauges are missing that this device has had
}

// The throttle reasons worth a warning. Idle clocks and clocks a person has set are not among them.
const (
	ThrottlePowerCap        = "power_cap"         // the power limit is reached; normal under full load
	ThrottleHardware        = "hw_slowdown"       // temperature or power far out of bounds
	ThrottleThermal         = "sw_thermal"        // the driver slows the card to cool it
	ThrottleHardwareThermal = "hw_thermal"        // the card slows itself to cool down
	ThrottlePowerBrake      = "hw_power_brake"    // the machine's power supply asks for less
	ThrottleReliability     = "reliability_limit" // voltage or board limits
)

// Process is one process that holds something on a device.
type Process struct {
	PID                int      `json:"pid"`
	MemoryMB           *int64   `json:"memory_mb,omitempty"` // on this device
	UtilizationPercent *float64 `json:"utilization_percent,omitempty"`
	Graphics           bool     `json:"graphics,omitempty"` // draws rather than computes
	User               string   `json:"user,omitempty"`
	Command            string   `json:"command,omitempty"`
	Run                string   `json:"run,omitempty"` // the run of ours it belongs to; "" = foreign
}

// Foreign reports whether the process belongs to no run of ours.
func (p Process) Foreign() bool { return p.Run == "" }

// SourceHealth says how far a snapshot can be trusted.
type SourceHealth string

// The healths of a source. The zero value means OK: a source that says nothing is well.
const (
	HealthOK         SourceHealth = "ok"
	HealthSuspect    SourceHealth = "suspect"    // no answer for 2 s: readings are old
	HealthUnreadable SourceHealth = "unreadable" // no answer for 10 s, or the source cannot be started
	HealthNone       SourceHealth = "none"       // this machine has no GPU
)

// Snapshot is all devices at one instant. Readings are in the order of Devices, one for each.
type Snapshot struct {
	At       time.Time    `json:"at"`
	Devices  []Device     `json:"devices"`
	Readings []Reading    `json:"readings"`
	Health   SourceHealth `json:"health"`
	Err      string       `json:"err,omitempty"` // what an operator should know when Health is not ok
}

// Reading finds one device's reading.
func (s Snapshot) Reading(uuid string) (Reading, bool) {
	for _, r := range s.Readings {
		if r.UUID == uuid {
			return r, true
		}
	}
	return Reading{}, false
}

// Device finds one device by its UUID.
func (s Snapshot) Device(uuid string) (Device, bool) {
	for _, d := range s.Devices {
		if d.UUID == uuid {
			return d, true
		}
	}
	return Device{}, false
}
