package submit

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/job"
)

// wishes says in words what a task asks for: "2 GPUs with 20 GiB each, 8 cores".
func wishes(r job.Requirements) string {
	if r.GPUs == 0 {
		return "CPU only" + rest(r)
	}
	s := screen.Plural(r.GPUs, "GPU")
	if len(r.GPUModels) > 0 {
		s += " (" + strings.Join(r.GPUModels, " or ") + ")"
	}
	if r.GPUMemoryMB > 0 {
		s += " with " + screen.Memory(r.GPUMemoryMB)
		if r.GPUs > 1 {
			s += " each"
		}
	}
	if r.IsShared() {
		s += ", shared"
	}
	if r.MinCapability != "" {
		s += ", capability " + r.MinCapability + " or better"
	}
	if len(r.GPUIDs) > 0 {
		s += ", of " + strings.Join(r.GPUIDs, ", ")
	}
	return s + rest(r)
}

// rest is what is asked of the machine beside its GPUs.
func rest(r job.Requirements) string {
	var parts []string
	if r.CPUs > 0 {
		parts = append(parts, screen.Plural(r.CPUs, "core"))
	}
	if r.MemoryMB > 0 {
		parts = append(parts, screen.Memory(r.MemoryMB)+" of host memory")
	}
	if len(r.Frameworks) > 0 {
		parts = append(parts, strings.Join(r.Frameworks, " and "))
	}
	if r.Container {
		parts = append(parts, "in a container")
	}
	for _, k := range slices.Sorted(maps.Keys(r.Constraints)) {
		parts = append(parts, k+"="+r.Constraints[k])
	}
	if r.Machine != "" {
		parts = append(parts, "on "+r.Machine)
	}
	if len(parts) == 0 {
		return ""
	}
	return ", " + strings.Join(parts, ", ")
}

// whole says what the job asks for, tasks included.
func whole(j job.Job) string {
	s := wishes(j.Requirements)
	if j.Tasks == nil {
		return s
	}
	if len(j.Tasks.Requirements) > 0 {
		s = "of different sizes"
	}
	return fmt.Sprintf("%s, each %s", screen.Plural(j.Tasks.Count, "task"), s)
}
