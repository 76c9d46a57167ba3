package telemetry

import "strconv"

// Device is one GPU, or one MIG instance of a GPU, as it was found. It does not change while the machine runs.
type Device struct {
	UUID              string `json:"uuid"`
	Index             int    `json:"index"` // for people; a MIG device has its parent's
	Name              string `json:"name"`
	MemoryTotalMB     int64  `json:"memory_total_mb"`
	ComputeCapability string `json:"compute_capability,omitempty"` // "9.0"
	PCIBusID          string `json:"pci_bus_id,omitempty"`
	Minor             *int   `json:"minor,omitempty"`    // of its device file /dev/nvidia<minor>; a MIG device has its parent's
	Parent            string `json:"parent,omitempty"`   // UUID of the GPU a MIG device is cut from
	Instance          *int   `json:"instance,omitempty"` // which one of its parent's MIG devices
	Driver            string `json:"driver,omitempty"`
}

// Key is the device's name in a result's gpu_stats: its index, or "index.instance" for a MIG device.
func (d Device) Key() string {
	if d.Instance == nil {
		return strconv.Itoa(d.Index)
	}
	return strconv.Itoa(d.Index) + "." + strconv.Itoa(*d.Instance)
}
