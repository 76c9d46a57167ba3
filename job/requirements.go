package job

// Requirements are what one attempt needs of a machine, exactly, with the reason. All memory is MiB.
type Requirements struct {
	GPUs          int               `json:"gpus"`
	GPUMemoryMB   int64             `json:"gpu_memory_mb,omitempty"` // per GPU; 0 = no promise (whole card when exclusive)
	Share         Share             `json:"share,omitempty"`         // "" = exclusive
	Slots         int               `json:"slots,omitempty"`         // per GPU when shared; 0 = 1
	GPUModels     []string          `json:"gpu_models,omitempty"`
	MinCapability string            `json:"min_capability,omitempty"`
	GPUIDs        []string          `json:"gpu_ids,omitempty"` // UUIDs or indexes
	Balanced      bool              `json:"balanced,omitempty"`
	CPUs          int               `json:"cpus,omitempty"`
	MemoryMB      int64             `json:"memory_mb,omitempty"` // host memory
	Frameworks    []string          `json:"frameworks,omitempty"`
	Constraints   map[string]string `json:"constraints,omitempty"` // machine labels
	Machine       string            `json:"machine,omitempty"`
	Container     bool              `json:"container,omitempty"` // runs in an image: the machine needs a container engine

	WorldSize int    `json:"world_size,omitempty"` // tp x pp x ..., as estimated
	Model     string `json:"model,omitempty"`
	Method    string `json:"method,omitempty"` // explicit, autotuner, vllm, ...
	Why       string `json:"why,omitempty"`
}

// IsShared reports whether the job tolerates others on its GPUs.
func (r Requirements) IsShared() bool { return r.Share == Shared }
