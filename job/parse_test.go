package job_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berthq/berth/job"
)

func ptr[T any](v T) *T { return &v }

func TestParseWholeSpec(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/whole.yaml")
	if err != nil {
		t.Fatal(err)
	}
	got, err := job.ParseSpecs(data, "whole.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := []job.Spec{{
		Name: "llama3-70b <tune>", Project: "serving", Labels: map[string]string{"team": "nlp", "run": "7"},
		Command:    job.Command{"vllm", "bench", "-tp", "{{.tp_size}}", "--seed", "30", "--eager", "true"},
		Matrix:     map[string][]any{"tp-size": {1.0, 2.0, 4.0}, "mode": {"fast", false}},
		Exclude:    []map[string]any{{"tp-size": 1.0, "mode": false}},
		Model:      &job.Model{IDOrPath: "llama-3-70b"},
		Parameters: map[string]any{"tp-size": []any{1.0, 2.0}, "dtype": map[string]any{"type": "choice", "values": []any{"bf16"}}},
		Engine:     "vllm",
		Resources: job.Resources{
			GPUs: job.AutoCount, GPUMemory: job.MemoryOf(20480), GPUModels: []string{"A100", "H100"}, MinCapability: "8.0",
			Share: job.Shared, Slots: 2, Balanced: true, CPUs: 8, Memory: job.MemoryOf(65536), Frameworks: []string{"torch"},
			Constraints: map[string]string{"rack": "a"}, Machine: "gpu1",
		},
		Workdir: ".", Env: map[string]*string{"K": ptr("V"), "N": ptr("1"), "HF_TOKEN": nil}, EnvFile: []string{".env"},
		Priority: ptr(70), TimeLimit: job.Duration(12 * time.Hour),
		Retry: &job.Retry{Retries: 2, Backoff: &job.Backoff{Initial: job.Duration(30 * time.Second), Max: job.Duration(10 * time.Minute), Factor: 2},
			On: []string{"failed", "oom_gpu"}, NeverOn: []string{"exit:2"}},
		Checkpoint: &job.Checkpoint{Signal: "USR2", Before: job.Duration(2 * time.Minute)},
		Stop:       &job.Stop{Signal: "SIGINT", Grace: job.Duration(90 * time.Second)},
		Telemetry:  &job.Telemetry{Interval: job.Duration(time.Second), Series: "summary"}, IdempotencyKey: "k-1",
	}, {
		Command: job.Command{"bash", "-lc", "echo hello | wc -c"}, Array: "1-150%8",
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// A spec is the same read from YAML, from JSON, and from its own encoding.
func TestYAMLAndJSONAgree(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/whole.yaml")
	if err != nil {
		t.Fatal(err)
	}
	specs, err := job.ParseSpecs(data, "whole.yaml")
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := json.Marshal(specs)
	if err != nil {
		t.Fatal(err)
	}
	again, err := job.ParseSpecs(encoded, "whole.json")
	if err != nil {
		t.Fatalf("%v\n%s", err, encoded)
	}
	if diff := cmp.Diff(specs, again); diff != "" {
		t.Error(diff)
	}
	var plain []job.Spec
	if err := json.Unmarshal(encoded, &plain); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(specs, plain); diff != "" {
		t.Errorf("as a worker reads it:\n%s", diff)
	}
}

func TestJSONThatYAMLRefuses(t *testing.T) {
	t.Parallel()
	got, err := job.ParseSpecs([]byte("{\"name\": \"\\ud83d\\ude80\",\n\t\"command\": [\"a\\/b\"]}\n{\"command\": [\"c\"]}\n"), "x.json")
	if err != nil || len(got) != 2 || got[0].Name != "🚀" || got[0].Command[0] != "a/b" {
		t.Errorf("%+v, %v", got, err)
	}
}

// Each file in testdata/bad holds a spec and, in comments at its top, the whole message it must give.
func TestBadSpecs(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/bad/*")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			head, body, ok := strings.Cut(string(data), "#---\n")
			if !ok {
				t.Fatal("no line #---")
			}
			specs, err := job.ParseSpecs([]byte(body), "spec")
			if err == nil {
				t.Fatalf("accepted: %+v", specs)
			}
			if !errors.Is(err, job.ErrInvalid) {
				t.Errorf("%v is not %v", err, job.ErrInvalid)
			}
			want := strings.TrimSpace(strings.ReplaceAll("\n"+head, "\n# ", "\n"))
			if diff := cmp.Diff(want, err.Error()); diff != "" {
				t.Errorf("message (-want +got):\n%s\ngot:\n%s", diff, err)
			}
		})
	}
}

func TestHugeAndDeepInput(t *testing.T) {
	t.Parallel()
	bomb := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 10; i++ {
		bomb += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	for name, c := range map[string]struct{ text, want string }{
		"10 MB":           {"command: [" + strings.Repeat("x", 10<<20) + "]", "at most 4096 KiB are read"},
		"over the limit":  {"command: [" + strings.Repeat("x", 300<<10) + "]", "the limit is 256 KiB"},
		"deep YAML":       {"command: [a]\nparameters: {a: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}", "nested more than 64 deep"},
		"very deep YAML":  {"parameters: " + strings.Repeat("[", 200_000), "not YAML: exceeded max depth"},
		"deep JSON":       {`{"command": ["a"], "parameters": {"a": ` + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}}", "nested more than 64 deep"},
		"billion laughs":  {"command: [a]\nparameters:\n  " + strings.ReplaceAll(bomb, "\n", "\n  "), "holds more than 200000 values"},
		"cyclic anchor":   {"command: [a]\nparameters: &p {again: *p}", "the anchor &p contains itself"},
		"cyclic merge":    {"command: [a]\nparameters: &p {<<: *p}", "nested more than 64 deep"},
		"binary":          {"\x00\x01\x02\xff", "is binary"},
		"not UTF-8":       {"name: \xff\xfe\ncommand: [a]", "not YAML"},
		"many problems":   {"command: [a]\n" + strings.Repeat("x: 1\n", 1000), "and 980 more"},
		"many small jobs": {strings.Repeat("{}\n---\n", 3), "spec:5:1: command: is missing"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			specs, err := job.ParseSpecs([]byte(c.text), "spec")
			if err == nil {
				t.Fatalf("accepted %d specs", len(specs))
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %.500s\nwant %q", err, c.want)
			}
			if n := strings.Count(err.Error(), "\n"); n > 21 {
				t.Errorf("the message has %d lines", n)
			}
		})
	}
}

func TestProblemsOfAnError(t *testing.T) {
	t.Parallel()
	_, err := job.ParseSpecs([]byte("nam: x\ncommand: [a]\ntime_limit: 30\n"), "f.yaml")
	got := job.Problems(fmt.Errorf("submit: %w", err))
	if len(got) != 2 || got[0].Line != 1 || got[0].File != "f.yaml" || got[1].Path != "time_limit" || got[1].Column != 13 {
		t.Errorf("%+v", got)
	}
	if got := job.Problems(errors.New("other")); got != nil {
		t.Errorf("problems of another error: %+v", got)
	}
}
