package estimator

import "github.com/berthq/berth/estimator/model"

// Options are what the caller knows beside the spec. The zero value is useful.
type Options struct {
	// Cards to check fits on; nil: DefaultCards. The fleet's own are better.
	Cards []Card
	// Config finds a model's config.json: a local path, the Hugging Face cache of the machine. nil or not found:
	// the built-in table by the model's name.
	Config func(idOrPath string) (ConfigFile, bool)
	// EngineFile reads a config file that the job's command line names (`vllm serve --config x.yaml`). nil: such
	// files are not read, and the answer says so.
	EngineFile func(path string) ([]byte, error)
	// Point is the point of a sweep the spec is taken at: it wins over the spec's parameters.
	Point map[string]any
}

// ConfigFile is a model's config as found.
type ConfigFile struct {
	JSON   []byte
	Source string // "path", "hugging face cache", ...
	// Local: the job names this very file or folder, so the answer may rest on it without an engine named.
	Local bool
}

// Card is a kind of GPU.
type Card struct {
	Name     string
	MemoryMB int64 // as the driver reports it
}

// DefaultCards are common data-centre and desk cards with the memory their drivers report.
var DefaultCards = []Card{
	{"RTX 4080 16GB", 16376}, {"L4 24GB", 23034}, {"RTX 4090 24GB", 24564}, {"RTX 5090 32GB", 32607},
	{"A100 40GB", 40960}, {"L40S 48GB", 46068}, {"A100 80GB", 81920}, {"H100 80GB", 81559}, {"H200 141GB", 143771},
	{"MI300X 192GB", 196592}, {"B200 180GB", 183359},
}

// Known is the built-in table's config for a model's name.
func Known(name string) (model.Config, bool) { return model.Known(name) }
