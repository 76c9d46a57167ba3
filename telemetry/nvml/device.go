//go:build cgo && linux

package nvml

import (
	"fmt"
	"sync/atomic"
	"time"

	nv "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/berthq/berth/telemetry"
)

// device is one GPU or MIG device. Its unexported plain fields belong to the one reading under way.
type device struct {
	telemetry.Device
	lib    *library
	handle nv.Device
	whole  nv.Device // the GPU a MIG device is cut from, else handle itself: health is the card's

	busySince atomic.Int64 // unix nanoseconds of the reading under way, 0 = none
	renamed   atomic.Bool  // answers to another UUID than it was found under
	stale     atomic.Bool  // the driver is not the one this library was loaded for

	off       map[string]time.Time // functions this device does not support, until when not to ask
	seenUtil  uint64               // time stamp of the newest utilisation sample taken
	procUtil  map[int]usage
	inLibrary time.Duration
	reading   telemetry.Reading
	failed    bool // the device answers nothing more in this reading
}

// open is the i-th GPU, or its MIG devices when it is cut up.
func (l *library) open(i int) ([]*device, error) {
	handle, ret := l.DeviceGetHandleByIndex(i)
	if stale(ret) {
		return nil, errStale
	}
	if ret != nv.SUCCESS {
		return nil, fmt.Errorf("GPU %d cannot be opened: %w", i, ret)
	}
	d, err := l.identify(handle, handle)
	if err != nil {
		return nil, fmt.Errorf("GPU %d: %w", i, err)
	}
	d.Index = i
	parts := l.parts(d)
	if parts == nil {
		return []*device{d}, nil
	}
	return parts, nil
}

func (l *library) identify(handle, whole nv.Device) (*device, error) {
	uuid, ret := handle.GetUUID()
	if stale(ret) {
		return nil, errStale
	}
	if ret != nv.SUCCESS {
		return nil, fmt.Errorf("its UUID cannot be read: %w", ret)
	}
	d := &device{lib: l, handle: handle, whole: whole, off: map[string]time.Time{}, procUtil: map[int]usage{}}
	d.UUID, d.Driver, d.Name = uuid, l.driver, "NVIDIA GPU"
	if l.has[fnName] {
		if name, ret := handle.GetName(); ret == nv.SUCCESS {
			d.Name = name
		}
	}
	if l.has[fnPCI] {
		if pci, ret := whole.GetPciInfo(); ret == nv.SUCCESS {
			d.PCIBusID = text(pci.BusId[:])
		}
	}
	if l.has[fnMinor] {
		if minor, ret := whole.GetMinorNumber(); ret == nv.SUCCESS {
			d.Minor = &minor
		}
	}
	if l.has[fnCapability] {
		if major, minor, ret := whole.GetCudaComputeCapability(); ret == nv.SUCCESS {
			d.ComputeCapability = fmt.Sprintf("%d.%d", major, minor)
		}
	}
	if l.has[fnMemoryV2] || l.has[fnMemory] {
		d.memory()
		if d.reading.MemoryTotalMB != nil {
			d.MemoryTotalMB = *d.reading.MemoryTotalMB
		}
	}
	return d, nil
}

// parts are the MIG devices of a GPU; nil when it is not cut up. Cut up and without a part there is nothing to use.
func (l *library) parts(whole *device) []*device {
	if !l.has[fnMIGMode] || !l.has[fnMIGCount] || !l.has[fnMIGHandle] {
		return nil
	}
	if on, _, ret := whole.handle.GetMigMode(); ret != nv.SUCCESS || on == 0 {
		return nil
	}
	most, ret := whole.handle.GetMaxMigDeviceCount()
	if ret != nv.SUCCESS {
		return nil
	}
	parts := []*device{}
	for i := range most {
		handle, ret := whole.handle.GetMigDeviceHandleByIndex(i)
		if ret != nv.SUCCESS {
			continue // no instance in that place
		}
		part, err := l.identify(handle, whole.handle)
		if err != nil {
			continue
		}
		part.Index, part.Parent, part.Instance = whole.Index, whole.UUID, &i
		parts = append(parts, part)
	}
	return parts
}

// ask makes one call if the library has the function and the device supports it, and reports whether it has worked.
// What comes back is sorted into: not this device's, lost, and worth a word.
func (d *device) ask(fn string, call func() nv.Return) bool {
	if d.failed || !d.lib.has[fn] {
		return false
	}
	if until, ok := d.off[fn]; ok {
		if time.Now().Before(until) {
			return false
		}
		delete(d.off, fn)
	}
	began := time.Now()
	ret := call()
	d.inLibrary += time.Since(began)
	switch ret {
	case nv.SUCCESS:
		return true
	case nv.ERROR_NOT_SUPPORTED, nv.ERROR_NO_PERMISSION, nv.ERROR_FUNCTION_NOT_FOUND,
		nv.ERROR_ARGUMENT_VERSION_MISMATCH, nv.ERROR_INVALID_ARGUMENT: // the last: a field this driver has never heard of
		d.off[fn] = time.Now().Add(time.Minute)
	case nv.ERROR_NOT_FOUND, nv.ERROR_NO_DATA, nv.ERROR_INSUFFICIENT_SIZE: // nothing just now, or more than a moment ago
	case nv.ERROR_GPU_IS_LOST, nv.ERROR_GPU_NOT_FOUND:
		d.fail(telemetry.FaultLost, ret)
	case nv.ERROR_RESET_REQUIRED:
		d.fail(telemetry.FaultRecovery, ret)
	default:
		if stale(ret) {
			d.failed = true
			d.stale.Store(true)
		}
		if d.reading.Err == "" {
			d.reading.Err = fmt.Sprintf("%s: %s", fn, ret)
		}
	}
	return false
}

func (d *device) fail(kind telemetry.FaultKind, ret nv.Return) {
	d.failed = true
	d.reading.Err = ret.String()
	d.reading.Fault = &telemetry.Fault{UUID: d.UUID, Kind: kind, Fatal: true, At: time.Now(), Text: ret.String()}
}

func text(chars []int8) string {
	out := make([]byte, 0, len(chars))
	for _, c := range chars {
		if c == 0 {
			break
		}
		out = append(out, byte(c))
	}
	return string(out)
}
