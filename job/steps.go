package job

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// HostMemory is the memory type of a step whose arrays live in host memory; the names of [Frameworks] are the others.
const HostMemory = "numpy"

// MaxSteps is how many steps a pipeline may have.
const MaxSteps = 100

// MemoryTypes are the words for input and output of a step.
func MemoryTypes() []string { return append([]string{HostMemory}, Frameworks...) }

// IsGPUMemory reports whether arrays of that type live on a GPU.
func IsGPUMemory(kind string) bool { return slices.Contains(Frameworks, kind) }

// GPUMemory is the first of the step's memory types that lives on a GPU, "" when none does.
func (s Step) GPUMemory() string {
	for _, kind := range []string{s.Input, s.Output} {
		if IsGPUMemory(kind) {
			return kind
		}
	}
	return ""
}

// Requires are the frameworks that must see the step's GPUs: those it names and those its arrays belong to.
func (s Step) Requires() []string {
	all := slices.Clone(s.Frameworks)
	for _, kind := range []string{s.Input, s.Output} {
		if IsGPUMemory(kind) {
			all = append(all, kind)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// StepName is what step i of the pipeline is called: its name, or its place from 1.
func (s Spec) StepName(i int) string {
	if name := s.Steps[i].Name; name != "" {
		return name
	}
	return strconv.Itoa(i + 1)
}

// CommandLine is what the job runs in one line, for lists: its command, or those of its steps.
func (s Spec) CommandLine() string {
	if len(s.Steps) == 0 {
		return strings.Join(s.Command, " ")
	}
	parts := make([]string, len(s.Steps))
	for i, step := range s.Steps {
		parts[i] = strings.Join(step.Command, " ")
	}
	return strings.Join(parts, " | ")
}

// commands are everything the job will start, by where it stands in the spec.
func (s Spec) commands() map[string]Command {
	all := map[string]Command{}
	if len(s.Command) > 0 {
		all["command"] = s.Command
	}
	for i, step := range s.Steps {
		all[indexed("steps", i)+".command"] = step.Command
	}
	return all
}

func (s Spec) checkSteps(ps *problems) {
	if len(s.Steps) == 0 {
		return
	}
	if len(s.Command) > 0 {
		ps.add("steps", "and command are both given: a pipeline's commands stand in its steps")
	}
	if len(s.Steps) > MaxSteps {
		ps.add("steps", "has %d steps, at most %d are allowed", len(s.Steps), MaxSteps)
	}
	names := map[string]int{}
	for i, step := range s.Steps {
		at := indexed("steps", i)
		step.check(ps, at)
		if first, taken := names[s.StepName(i)]; taken {
			ps.add(at+".name", "%s is the name of step %d already", quoted(s.StepName(i)), first+1)
		}
		names[s.StepName(i)] = i
		if n, exact := s.Resources.GPUs.Value(); exact && n == 0 && !s.Resources.GPUs.IsZero() && step.GPUMemory() != "" {
			ps.add("resources.gpus", "0, and step %s holds %s arrays, which live on a GPU", s.StepName(i), step.GPUMemory())
		}
	}
}

func (s Step) check(ps *problems, at string) {
	if s.Name != "" {
		checkText(ps, at+".name", s.Name, MaxNameLength)
	}
	if len(s.Command) == 0 || strings.TrimSpace(s.Command[0]) == "" {
		ps.add(at+".command", "is missing: what shall the step run?")
	}
	checkChoice(ps, at+".input", s.Input, MemoryTypes())
	checkChoice(ps, at+".output", s.Output, MemoryTypes())
	for i, f := range s.Frameworks {
		if f == "" {
			ps.add(indexed(at+".frameworks", i), "is blank")
		}
		checkChoice(ps, indexed(at+".frameworks", i), f, Frameworks)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.ContainsRune(s.Env[name], 0) {
			ps.add(at+".env", "%s cannot be a variable with its value", quoted(name))
		}
	}
}
