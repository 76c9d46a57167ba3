package frameworks

import (
	"strconv"
	"strings"

	"github.com/berthq/berth/telemetry"
)

// sighting is a device as a framework names it: by some of these.
type sighting struct {
	UUID  string `json:"uuid"`
	PCI   string `json:"pci"`
	Index *int   `json:"index"`
	Name  string `json:"name"`
}

// match finds the devices that were seen, in the devices' order. A UUID decides, then the PCI address, then the index
// (probes run with CUDA_DEVICE_ORDER=PCI_BUS_ID, so it is the driver's), then the name: of two cards with one name the
// first one is taken first.
//
// A CUDA process sees at most one MIG device of a machine. So one seen stands for all.
func match(devices []telemetry.Device, seen []sighting) []string {
	taken := make([]bool, len(devices))
	mig := false
	for _, s := range seen {
		i := find(devices, taken, s)
		if i < 0 {
			continue
		}
		taken[i] = true
		mig = mig || devices[i].Parent != ""
	}
	var out []string
	for i, d := range devices {
		if taken[i] || (mig && d.Parent != "") {
			out = append(out, d.UUID)
		}
	}
	return out
}

func find(devices []telemetry.Device, taken []bool, s sighting) int {
	same := sameName
	switch {
	case s.UUID != "" && indexOf(devices, taken, s, sameUUID) >= 0:
		same = sameUUID
	case s.PCI != "":
		same = samePCI
	case s.UUID != "":
		return -1 // it names a card that is not ours
	case s.Index != nil:
		same = sameIndex
	}
	return indexOf(devices, taken, s, same)
}

func indexOf(devices []telemetry.Device, taken []bool, s sighting, same func(telemetry.Device, sighting) bool) int {
	for i, d := range devices {
		if !taken[i] && same(d, s) {
			return i
		}
	}
	return -1
}

func sameUUID(d telemetry.Device, s sighting) bool {
	return bareUUID(d.UUID) == bareUUID(s.UUID)
}

// bareUUID drops NVML's prefix, which PyTorch does not write.
func bareUUID(uuid string) string {
	uuid = strings.ToLower(uuid)
	for _, prefix := range []string{"gpu-", "mig-"} {
		uuid = strings.TrimPrefix(uuid, prefix)
	}
	return uuid
}

func samePCI(d telemetry.Device, s sighting) bool {
	a, okA := parsePCI(d.PCIBusID)
	b, okB := parsePCI(s.PCI)
	return okA && okB && a == b
}

// pci is an address on the bus. The function is left out: a GPU's is always 0, and PyTorch does not know it.
type pci struct{ domain, bus, device uint64 }

// parsePCI reads NVML's "00000000:3B:00.0" and CUDA's "0000:3b:00.0".
func parsePCI(s string) (pci, bool) {
	address, _, _ := strings.Cut(s, ".")
	part := strings.Split(address, ":")
	if len(part) != 3 {
		return pci{}, false
	}
	var n [3]uint64
	for i, p := range part {
		v, err := strconv.ParseUint(p, 16, 32)
		if err != nil {
			return pci{}, false
		}
		n[i] = v
	}
	return pci{n[0], n[1], n[2]}, true
}

func sameIndex(d telemetry.Device, s sighting) bool { return d.Index == *s.Index }

func sameName(d telemetry.Device, s sighting) bool { return s.Name != "" && d.Name == s.Name }
