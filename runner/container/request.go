package container

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
)

// Labels of every container of ours.
const (
	LabelRun   = "berth.run"   // "number[.index].attempt"
	LabelStore = "berth.store" // the worker's
)

// cdiKind is the class under which NVIDIA's toolkit describes GPUs.
const cdiKind = "nvidia.com/gpu"

// oomScore makes the job go before the services of the machine, as for a process.
const oomScore = 500

// request puts a plan into the engine's words.
func request(p Plan) client.ContainerCreateOptions {
	yes := true
	host := &container.HostConfig{
		Binds: p.Volumes, GroupAdd: p.Groups, NetworkMode: container.NetworkMode(p.Network), ShmSize: p.ShmMB << 20,
		OomScoreAdj: oomScore, Init: &yes, SecurityOpt: []string{"no-new-privileges"},
		LogConfig: container.LogConfig{Type: "none"}, // the shim's spool keeps it; a second copy would have no limit
		Resources: container.Resources{DeviceRequests: devices(p.GPUs, p.GPUMethod)},
	}
	if p.MemoryMB > 0 {
		host.Memory, host.MemorySwap = p.MemoryMB<<20, p.MemoryMB<<20 // no swap beyond it
	}
	if p.CPUs > 0 {
		host.CPUShares = int64(p.CPUs) * 1024 // a weight: idle cores may be used
	}
	return client.ContainerCreateOptions{
		Name: nameOf(p),
		Config: &container.Config{
			Image: p.Image, Cmd: p.Command, Env: environment(p), WorkingDir: p.Workdir, User: p.User,
			AttachStdout: true, AttachStderr: true, StopSignal: p.Stop,
			Labels: labels(p),
		},
		HostConfig: host,
	}
}

// devices asks for exactly these GPUs, by UUID.
func devices(uuids []string, by GPUMethod) []container.DeviceRequest {
	if len(uuids) == 0 {
		return nil
	}
	if by == Capability {
		return []container.DeviceRequest{{DeviceIDs: slices.Clone(uuids), Capabilities: [][]string{{"gpu"}}}}
	}
	ids := make([]string, len(uuids))
	for i, uuid := range uuids {
		ids[i] = cdiName(uuid)
	}
	return []container.DeviceRequest{{Driver: "cdi", DeviceIDs: ids}}
}

func cdiName(uuid string) string { return cdiKind + "=" + uuid }

// environment leaves out what names GPUs for a process: the container has its own and no others, and a UUID that is
// hidden from it would hide them all. NVIDIA_VISIBLE_DEVICES is what a runtime hook reads: images say "all" there, which
// must not give a job the GPUs of others. It is void, unless the engine itself writes the UUIDs for the hook.
func environment(p Plan) []string {
	env := slices.DeleteFunc(slices.Clone(p.Env), func(entry string) bool {
		key, _, _ := strings.Cut(entry, "=")
		return key == "CUDA_VISIBLE_DEVICES" || key == "NVIDIA_VISIBLE_DEVICES" || key == "CUDA_DEVICE_ORDER"
	})
	if len(p.GPUs) == 0 || p.GPUMethod == CDI {
		env = append(env, "NVIDIA_VISIBLE_DEVICES=void")
	}
	return env
}

func labels(p Plan) map[string]string {
	all := map[string]string{}
	maps.Copy(all, p.Labels)
	all[LabelRun], all[LabelStore] = p.Run, p.Store
	return all
}

// nameOf is for people; the labels are what counts. Two workers of one machine may have runs of one number.
func nameOf(p Plan) string {
	sum := sha256.Sum256([]byte(p.Store))
	return "berth-" + p.Run + "-" + hex.EncodeToString(sum[:3])
}
