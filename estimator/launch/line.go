package launch

import (
	"path"
	"strings"
)

// Program is an engine or launcher this package knows.
type Program string

// The programs.
const (
	VLLM       Program = "vllm"
	SGLang     Program = "sglang"
	TensorRT   Program = "tensorrt-llm"
	Torchrun   Program = "torchrun"
	Accelerate Program = "accelerate"
	DeepSpeed  Program = "deepspeed"
)

// Engine reports whether the program serves models (and so has flags for parallel sizes).
func (p Program) Engine() bool { return p == VLLM || p == SGLang || p == TensorRT }

// Named is the program a person calls so: "vLLM", "trt-llm", "trtllm".
func Named(name string) (Program, bool) {
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "vllm":
		return VLLM, true
	case "sglang", "sgl":
		return SGLang, true
	case "tensorrt-llm", "tensorrt_llm", "tensorrtllm", "trt-llm", "trtllm", "trt_llm":
		return TensorRT, true
	}
	return "", false
}

// Line is one launch found in a command.
type Line struct {
	Program    Program
	Verb       string // serve, bench throughput, launch, ...
	Model      string // a model named by position or flag
	Flags      Flags
	Script     []string // what a launcher starts, with its arguments
	Background bool     // the shell goes on while it runs
}

// maxWords bounds what is read of one argv.
const maxWords = 4096

// Parse finds the launches in an argv. vars are the variables the job's shell will have (its env).
func Parse(argv []string, vars map[string]string) []Line {
	if len(argv) > maxWords {
		argv = argv[:maxWords]
	}
	var lines []Line
	for _, c := range commands(argv, vars, 0) {
		if line, ok := parseCommand(c.words); ok {
			line.Background = c.background
			lines = append(lines, line)
		}
	}
	return lines
}

// commands unfolds shells: `bash -lc "…"` is what its string says.
func commands(argv []string, vars map[string]string, depth int) []command {
	argv, vars = unwrap(argv, vars)
	text, ok := shellString(argv)
	if !ok {
		return []command{{words: argv}}
	}
	if depth > 3 {
		return nil
	}
	var out []command
	for _, c := range splitShell(text, vars) {
		for _, inner := range commands(c.words, vars, depth+1) {
			inner.background = inner.background || c.background
			out = append(out, inner)
		}
	}
	return out
}

// shellString is S of `sh -c S`.
func shellString(argv []string) (string, bool) {
	if len(argv) < 3 {
		return "", false
	}
	switch path.Base(argv[0]) {
	case "bash", "sh", "zsh", "dash":
	default:
		return "", false
	}
	for i, a := range argv[1:] {
		if !strings.HasPrefix(a, "-") {
			return "", false // a script file
		}
		if !strings.HasPrefix(a, "--") && strings.HasSuffix(a, "c") && i+2 < len(argv) {
			return argv[i+2], true
		}
	}
	return "", false
}

var wrappers = map[string]bool{
	"env": true, "exec": true, "nohup": true, "time": true, "nice": true, "ionice": true, "numactl": true,
	"stdbuf": true, "sudo": true, "timeout": true, "taskset": true, "uv": true, "poetry": true, "conda": true,
	"micromamba": true, "pixi": true, "apptainer": true, "singularity": true, "setsid": true, "nsys": true, "ncu": true, "tini": true,
}

// unwrap drops what stands before the program: assignments and wrappers with their options.
func unwrap(argv []string, vars map[string]string) ([]string, map[string]string) {
	if len(argv) == 0 || !wrappers[path.Base(argv[0])] {
		return argv, vars
	}
	own := vars
	for i := 1; i < len(argv); i++ {
		if name, value, ok := strings.Cut(argv[i], "="); ok && isName(name) {
			next := make(map[string]string, len(own)+1)
			for k, v := range own {
				next[k] = v
			}
			next[name] = value
			own = next
			continue
		}
		rest := argv[i:]
		if _, _, ok := program(rest); ok {
			return rest, own
		}
		if _, ok := shellString(rest); ok {
			return rest, own
		}
	}
	return argv, vars
}

// program tells which program the words start, and where its own arguments begin.
func program(words []string) (Program, int, bool) {
	if len(words) == 0 {
		return "", 0, false
	}
	base := path.Base(words[0])
	switch base {
	case "vllm":
		return VLLM, 1, len(words) > 1
	case "sglang":
		return SGLang, 1, len(words) > 1
	case "trtllm-serve", "trtllm-bench", "trtllm-eval", "trtllm-llmapi-launch":
		return TensorRT, 1, true
	case "torchrun":
		return Torchrun, 1, true
	case "accelerate":
		return Accelerate, 1, len(words) > 1 && words[1] == "launch"
	case "deepspeed":
		return DeepSpeed, 1, true
	}
	if !strings.HasPrefix(base, "python") && base != "pypy" {
		return "", 0, false
	}
	return pythonModule(words)
}

// pythonModule is the program of `python [-u …] -m MODULE`.
func pythonModule(words []string) (Program, int, bool) {
	for i := 1; i < len(words); i++ {
		w := words[i]
		if w == "-X" || w == "-W" {
			i++
			continue
		}
		if !strings.HasPrefix(w, "-") {
			return scriptProgram(w, i)
		}
		if w != "-m" || i+1 >= len(words) {
			continue
		}
		module := words[i+1]
		switch {
		case module == "torch.distributed.run" || module == "torch.distributed.launch":
			return Torchrun, i + 2, true
		case module == "accelerate.commands.launch":
			return Accelerate, i + 2, true
		case module == "deepspeed" || module == "deepspeed.launcher.runner":
			return DeepSpeed, i + 2, true
		case module == "vllm" || strings.HasPrefix(module, "vllm.entrypoints."):
			return VLLM, i + 2, true
		case strings.HasPrefix(module, "sglang.") && !strings.HasPrefix(module, "sglang.bench_serving"):
			return SGLang, i + 2, true
		case strings.HasPrefix(module, "tensorrt_llm."):
			return TensorRT, i + 2, true
		}
		return "", 0, false
	}
	return "", 0, false
}

// scriptProgram knows the engines' own benchmark scripts by their names and nothing of anyone else's.
func scriptProgram(script string, at int) (Program, int, bool) {
	dir, base := path.Split(script)
	if base == "benchmark_throughput.py" || base == "benchmark_latency.py" {
		return VLLM, at + 1, strings.Contains(dir, "vllm") || strings.HasSuffix(dir, "benchmarks/")
	}
	return "", 0, false
}

func parseCommand(words []string) (Line, bool) {
	prog, at, ok := program(words)
	if !ok {
		return Line{}, false
	}
	line := Line{Program: prog}
	args := words[at:]
	switch prog {
	case Torchrun, DeepSpeed:
		line.Flags, line.Script = readLauncher(prog, args)
	case Accelerate:
		if len(args) > 0 && args[0] == "launch" {
			args = args[1:]
		}
		line.Verb = "launch"
		line.Flags, line.Script = readLauncher(prog, args)
	default:
		line.Verb, args = verbs(prog, args, path.Base(words[0]))
		var rest []string
		line.Flags, rest = readFlags(prog, args)
		line.Model = line.Flags.First("model", "model-path", "m")
		if line.Model == "" && len(rest) > 0 && takesModel(prog, line.Verb) {
			line.Model = rest[0]
		}
		if prog == TensorRT && strings.HasSuffix(words[0], "bench") && len(rest) > 0 {
			line.Verb = strings.TrimSpace(line.Verb + " " + rest[0])
		}
		if client(prog, line.Verb) {
			return Line{}, false
		}
	}
	return line, true
}

// verbs takes the words before the first flag that say what the engine does.
func verbs(prog Program, args []string, base string) (string, []string) {
	n := 0
	if prog == VLLM && base == "vllm" || prog == SGLang && base == "sglang" {
		n = 1
		if len(args) > 1 && args[0] == "bench" {
			n = 2
		}
	}
	if base == "trtllm-serve" && len(args) > 0 && args[0] == "serve" {
		n = 1
	}
	n = min(n, len(args))
	return strings.Join(args[:n], " "), args[n:]
}

func takesModel(prog Program, verb string) bool {
	return prog == VLLM && (verb == "serve" || verb == "") || prog == TensorRT
}

// client reports a verb that holds no GPU: it talks to a server, or prints and ends.
func client(prog Program, verb string) bool {
	if prog == TensorRT {
		return false
	}
	switch verb {
	case "", "serve", "bench throughput", "bench latency", "run-batch", "generate", "bench startup", "bench offline",
		"bench one-batch", "bench mm-processor", "bench sweep":
		return false
	}
	return true
}
