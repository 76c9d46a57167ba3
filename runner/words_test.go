package runner

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/telemetry"
	"github.com/google/go-cmp/cmp"
)

var twoDevices = []telemetry.Device{{UUID: "GPU-b", Index: 3}, {UUID: "GPU-a", Index: 1}}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	value := func(s string) *string { return &s }
	index := 17
	got := Environment(
		job.Spec{Env: map[string]*string{
			"HF_HOME": value("/models"), "UNRESOLVED": nil, "PATH": value("/venv/bin:/bin"), "PYTHONUNBUFFERED": value("0"),
			"CUDA_VISIBLE_DEVICES": value("0,1,2,3"), "BERTH_JOB_ID": value("1"), "BERTH_RESULT_FILE": value("/etc/passwd"),
		}},
		twoDevices,
		IDs{JobID: "1842.17", Attempt: 2, ArrayIndex: &index, StateDir: "/store/runs/1842.17.2", CheckpointDir: "/store/c/1842.17",
			Base: []string{"HOME=/home/ada", "PATH=/usr/bin", "broken"}},
	)
	want := []string{
		"BERTH_ARRAY_INDEX=17", "BERTH_ATTEMPT=2", "BERTH_CHECKPOINT_DIR=/store/c/1842.17", "BERTH_GPUS=GPU-b,GPU-a", "BERTH_GPU_INDICES=3,1",
		"BERTH_JOB_ID=1842.17", "BERTH_PROGRESS=/store/runs/1842.17.2/job/progress", "BERTH_RESULT_FILE=/store/runs/1842.17.2/job/result.json", "BERTH_STOP_REASON_FILE=/store/runs/1842.17.2/job/stop-reason",
		"CUDA_DEVICE_ORDER=PCI_BUS_ID", "CUDA_VISIBLE_DEVICES=GPU-b,GPU-a", "HF_HOME=/models", "HOME=/home/ada",
		"NVIDIA_VISIBLE_DEVICES=GPU-b,GPU-a", "PATH=/venv/bin:/bin", "PYTHONUNBUFFERED=0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestEnvironmentOfCPUJobs(t *testing.T) {
	t.Parallel()
	got := Environment(job.Spec{}, nil, IDs{JobID: "3", Attempt: 1, StateDir: "/s"})
	for _, want := range []string{"CUDA_VISIBLE_DEVICES=", "NVIDIA_VISIBLE_DEVICES=void", "BERTH_GPUS=", "PYTHONUNBUFFERED=1", defaultPath} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is missing in %q", want, got)
		}
	}
	if i := slices.IndexFunc(got, func(e string) bool { return strings.HasPrefix(e, "BERTH_ARRAY_INDEX=") }); i >= 0 {
		t.Errorf("a job without tasks has %s", got[i])
	}
}

func TestExpand(t *testing.T) {
	t.Parallel()
	index := 5
	words := WordsOf(twoDevices, IDs{JobID: "12.5", Attempt: 1, ArrayIndex: &index, CheckpointDir: "/c",
		Params: map[string]any{"tp-size": 4.0, "lr": 0.0001, "name": "a b", "big": 1e6, "flag": true, "list": []any{1.0, "x"}, "none": nil}})
	for in, want := range map[string]string{
		"{{.JobID}}/{{ .Attempt }}/{{.ArrayIndex}}": "12.5/1/5",
		"-p 0:{{.GPUIndex}} {{.GPUUUID}}":           "-p 0:3,1 GPU-b,GPU-a",
		"-tp {{.tp_size}} -lr {{.lr}} -n {{.big}}":  "-tp 4 -lr 0.0001 -n 1000000",
		"{{.name}}{{.flag}}{{.list}}{{.none}}":      `a btrue[1,"x"]`,
		"{{.CheckpointDir}}":                        "/c",
		`docker ps --format \{{.Names}}`:            "docker ps --format {{.Names}}",
		"{{ range . }} {{}} {{x}} ${{ y }}":         "{{ range . }} {{}} {{x}} ${{ y }}",
	} {
		got, err := Expand([]string{in}, words)
		if err != nil || got[0] != want {
			t.Errorf("%q became %q (%v), want %q", in, got, err, want)
		}
	}
}

func TestExpandUnknown(t *testing.T) {
	t.Parallel()
	_, err := Expand([]string{"run", "{{.GPUIndex}} {{.tp_sise}}"}, WordsOf(nil, IDs{JobID: "1", Attempt: 1, Params: map[string]any{"tp-size": 1}}))
	var refused *StartError
	if !errors.As(err, &refused) {
		t.Fatalf("got %v, want a refusal", err)
	}
	for _, word := range []string{"{{.GPUIndex}}", "{{.tp_sise}}", "`tp_size`"} {
		if !strings.Contains(refused.Reason, word) {
			t.Errorf("%q does not name %s", refused.Reason, word)
		}
	}
}

func FuzzExpand(f *testing.F) {
	f.Add("{{.JobID}} \\{{.x}} {{", "v{{.JobID}}")
	f.Fuzz(func(t *testing.T, arg, value string) {
		got, err := Expand([]string{arg}, Words{"JobID": value, "x": "1"})
		if err != nil {
			return
		}
		// What a word stands for is never expanded again.
		if plain, _ := Expand([]string{arg}, Words{"JobID": "", "x": "1"}); !strings.Contains(arg, "{{") && got[0] != plain[0] {
			t.Errorf("%q became %q without a word in it", arg, got[0])
		}
		if strings.Count(got[0], value) < strings.Count(arg, "{{.JobID}}")-strings.Count(arg, `\{{.JobID}}`) {
			t.Errorf("%q became %q: a word was dropped", arg, got[0])
		}
	})
}
