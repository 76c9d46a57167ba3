//go:build cgo && linux

package nvml

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	nv "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/berthq/berth/telemetry"
)

// reader reads all devices of a library, one after the other, and does not wait for one that hangs.
type reader struct {
	lib      *library
	devices  []*device
	known    atomic.Pointer[[]*device] // the same, for the goroutine of events
	count    int
	renewed  bool // enumerated since the list was last said
	problems []string
	library  atomic.Int64 // nanoseconds in the library for the snapshot under way
}

func (r *reader) list() []telemetry.Device {
	out := make([]telemetry.Device, len(r.devices))
	for i, d := range r.devices {
		out[i] = d.Device
	}
	return out
}

// enumerate finds the devices. One that cannot be opened now but was known stays: it is lost, not gone.
func (r *reader) enumerate() error {
	count, ret := r.lib.DeviceGetCount()
	if ret != nv.SUCCESS {
		return fmt.Errorf("count the GPUs: %w", ret)
	}
	before := map[int][]*device{}
	for _, d := range r.devices {
		before[d.Index] = append(before[d.Index], d)
	}
	r.devices, r.problems, r.count, r.renewed = nil, nil, count, true
	for i := range count {
		found, err := r.lib.open(i)
		if errors.Is(err, errStale) {
			return err
		}
		if err != nil {
			r.problems = append(r.problems, err.Error())
			found = before[i]
		}
		r.devices = append(r.devices, found...)
	}
	known := r.devices
	r.known.Store(&known)
	return nil
}

// changed reports whether the machine is another than the one enumerated. Real libraries fix it at initialisation;
// they have been seen not to.
func (r *reader) changed() (bool, error) {
	count, ret := r.lib.DeviceGetCount()
	if stale(ret) {
		return false, errStale
	}
	if ret == nv.SUCCESS && count != r.count {
		return true, nil
	}
	for _, d := range r.devices {
		if d.renamed.Load() {
			return true, nil
		}
	}
	return false, nil
}

// stale are the codes of a library whose driver is not there any more; only a new process helps.
func stale(ret nv.Return) bool {
	return ret == nv.ERROR_UNINITIALIZED || ret == nv.ERROR_DRIVER_NOT_LOADED || ret == nv.ERROR_LIB_RM_VERSION_MISMATCH
}

// snapshot reads every device. The error means that this process is of no more use.
func (r *reader) snapshot() (telemetry.Snapshot, error) {
	r.library.Store(0)
	changed, err := r.changed()
	if err == nil && changed {
		err = r.enumerate()
	}
	if err != nil {
		return telemetry.Snapshot{}, err
	}
	snap := telemetry.Snapshot{Devices: r.list(), Readings: make([]telemetry.Reading, len(r.devices))}
	end := time.Now().Add(snapshotLimit)
	for i, d := range r.devices {
		limit := max(min(deviceLimit, time.Until(end)), time.Millisecond)
		snap.Readings[i] = r.readWithin(d, limit)
	}
	for _, d := range r.devices {
		if d.stale.Load() {
			return telemetry.Snapshot{}, errStale
		}
	}
	return snap, nil
}

// readWithin reads one device, or says that it hangs: then its call is left to return when it can, and nothing more is
// asked of the device until it has.
func (r *reader) readWithin(d *device, limit time.Duration) telemetry.Reading {
	if since := d.busySince.Load(); since != 0 {
		return hanging(d, time.Since(time.Unix(0, since)))
	}
	began := time.Now()
	d.busySince.Store(began.UnixNano())
	done := make(chan telemetry.Reading, 1)
	go func() {
		reading := d.read()
		r.library.Add(int64(d.inLibrary))
		d.busySince.Store(0)
		done <- reading
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case reading := <-done:
		return reading
	case <-timer.C:
		return hanging(d, time.Since(began))
	}
}

// The same limits as for the whole library.
const unreadableAfter = 10 * time.Second

func hanging(d *device, since time.Duration) telemetry.Reading {
	r := telemetry.Reading{UUID: d.UUID, Err: fmt.Sprintf("the driver has not answered for this GPU for %s", since.Round(100*time.Millisecond))}
	if since >= unreadableAfter {
		r.Fault = &telemetry.Fault{UUID: d.UUID, Kind: telemetry.FaultUnreadable, At: time.Now(), Text: r.Err}
	}
	return r
}
