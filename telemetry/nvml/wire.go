package nvml

import "github.com/berthq/berth/telemetry"

// request is one line from the source to its probe.
type request struct {
	ID uint64 `json:"id"`
}

// answer is one line from the probe: hello first, then one for each request, and faults between them as they happen.
type answer struct {
	ID       uint64              `json:"id,omitempty"`
	Hello    *hello              `json:"hello,omitempty"`
	Snapshot *telemetry.Snapshot `json:"snapshot,omitempty"` // without devices when they are as last said
	Fault    *telemetry.Fault    `json:"fault,omitempty"`
	Library  int64               `json:"library_ns,omitempty"` // time spent in the library for this snapshot
}

// hello says what the probe found, or why it found nothing.
type hello struct {
	Driver   string             `json:"driver,omitempty"`
	Devices  []telemetry.Device `json:"devices,omitempty"`
	Missing  []string           `json:"missing,omitempty"`  // functions this driver's library lacks
	Problems []string           `json:"problems,omitempty"` // devices that are there and cannot be used
	Err      string             `json:"err,omitempty"`
}
