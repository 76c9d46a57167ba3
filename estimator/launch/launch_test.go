package launch

import (
	"reflect"
	"strings"
	"testing"
	"time"
)

func one(t *testing.T, argv ...string) Line {
	t.Helper()
	lines := Parse(argv, nil)
	if len(lines) != 1 {
		t.Fatalf("%q: %d launches, want 1", argv, len(lines))
	}
	return lines[0]
}

func TestFlagsInEverySpelling(t *testing.T) {
	t.Parallel()
	for _, argv := range [][]string{
		{"vllm", "serve", "m", "-tp", "4"},
		{"vllm", "serve", "m", "-tp=4"},
		{"vllm", "serve", "m", "--tensor-parallel-size", "4"},
		{"vllm", "serve", "m", "--tensor-parallel-size=4"},
		{"vllm", "serve", "m", "--tensor_parallel_size=4"},
		{"vllm", "serve", "--tensor-parallel-size", "2", "m", "-tp", "4"}, // the last counts
		{"vllm", "serve", "--enforce-eager", "m", "-tp", "4"},             // a switch takes no value
	} {
		l := one(t, argv...)
		if l.Flags["tensor-parallel-size"] != "4" || l.Model != "m" || l.Program != VLLM {
			t.Errorf("%q: %+v", argv, l)
		}
	}
	l := one(t, "python", "-u", "-m", "sglang.launch_server", "--model-path", "m", "--tp", "8", "--enable-dp-attention", "--dp", "8")
	want := Flags{"model-path": "m", "tensor-parallel-size": "8", "enable-dp-attention": "", "data-parallel-size": "8"}
	if !reflect.DeepEqual(l.Flags, want) || l.Model != "m" {
		t.Errorf("%+v", l)
	}
	if l = one(t, "vllm", "serve", "m", "--seed", "-1", "-tp", "2"); l.Flags["seed"] != "-1" {
		t.Errorf("a negative number is a value: %v", l.Flags)
	}
}

func TestShellStrings(t *testing.T) {
	t.Parallel()
	vars := map[string]string{"TP": "8"}
	for text, want := range map[string]string{
		"vllm serve m -tp 4":                                           "4",
		"cd /x && vllm serve m -tp 4 > log 2>&1":                       "4",
		"vllm serve 'a b' \"--tensor-parallel-size=4\"":                "4",
		"vllm serve m \\\n  -tp \\\n  4":                               "4",
		"X=3; vllm serve m -tp $X":                                     "3",
		"export X=3 Y=4\nvllm serve m -tp ${Y}":                        "4",
		"vllm serve m -tp $TP":                                         "8",
		"vllm serve m -tp ${MISSING:-2}":                               "2",
		"vllm serve m -tp $MISSING":                                    "",
		"vllm serve m -tp $(nvidia-smi -L | wc -l)":                    "",
		"for n in 1 8 2; do vllm bench latency --model m -tp $n; done": "8",
		"if true; then vllm serve m -tp 4; fi":                         "4",
		"(vllm serve m -tp 4)":                                         "4",
		"# vllm serve x -tp 8\nvllm serve m -tp 4 # -tp 9":             "4",
		"sh -c 'vllm serve m -tp 4'":                                   "4",
		"env A=1 nohup vllm serve m -tp 4 &":                           "4",
		"A=1 B=2 vllm serve m -tp 4":                                   "4",
		"time vllm serve m -tp 4 |& tee x":                             "4",
	} {
		lines := Parse([]string{"bash", "-lc", text}, vars)
		if len(lines) != 1 {
			t.Errorf("%q: %d launches", text, len(lines))
			continue
		}
		if got := lines[0].Flags["tensor-parallel-size"]; got != want {
			t.Errorf("%q: tp %q, want %q", text, got, want)
		}
	}
	if vars["TP"] != "8" || len(vars) != 1 {
		t.Errorf("the caller's variables were written: %v", vars)
	}
	lines := Parse([]string{"bash", "-c", "vllm serve a -tp 2 & vllm serve b -tp 4"}, nil)
	if len(lines) != 2 || !lines[0].Background || lines[1].Background {
		t.Errorf("%+v", lines)
	}
}

func TestWhatIsNoLaunch(t *testing.T) {
	t.Parallel()
	for _, argv := range [][]string{
		nil, {""}, {"vllm"}, {"pip", "install", "vllm"}, {"echo", "vllm", "serve"}, {"bash", "run.sh"}, {"bash", "-c"}, {"python"},
		{"python", "-m"}, {"python", "-m", "http.server"}, {"python", "train.py", "-m", "vllm"}, {"vllm", "bench", "serve"}, {"vllm", "collect-env"},
		{"accelerate", "config"}, {"python", "-m", "sglang.bench_serving", "--tp", "8"}, {"cat", "vllm", "-tp", "4"}, {"vllm", "chat"},
	} {
		if lines := Parse(argv, nil); len(lines) != 0 {
			t.Errorf("%q: %+v", argv, lines)
		}
	}
}

func TestLaunchers(t *testing.T) {
	t.Parallel()
	l := one(t, "torchrun", "--nproc_per_node=4", "--standalone", "train.py", "--nproc_per_node", "9", "--lr", "1")
	if l.Flags["nproc-per-node"] != "4" || len(l.Script) != 5 || l.ScriptFlags()["lr"] != "1" {
		t.Errorf("%+v", l)
	}
	l = one(t, "torchrun", "--nproc-per-node", "2", "-m", "pkg.train", "--epochs", "3")
	if l.Flags["nproc-per-node"] != "2" || l.Script[0] != "pkg.train" {
		t.Errorf("%+v", l)
	}
	l = one(t, "accelerate", "launch", "--num_processes", "2", "--config_file", "a.yaml", "t.py")
	if l.Flags["num-processes"] != "2" || !reflect.DeepEqual(l.ConfigFiles(), []string{"a.yaml"}) {
		t.Errorf("%+v", l)
	}
	l = one(t, "deepspeed", "--num_gpus=2", "t.py", "--deepspeed", "ds.json")
	if !reflect.DeepEqual(l.ConfigFiles(), []string{"ds.json"}) {
		t.Errorf("%+v", l.ConfigFiles())
	}
}

func TestConfigFiles(t *testing.T) {
	t.Parallel()
	l := one(t, "vllm", "serve", "--config", "c.yaml", "-tp", "2")
	if err := l.Join([]byte("model: m\ntensor-parallel-size: 8\npipeline_parallel_size: 2\nenforce-eager: true\n")); err != nil {
		t.Fatal(err)
	}
	if l.Flags["tensor-parallel-size"] != "2" || l.Flags["pipeline-parallel-size"] != "2" || l.Flags["enforce-eager"] != "true" || l.Model != "m" {
		t.Errorf("the command line wins, the rest is taken: %+v", l)
	}
	l = one(t, "trtllm-serve", "m", "--extra_llm_api_options", "x.yaml")
	if err := l.Join([]byte("tensor_parallel_size: 4\nkv_cache_config:\n  free_gpu_memory_fraction: 0.8\n")); err != nil {
		t.Fatal(err)
	}
	if l.Flags["kv-cache-config.free-gpu-memory-fraction"] != "0.8" || l.Flags["tensor-parallel-size"] != "4" {
		t.Errorf("%+v", l.Flags)
	}
	l = one(t, "deepspeed", "t.py", "--deepspeed", "ds.json")
	if err := l.Join([]byte(`{"zero_optimization": {"stage": 3}}`)); err != nil || l.Flags["zero-optimization.stage"] != "3" {
		t.Errorf("%+v %v", l.Flags, err)
	}
}

func TestBadConfigFiles(t *testing.T) {
	t.Parallel()
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'j'; c++ {
		p := string(c - 1)
		bomb += string(c) + ": &" + string(c) + " [" + strings.TrimSuffix(strings.Repeat("*"+p+",", 9), ",") + "]\n"
	}
	for name, text := range map[string]string{
		"cyclic anchor":    "a: &a\n  b: *a\n",
		"cyclic merge":     "a: &a\n  <<: *a\n",
		"alias bomb":       bomb,
		"a list":           "- 1\n- 2\n",
		"text":             "hello",
		"binary":           "\x00\xff\xfe",
		"tabs":             "a:\n\t- b",
		"very large":       "a: " + strings.Repeat("x", maxConfigFile),
		"unknown anchor":   "a: *nowhere",
		"key is a mapping": "? {a: b}\n: c\n",
	} {
		l := one(t, "vllm", "serve", "m")
		start := time.Now()
		err := l.Join([]byte(text))
		if err == nil || !strings.Contains(err.Error(), "engine config file") {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(start); took > 30*time.Second {
			t.Errorf("%s took %v", name, took)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"vllm serve m -tp 4", "for x in 1 2; do vllm serve m -tp $x & done", "a='b \"c' $( ${x:-${y}} `z` >& 2>&1 &> ; ;; && || \\", "bash -c \"bash -c 'vllm serve m'\"",
		"torchrun --nproc_per_node", "X=$X vllm serve $X", "export A B=c", "{ vllm serve m; }", "${", "$", "\"$", "'", "env", "env env vllm x",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for _, l := range Parse([]string{"bash", "-lc", text}, map[string]string{"A": text}) {
			_ = l.ScriptFlags()
			_ = l.ConfigFiles()
			for name, value := range l.Flags {
				if strings.Contains(value, unreadable) && !strings.Contains(text, unreadable) {
					t.Fatalf("%q: flag %q has a value nobody can read: %q", text, name, value)
				}
			}
		}
		Parse(strings.Fields(text), nil)
	})
}

func FuzzJoin(f *testing.F) {
	f.Add([]byte("a: 1"))
	f.Add([]byte("a: &a {b: *a}"))
	f.Add([]byte(`{"a":{"b":[1,{"c":null}]}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		l := Line{Program: VLLM}
		if err := l.Join(data); err != nil && !strings.Contains(err.Error(), "engine config file") {
			t.Fatal(err)
		}
	})
}
