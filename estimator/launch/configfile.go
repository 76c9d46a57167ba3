package launch

import (
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// maxConfigFile bounds an engine's config file; real ones are a page long.
const maxConfigFile = 1 << 20

// errConfigFile names what every complaint here is about.
var errConfigFile = errors.New("engine config file")

// ConfigFiles are the paths of config files that the line names and the caller may read for it.
func (l Line) ConfigFiles() []string {
	var names []string
	switch l.Program {
	case VLLM, SGLang:
		names = []string{"config"}
	case TensorRT:
		names = []string{"extra-llm-api-options", "config"}
	case Accelerate:
		names = []string{"config-file", "deepspeed-config-file"}
	case DeepSpeed:
		names = []string{"deepspeed-config"}
	case Torchrun:
	}
	var paths []string
	for _, n := range names {
		if p := l.Flags[n]; p != "" {
			paths = append(paths, p)
		}
	}
	script := l.ScriptFlags()
	for _, n := range []string{"deepspeed", "deepspeed-config"} {
		if p := script[n]; strings.HasSuffix(p, ".json") {
			paths = append(paths, p)
		}
	}
	return paths
}

// Join adds what a config file says. Flags on the command line win over the file, as the engines do it.
func (l *Line) Join(data []byte) error {
	if len(data) > maxConfigFile {
		return fmt.Errorf("%w: %d bytes, more than the %d a config file can have", errConfigFile, len(data), maxConfigFile)
	}
	var content map[string]any
	if err := yaml.Unmarshal(data, &content); err != nil { // JSON is YAML
		return fmt.Errorf("%w: %w", errConfigFile, err)
	}
	if l.Flags == nil {
		l.Flags = Flags{}
	}
	l.join("", content, 0)
	if l.Model == "" {
		l.Model = l.Flags.First("model", "model-tag", "model-path")
	}
	return nil
}

func (l *Line) join(prefix string, content map[string]any, depth int) {
	for key, value := range content {
		name := prefix + Canonical(key)
		if long, ok := shorts[l.Program][name]; ok {
			name = long
		}
		if inner, ok := value.(map[string]any); ok {
			if depth < 4 {
				l.join(name+".", inner, depth+1)
			}
			continue
		}
		if l.Flags.Has(name) {
			continue
		}
		switch v := value.(type) {
		case nil:
		case bool:
			if v {
				l.Flags[name] = "true"
			} else {
				l.Flags[name] = "false"
			}
		case string, int, int64, uint64, float64:
			l.Flags[name] = fmt.Sprint(v)
		}
	}
}
