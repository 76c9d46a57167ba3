package launch

import "strings"

// Flags are the flags of a launch by canonical name: no dashes in front, lower case, `_` as `-`. A flag without a
// value has "".
type Flags map[string]string

// Canonical is the form in which flags and parameters are compared.
func Canonical(name string) string {
	return strings.ToLower(strings.ReplaceAll(strings.TrimLeft(name, "-"), "_", "-"))
}

// First is the value of the first of the names that is there and not empty.
func (f Flags) First(names ...string) string {
	for _, n := range names {
		if v := f[n]; v != "" {
			return v
		}
	}
	return ""
}

// Has reports whether the flag is there, with or without a value.
func (f Flags) Has(name string) bool { _, ok := f[name]; return ok }

// switches take no value, so that the word after them stays what it is.
var switches = map[string]bool{
	"enforce-eager": true, "enable-expert-parallel": true, "trust-remote-code": true, "enable-prefix-caching": true,
	"enable-chunked-prefill": true, "no-enable-chunked-prefill": true, "no-enable-prefix-caching": true,
	"disable-log-requests": true, "disable-log-stats": true, "enable-lora": true, "enable-dp-attention": true,
	"disable-cuda-graph": true, "disable-radix-cache": true, "enable-torch-compile": true, "headless": true,
	"enable-auto-tool-choice": true, "enable-sleep-mode": true, "enable-dp-lm-head": true, "enable-deepep-moe": true,
	"enable-mixed-chunk": true, "enable-attention-dp": true, "disable-custom-all-reduce": true, "async-scheduling": true,
	"enable-attention-data-parallel": true, "skip-tokenizer-init": true, "enable-eplb": true, "enable-metrics": true,
	"standalone": true, "multi-gpu": true, "use-deepspeed": true, "use-fsdp": true, "cpu": true, "no-python": true,
	"module": true, "gradient-checkpointing": true, "disable-overlap-schedule": true, "enable-p2p-check": true,
}

// shorts are the short forms each engine gives to a long flag.
var shorts = map[Program]map[string]string{
	VLLM: {"tp": "tensor-parallel-size", "pp": "pipeline-parallel-size", "dp": "data-parallel-size",
		"pcp": "prefill-context-parallel-size", "dcp": "decode-context-parallel-size", "q": "quantization",
		"dpl": "data-parallel-size-local", "ep": "enable-expert-parallel"},
	SGLang:     {"tp": "tensor-parallel-size", "dp": "data-parallel-size", "ep": "ep-size", "tp-size": "tensor-parallel-size"},
	TensorRT:   {"tp": "tensor-parallel-size", "pp": "pipeline-parallel-size", "ep": "moe-expert-parallel-size", "m": "model"},
	Torchrun:   {"m": "module", "nproc-per-node": "nproc-per-node"},
	Accelerate: {"m": "module"},
}

// maxExpanded keeps a word of a flag from growing past sense.
const maxValue = 4096

// readFlags splits an engine's arguments into flags and positional words. The last of a repeated flag counts, as in
// the engines' own parsers.
func readFlags(prog Program, args []string) (Flags, []string) {
	flags := Flags{}
	var rest []string
	for i := 0; i < len(args); i++ {
		word := args[i]
		if !isFlag(word) {
			if !strings.Contains(word, unreadable) {
				rest = append(rest, word)
			}
			continue
		}
		if strings.HasPrefix(word, ">") || strings.HasPrefix(word, "2>") {
			continue
		}
		name, value, joined := strings.Cut(word, "=")
		name = Canonical(name)
		if long, ok := shorts[prog][name]; ok {
			name = long
		}
		if !joined && !switches[name] && i+1 < len(args) && !isFlag(args[i+1]) {
			i++
			value = args[i]
		}
		if strings.Contains(value, unreadable) || len(value) > maxValue {
			continue // known only when the shell runs
		}
		flags[name] = value
	}
	return flags, rest
}

// isFlag: a negative number is a value.
func isFlag(word string) bool {
	return len(word) > 1 && word[0] == '-' && (word[1] < '0' || word[1] > '9') && word[1] != '.'
}

// readLauncher reads a launcher's own flags up to the script; the rest belongs to the script.
func readLauncher(prog Program, args []string) (Flags, []string) {
	for i := 0; i < len(args); i++ {
		if !isFlag(args[i]) {
			flags, _ := readFlags(prog, args[:i])
			return flags, args[i:]
		}
		name := Canonical(args[i])
		if !strings.Contains(args[i], "=") && !switches[name] {
			if name == "m" && prog != DeepSpeed {
				continue // -m is a switch here: the script is a module
			}
			i++
		}
	}
	flags, _ := readFlags(prog, args)
	return flags, nil
}

// ScriptFlags are the flags given to the script of a launcher.
func (l Line) ScriptFlags() Flags {
	if len(l.Script) < 2 {
		return Flags{}
	}
	flags, _ := readFlags("", l.Script[1:])
	return flags
}
