//go:build cgo && linux

package nvml

import (
	"encoding/binary"
	"fmt"
	"time"

	nv "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/berthq/berth/telemetry"
)

// read asks everything of a device. A library that answers what cannot be (more processes than it has room for, say)
// makes go-nvml panic: then this reading is lost, and nothing else.
func (d *device) read() (r telemetry.Reading) {
	d.reading, d.failed, d.inLibrary = telemetry.Reading{UUID: d.UUID}, false, 0
	defer func() {
		if nonsense := recover(); nonsense != nil {
			r = telemetry.Reading{UUID: d.UUID, Err: fmt.Sprintf("the library answered nonsense: %v", nonsense)}
		}
	}()
	d.identity()
	d.memory()
	d.load()
	d.health()
	d.processes()
	if d.failed && d.reading.Fault != nil { // a lost card's last words are worth nothing
		return telemetry.Reading{UUID: d.UUID, Err: d.reading.Err, Fault: d.reading.Fault}
	}
	return d.reading
}

// identity makes sure that the handle still means the same card.
func (d *device) identity() {
	var uuid string
	asked := d.ask(fnUUID, func() (ret nv.Return) { uuid, ret = d.handle.GetUUID(); return })
	if !asked || uuid == d.UUID {
		return
	}
	d.renamed.Store(true)
	text := fmt.Sprintf("the driver calls this GPU %s now", uuid)
	d.failed = true
	d.reading.Err = text
	d.reading.Fault = &telemetry.Fault{UUID: d.UUID, Kind: telemetry.FaultLost, Fatal: true, At: time.Now(), Text: text}
}

// memory reads version 2, where the driver's reserve is neither used nor free, else version 1.
func (d *device) memory() {
	var v2 nv.Memory_v2
	if d.ask(fnMemoryV2, func() (ret nv.Return) { v2, ret = d.handle.GetMemoryInfo_v2(); return }) {
		d.setMemory(v2.Total, v2.Used, v2.Free)
		return
	}
	var v1 nv.Memory
	if d.ask(fnMemory, func() (ret nv.Return) { v1, ret = d.handle.GetMemoryInfo(); return }) {
		d.setMemory(v1.Total, v1.Used, v1.Free)
	}
}

func (d *device) setMemory(total, used, free uint64) {
	d.reading.MemoryTotalMB, d.reading.MemoryUsedMB, d.reading.MemoryFreeMB = mib(total), mib(used), mib(free)
}

// load reads how busy and how warm.
func (d *device) load() {
	r := &d.reading
	if d.Parent == "" { // a MIG device has none of its own
		var u nv.Utilization
		if d.ask(fnUtilization, func() (ret nv.Return) { u, ret = d.handle.GetUtilizationRates(); return }) {
			r.UtilizationPercent = float(float64(u.Gpu))
		}
		var milliwatts uint32
		if d.ask(fnPower, func() (ret nv.Return) { milliwatts, ret = d.handle.GetPowerUsage(); return }) {
			r.PowerW = float(float64(milliwatts) / 1000)
		}
		var millijoules uint64
		if d.ask(fnEnergy, func() (ret nv.Return) { millijoules, ret = d.handle.GetTotalEnergyConsumption(); return }) {
			r.EnergyJoules = float(float64(millijoules) / 1000)
		}
	}
	var celsius uint32
	if d.ask(fnTemperature, func() (ret nv.Return) { celsius, ret = d.whole.GetTemperature(nv.TEMPERATURE_GPU); return }) {
		r.TemperatureC = float(float64(int32(celsius)))
	} else if !d.lib.has[fnTemperature] {
		var t nv.Temperature
		if d.ask(fnTemperatureV, func() (ret nv.Return) { t, ret = d.whole.GetTemperatureV().V1(); return }) {
			r.TemperatureC = float(float64(t.Temperature))
		}
	}
	d.throttle()
}

func (d *device) throttle() {
	var bits uint64
	ok := d.ask(fnEventReasons, func() (ret nv.Return) { bits, ret = d.whole.GetCurrentClocksEventReasons(); return })
	if !ok && !d.lib.has[fnEventReasons] {
		ok = d.ask(fnThrottleReasons, func() (ret nv.Return) { bits, ret = d.whole.GetCurrentClocksThrottleReasons(); return })
	}
	if !ok {
		return
	}
	for _, reason := range throttleReasons {
		if bits&reason.bits != 0 {
			d.reading.Throttle = append(d.reading.Throttle, reason.name)
		}
	}
}

var throttleReasons = []struct {
	bits uint64
	name string
}{
	{0x4, telemetry.ThrottlePowerCap},
	{0x8, telemetry.ThrottleHardware},
	{0x20, telemetry.ThrottleThermal},
	{0x40, telemetry.ThrottleHardwareThermal},
	{0x80, telemetry.ThrottlePowerBrake},
	{0x200 | 0x400, telemetry.ThrottleReliability},
}

// health reads what may take the card out of service. The order of the checks is the order of their weight.
func (d *device) health() {
	r := &d.reading
	var errors uint64
	if d.ask(fnECC, func() (ret nv.Return) {
		errors, ret = d.whole.GetTotalEccErrors(nv.MEMORY_ERROR_TYPE_UNCORRECTED, nv.VOLATILE_ECC)
		return
	}) {
		n := int64(errors)
		r.ECCUncorrected = &n
	}
	d.ask(fnRemapped, func() (ret nv.Return) {
		_, _, r.RemapPending, r.RemapFailed, ret = d.whole.GetRemappedRows()
		return
	})
	fields := []nv.FieldValue{{FieldId: nv.FI_DEV_GET_GPU_RECOVERY_ACTION}}
	if d.ask(fnFields, func() nv.Return {
		if ret := d.whole.GetFieldValues(fields); ret != nv.SUCCESS {
			return ret
		}
		return nv.Return(fields[0].NvmlReturn)
	}) {
		action := int(binary.NativeEndian.Uint32(fields[0].Value[:4]))
		r.RecoveryAction = &action
	}
	if d.failed {
		return
	}
	if text := telemetry.Ailment(*r); text != nil {
		text.At = time.Now()
		r.Fault = text
	}
}

func float(v float64) *float64 { return &v }

func mib(bytes uint64) *int64 {
	n := int64(bytes >> 20)
	return &n
}
