package telemetry

import (
	"fmt"
	"time"
)

// FaultKind says what sort of thing went wrong.
type FaultKind string

// The kinds of faults.
const (
	FaultXID        FaultKind = "xid"        // the driver reported an error, by number
	FaultECC        FaultKind = "ecc"        // memory errors that could not be corrected, or no spare rows left
	FaultLost       FaultKind = "lost"       // the device fell off the bus, or is listed no more
	FaultRecovery   FaultKind = "recovery"   // the driver asks for a reset or a reboot
	FaultUnreadable FaultKind = "unreadable" // no answer for 10 s
)

// Fault is something wrong with a device: an event on [Source.Faults], or a state in [Reading.Fault].
type Fault struct {
	UUID  string    `json:"uuid"` // "" = could not be attributed: every device is meant
	Kind  FaultKind `json:"kind"`
	XID   int       `json:"xid,omitempty"`
	Fatal bool      `json:"fatal"` // the device, not the program: it should leave service
	At    time.Time `json:"at"`
	Text  string    `json:"text"`
}

func (f Fault) String() string {
	where := f.UUID
	if where == "" {
		where = "every GPU (the fault names none)"
	}
	return fmt.Sprintf("%s: %s", where, f.Text)
}

// NewXID is the fault that an XID of that number is.
func NewXID(uuid string, xid int, at time.Time) Fault {
	return Fault{UUID: uuid, Kind: FaultXID, XID: xid, Fatal: FatalXID(xid), At: at, Text: xidText(xid)}
}

// FatalXID reports whether an XID is the card's fault rather than the program's. Unknown ones are: a card is put
// back in service by a probe, a run that a broken card has eaten is not.
func FatalXID(xid int) bool {
	switch xid {
	case 13, 31, 43, 45, 68, 109: // the program did it, or was ended because of what it did
		return false
	case 92, 154: // news, not damage: many corrected errors; the recovery action has changed (it is read itself)
		return false
	}
	return true
}

// xidNames are the ones an operator meets; NVIDIA's list has the rest.
var xidNames = map[int]string{
	13:  "graphics engine exception (usually the program)",
	31:  "memory page fault (usually the program)",
	43:  "the program's channel was stopped",
	45:  "the program was ended while it used the GPU",
	46:  "the GPU stopped processing",
	48:  "double-bit memory error",
	61:  "internal micro-controller breakpoint",
	62:  "internal micro-controller halt",
	63:  "memory row remapping recorded",
	64:  "memory row remapping failed",
	68:  "video processor exception",
	74:  "NVLink error",
	78:  "vGPU start failed",
	79:  "the GPU has fallen off the bus",
	81:  "VGA subsystem error",
	92:  "many corrected memory errors",
	94:  "contained memory error",
	95:  "uncontained memory error",
	109: "context switch timed out",
	110: "security fault",
	119: "the GPU's system processor timed out",
	120: "the GPU's system processor failed",
	121: "chip-to-chip link error",
	123: "power management unit failed",
	140: "unrecovered memory error",
	143: "GPU initialisation failed",
	154: "the recovery action has changed",
}

func xidText(xid int) string {
	if name, ok := xidNames[xid]; ok {
		return fmt.Sprintf("XID %d, %s", xid, name)
	}
	return fmt.Sprintf("XID %d", xid)
}

// recoveryNames are the driver's recovery actions by number.
var recoveryNames = []string{
	"nothing", "a GPU reset", "a reboot of the machine", "draining its peer-to-peer traffic",
	"draining and a GPU reset", "a restart of IMEX", "a bus reset", "a reboot of the system",
}

func recoveryText(action int) string {
	if action >= 0 && action < len(recoveryNames) {
		return "the driver asks for " + recoveryNames[action]
	}
	return fmt.Sprintf("the driver asks for recovery action %d", action)
}

// Ailment is the fault that a reading's own gauges show, nil when they show none: a recovery action the driver asks
// for, or no spare memory rows left. Uncorrected memory errors are faults when they grow, which takes two readings.
func Ailment(r Reading) *Fault {
	switch {
	case r.RecoveryAction != nil && *r.RecoveryAction != 0:
		return &Fault{UUID: r.UUID, Kind: FaultRecovery, Fatal: true, Text: recoveryText(*r.RecoveryAction)}
	case r.RemapFailed:
		return &Fault{UUID: r.UUID, Kind: FaultECC, Fatal: true, Text: "a broken memory row could not be replaced: the card is worn out"}
	}
	return nil
}
