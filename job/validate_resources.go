package job

import (
	"regexp"
	"slices"
	"strings"
)

// Frameworks are the GPU libraries a job may ask a machine for.
var Frameworks = []string{"torch", "cupy", "tensorflow", "jax", "pyclesperanto"}

// capability is a compute capability such as 8.0.
var capability = regexp.MustCompile(`^[0-9]{1,2}\.[0-9]$`)

func (s Spec) checkResources(ps *problems) {
	r := s.Resources
	checkList(ps, "resources.gpu_models", r.GPUModels)
	checkList(ps, "resources.gpu_ids", r.GPUIDs)
	checkChoice(ps, "resources.share", string(r.Share), []string{string(Exclusive), string(Shared)})
	if r.Machine != "" {
		checkText(ps, "resources.machine", r.Machine, MaxNameLength)
	}
	if r.MinCapability != "" && !capability.MatchString(r.MinCapability) {
		ps.add("resources.min_capability", "%s: want a compute capability such as 8.0", quoted(r.MinCapability))
	}
	for i, f := range r.Frameworks {
		if !slices.Contains(Frameworks, f) {
			ps.add(indexed("resources.frameworks", i), "%s: want one of %s%s", quoted(f), strings.Join(Frameworks, ", "), didYouMean(f, Frameworks))
		}
	}
	if r.CPUs < 0 || r.CPUs > maxCount {
		ps.add("resources.cpus", "%d: want 1 to %d, or leave it out", r.CPUs, maxCount)
	}
	if r.Memory.IsAuto() {
		ps.add("resources.memory", "auto is for gpu_memory: give the host memory a size, or leave it out")
	}
	s.checkGPUs(ps)
}

// checkGPUs refuses wishes for GPUs that contradict each other.
func (s Spec) checkGPUs(ps *problems) {
	r := s.Resources
	n, exact := r.GPUs.Value()
	if wish := r.gpuWish(); wish != "" && !s.mayHaveGPUs() {
		ps.add("resources."+wish, "is about GPUs, and the job asks for none: add gpus: 1, or leave it out")
		return
	}
	if exact && len(r.GPUIDs) > 0 && n > len(r.GPUIDs) {
		ps.add("resources.gpu_ids", "names %d, and the job asks for %d", len(r.GPUIDs), n)
	}
	if twice := repeatedText(r.GPUIDs); twice != "" {
		ps.add("resources.gpu_ids", "names %s twice", twice)
	}
	if r.Slots < 0 || r.Slots > maxCount {
		ps.add("resources.slots", "%d: want 1 or more", r.Slots)
	} else if r.Slots > 0 && r.Share != Shared {
		ps.add("resources.slots", "is for share: shared; an exclusive job has the whole GPU")
	}
	if r.Balanced && exact && n == 1 {
		ps.add("resources.balanced", "compares GPUs with each other, and the job asks for one")
	}
}

// mayHaveGPUs is false for a job that certainly runs without a GPU.
func (s Spec) mayHaveGPUs() bool {
	n, exact := s.Resources.GPUs.Value()
	if exact {
		return n > 0
	}
	return s.Resources.GPUs.IsAuto() || s.impliesGPUs()
}

// impliesGPUs reports whether the spec asks for GPUs without giving a number: the estimator then finds one. A matrix may.
func (s Spec) impliesGPUs() bool {
	r := s.Resources
	return s.Model != nil || len(s.Parameters) > 0 || len(s.Steps) > 0 || s.Engine != "" || len(s.Matrix) > 0 || len(s.Points) > 0 ||
		!r.GPUMemory.IsZero() || len(r.GPUModels) > 0 || len(r.GPUIDs) > 0 || r.MinCapability != ""
}

// gpuWish is the first field that makes sense only with a GPU.
func (r Resources) gpuWish() string {
	mb, exact := r.GPUMemory.MB()
	wishes := []struct {
		field string
		given bool
	}{
		{"gpu_memory", r.GPUMemory.IsAuto() || exact && mb > 0},
		{"gpu_models", len(r.GPUModels) > 0},
		{"min_capability", r.MinCapability != ""},
		{"gpu_ids", len(r.GPUIDs) > 0},
		{"share", r.Share == Shared},
		{"slots", r.Slots > 0},
		{"balanced", r.Balanced},
	}
	for _, w := range wishes {
		if w.given {
			return w.field
		}
	}
	return ""
}

func repeatedText(list []string) string {
	for i, s := range list {
		if slices.Contains(list[:i], s) {
			return s
		}
	}
	return ""
}
