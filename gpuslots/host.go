package gpuslots

import "github.com/berthq/berth/job"

// host counts what runs take of the machine beside GPUs.
type host struct {
	cpus     int // 0: not counted
	cpuJobs  int // 0: no limit
	memoryMB int64

	usedCPUs     int
	usedCPUJobs  int
	usedMemoryMB int64
}

func newHost(o Options) host { return host{cpus: o.CPUs, cpuJobs: o.CPUJobs, memoryMB: o.MemoryMB} }

// room says why the machine has no room for the requirements, GPUs aside.
func (h *host) room(req *job.Requirements) error {
	switch {
	case h.cpus > 0 && req.CPUs > h.cpus-h.usedCPUs:
		return refuse(Resources, "needs %s; %d of %d are free", count(req.CPUs, "CPU"), max(0, h.cpus-h.usedCPUs), h.cpus)
	case h.memoryMB > 0 && req.MemoryMB > h.memoryMB-h.usedMemoryMB:
		return refuse(Resources, "needs %d MB of host memory; %d of %d MB are not promised to others",
			req.MemoryMB, max(0, h.memoryMB-h.usedMemoryMB), h.memoryMB)
	case req.GPUs == 0 && h.cpuJobs > 0 && h.usedCPUJobs >= h.cpuJobs:
		return refuse(Resources, "%d jobs without a GPU run already, as many as there are CPUs to run them", h.usedCPUJobs)
	}
	return nil
}

func (h *host) take(req *job.Requirements) { h.add(req, 1) }
func (h *host) give(req *job.Requirements) { h.add(req, -1) }

func (h *host) add(req *job.Requirements, sign int) {
	h.usedCPUs += sign * req.CPUs
	h.usedMemoryMB += int64(sign) * req.MemoryMB
	if req.GPUs == 0 {
		h.usedCPUJobs += sign
	}
}
