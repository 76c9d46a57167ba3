//go:build cgo && linux

package nvml

import (
	"time"

	nv "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/berthq/berth/telemetry"
)

const (
	eventDoubleBitECC = 0x2
	eventXID          = 0x8
)

// register asks for XIDs and memory errors of all devices. nil: the library has no events, or no device has any, and
// there is what the readings show.
func (l *library) register(r *reader) nv.EventSet {
	for _, fn := range []string{fnEventSet, fnEventWait, fnRegister, fnSupported} {
		if !l.has[fn] {
			return nil
		}
	}
	set, ret := l.EventSetCreate()
	if ret != nv.SUCCESS {
		return nil
	}
	registered := 0
	for _, d := range r.devices {
		supported, ret := d.whole.GetSupportedEventTypes()
		if ret != nv.SUCCESS {
			continue
		}
		if types := supported & (eventDoubleBitECC | eventXID); types != 0 && d.whole.RegisterEvents(types, set) == nv.SUCCESS {
			registered++
		}
	}
	if registered == 0 {
		return nil
	}
	return set
}

// events waits for as long as the process lives.
func (r *reader) events(set nv.EventSet, tell func(telemetry.Fault)) {
	pause := time.Second
	for {
		event, ret := set.Wait(5000)
		switch ret {
		case nv.SUCCESS:
			pause = time.Second
			for _, f := range r.faults(event, time.Now()) {
				tell(f)
			}
		case nv.ERROR_TIMEOUT:
		default: // a lost device answers at once, for ever
			time.Sleep(pause)
			pause = min(2*pause, 30*time.Second)
		}
	}
}

// faults are what one event means: one for each device of the card it names, one for no device when it names none.
func (r *reader) faults(e nv.EventData, at time.Time) []telemetry.Fault {
	fault := telemetry.NewXID("", int(e.EventData), at)
	if e.EventType&eventXID == 0 {
		fault = telemetry.Fault{Kind: telemetry.FaultECC, Fatal: true, At: at, Text: "a memory error that could not be corrected"}
	}
	var out []telemetry.Fault
	for _, d := range *r.known.Load() {
		if d.whole == e.Device {
			fault.UUID = d.UUID
			out = append(out, fault)
		}
	}
	if out == nil {
		out = append(out, fault)
	}
	return out
}
