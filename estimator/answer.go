package estimator

import "github.com/berthq/berth/job"

// The methods an answer names beside the engines' and launchers' own names.
const (
	MethodExplicit  = "explicit"  // resources.gpus
	MethodAutotuner = "autotuner" // the compatible rule
	MethodComputed  = "computed"  // GPUs by the rule, memory from the model's config
	MethodPipeline  = "pipeline"  // steps share one GPU
	MethodDefault   = "default"   // nothing asked for: no GPU
)

// Answer is what a job needs, and why. Its JSON is what `berth estimate -o json` prints.
type Answer struct {
	GPUs        int    `json:"gpus"`
	GPUMemoryMB int64  `json:"gpu_memory_mb"` // per GPU; 0: no promise
	Method      string `json:"method"`
	Why         string `json:"why"`
	// Breakdown is absent where nothing could be computed: unknown is not zero.
	Breakdown *Breakdown     `json:"breakdown,omitempty"`
	Point     map[string]any `json:"point,omitempty"` // of a sweep
	Fits      []Fit          `json:"fits,omitempty"`
	Warnings  []string       `json:"warnings,omitempty"`

	requirements job.Requirements
}

// Requirements is the answer as the queue carries it.
func (a Answer) Requirements() job.Requirements { return a.requirements }

// Breakdown is the memory computation, MiB per GPU unless it says otherwise.
type Breakdown struct {
	Model        string `json:"model,omitempty"`
	Architecture string `json:"architecture,omitempty"`
	ConfigSource string `json:"config_source,omitempty"`
	Mode         string `json:"mode,omitempty"` // inference, training

	ParamCount       int64 `json:"param_count"`                  // of the whole model
	ActiveParamCount int64 `json:"active_param_count,omitempty"` // a mixture's, per token
	// KVBytesPerToken is of the whole model, all layers, at 16 bit unless the job says otherwise.
	KVBytesPerToken int64 `json:"kv_bytes_per_token"`

	WeightsMB     int64 `json:"weights_mb"`
	KVCacheMB     int64 `json:"kv_cache_mb"`
	ActivationsMB int64 `json:"activations_mb"`
	GradientsMB   int64 `json:"gradients_mb,omitempty"` // training
	OptimizerMB   int64 `json:"optimizer_mb,omitempty"` // training
	RuntimeMB     int64 `json:"runtime_mb"`
	TotalMB       int64 `json:"total_mb"`

	Context     int64 `json:"context,omitempty"`     // tokens each sequence may hold
	Concurrency int64 `json:"concurrency,omitempty"` // sequences
	// ReservesShare is the part of any card that the engine takes, however little it needs.
	ReservesShare float64 `json:"reserves_share,omitempty"`

	Terms []Term `json:"terms,omitempty"` // how each figure came about
}

// Term explains one figure of a breakdown.
type Term struct {
	Name string `json:"name"`
	MB   int64  `json:"mb"`
	Why  string `json:"why"`
}

// Fit says whether the job runs on a card, and how many of that card its model needs at least.
type Fit struct {
	Card     string `json:"card"`
	MemoryMB int64  `json:"memory_mb"`
	Fits     bool   `json:"fits"` // as asked for
	// GPUsNeeded of this card for the same model and load under tensor parallel; absent: more than one machine has.
	GPUsNeeded int `json:"gpus_needed,omitempty"`
}
