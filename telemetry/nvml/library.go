//go:build cgo && linux

package nvml

import (
	"fmt"

	nv "github.com/NVIDIA/go-nvml/pkg/nvml"
)

// library is NVIDIA's, loaded and initialised, and what of it this driver has.
type library struct {
	nv.Interface
	driver  string
	has     map[string]bool
	missing []string
}

// wanted is every function called here beyond initialisation. With several names for one thing (a newer one, an older
// one) the alternatives are separate entries; required ones are checked in openLibrary.
var wanted = []string{
	fnCount, fnHandle, fnUUID, fnName, fnPCI, fnMinor, fnCapability, fnDriver,
	fnMemory, fnMemoryV2, fnUtilization, fnTemperature, fnTemperatureV, fnPower, fnEnergy,
	fnEventReasons, fnThrottleReasons, fnECC, fnRemapped, fnFields,
	fnCompute, fnGraphics, fnMPS, fnProcessUtil,
	fnMIGMode, fnMIGCount, fnMIGHandle,
	fnEventSet, fnEventWait, fnRegister, fnSupported,
}

const (
	fnCount           = "nvmlDeviceGetCount_v2"
	fnHandle          = "nvmlDeviceGetHandleByIndex_v2"
	fnUUID            = "nvmlDeviceGetUUID"
	fnName            = "nvmlDeviceGetName"
	fnPCI             = "nvmlDeviceGetPciInfo_v3"
	fnMinor           = "nvmlDeviceGetMinorNumber"
	fnCapability      = "nvmlDeviceGetCudaComputeCapability"
	fnDriver          = "nvmlSystemGetDriverVersion"
	fnMemory          = "nvmlDeviceGetMemoryInfo"
	fnMemoryV2        = "nvmlDeviceGetMemoryInfo_v2"
	fnUtilization     = "nvmlDeviceGetUtilizationRates"
	fnTemperature     = "nvmlDeviceGetTemperature"
	fnTemperatureV    = "nvmlDeviceGetTemperatureV"
	fnPower           = "nvmlDeviceGetPowerUsage"
	fnEnergy          = "nvmlDeviceGetTotalEnergyConsumption"
	fnEventReasons    = "nvmlDeviceGetCurrentClocksEventReasons"
	fnThrottleReasons = "nvmlDeviceGetCurrentClocksThrottleReasons"
	fnECC             = "nvmlDeviceGetTotalEccErrors"
	fnRemapped        = "nvmlDeviceGetRemappedRows"
	fnFields          = "nvmlDeviceGetFieldValues"
	fnCompute         = "nvmlDeviceGetComputeRunningProcesses_v3"
	fnGraphics        = "nvmlDeviceGetGraphicsRunningProcesses_v3"
	fnMPS             = "nvmlDeviceGetMPSComputeRunningProcesses_v3"
	fnProcessUtil     = "nvmlDeviceGetProcessUtilization"
	fnMIGMode         = "nvmlDeviceGetMigMode"
	fnMIGCount        = "nvmlDeviceGetMaxMigDeviceCount"
	fnMIGHandle       = "nvmlDeviceGetMigDeviceHandleByIndex"
	fnEventSet        = "nvmlEventSetCreate"
	fnEventWait       = "nvmlEventSetWait_v2"
	fnRegister        = "nvmlDeviceRegisterEvents"
	fnSupported       = "nvmlDeviceGetSupportedEventTypes"
)

// olderNames are functions that go-nvml falls back to by itself.
var olderNames = map[string][]string{
	fnCount:     {"nvmlDeviceGetCount"},
	fnHandle:    {"nvmlDeviceGetHandleByIndex"},
	fnPCI:       {"nvmlDeviceGetPciInfo_v2", "nvmlDeviceGetPciInfo"},
	fnCompute:   {"nvmlDeviceGetComputeRunningProcesses_v2", "nvmlDeviceGetComputeRunningProcesses"},
	fnGraphics:  {"nvmlDeviceGetGraphicsRunningProcesses_v2", "nvmlDeviceGetGraphicsRunningProcesses"},
	fnMPS:       {"nvmlDeviceGetMPSComputeRunningProcesses_v2", "nvmlDeviceGetMPSComputeRunningProcesses"},
	fnEventWait: {"nvmlEventSetWait"},
}

// openLibrary loads and initialises. The errors are the ones operators meet.
func openLibrary(path string) (*library, error) {
	var opts []nv.LibraryOption
	if path != "" {
		opts = append(opts, nv.WithLibraryPath(path))
	}
	lib := &library{Interface: nv.New(opts...), has: map[string]bool{}}
	switch ret := lib.Init(); ret {
	case nv.SUCCESS:
	case nv.ERROR_LIBRARY_NOT_FOUND:
		return nil, fmt.Errorf("libnvidia-ml.so.1 not found: no NVIDIA driver is installed here (or, in a container, not passed in)")
	case nv.ERROR_DRIVER_NOT_LOADED:
		return nil, fmt.Errorf("the NVIDIA driver is installed but not loaded: try nvidia-smi, then modprobe nvidia")
	case nv.ERROR_LIB_RM_VERSION_MISMATCH:
		return nil, fmt.Errorf("the NVIDIA library and the loaded driver differ: the driver was upgraded; reboot, or reload it")
	default:
		return nil, fmt.Errorf("nvmlInit: %w (%d)", ret, int(ret))
	}
	lib.look()
	for _, name := range []string{fnCount, fnHandle, fnUUID} {
		if !lib.has[name] {
			return nil, fmt.Errorf("this NVML library lacks %s: the driver is too old to be used", name)
		}
	}
	if lib.has[fnDriver] {
		if version, ret := lib.SystemGetDriverVersion(); ret == nv.SUCCESS {
			lib.driver = version
		}
	}
	return lib, nil
}

// look finds out what the library has. Calling what it does not have would end the process.
func (l *library) look() {
	exists := func(name string) bool { return l.Extensions().LookupSymbol(name) == nil }
	for _, name := range wanted {
		found := exists(name)
		for _, older := range olderNames[name] {
			found = found || exists(older)
		}
		l.has[name] = found
		if !found {
			l.missing = append(l.missing, name)
		}
	}
}
