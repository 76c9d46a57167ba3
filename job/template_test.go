package job_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berthq/berth/job"
)

func TestRender(t *testing.T) {
	t.Parallel()
	c := job.Command{"train", "--tp={{.tp_size}}", "{{ .JobID }}-{{.JobID}}", `docker ps --format '\{{.Names}}'`, "{{ jinja }} {{range .X}}", "{{}}"}
	got, err := c.Render(map[string]string{"tp_size": "2", "JobID": "{{.tp_size}}"})
	want := job.Command{"train", "--tp=2", "{{.tp_size}}-{{.tp_size}}", "docker ps --format '{{.Names}}'", "{{ jinja }} {{range .X}}", "{{}}"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if c[1] != "--tp={{.tp_size}}" {
		t.Error("Render changed the command it was called on")
	}
	if got, err := c.Render(map[string]string{"tp_sice": "2"}); err == nil || !strings.Contains(err.Error(), "did you mean `tp_sice`?") {
		t.Errorf("an unknown word: %q, %v", got, err)
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	known := []string{"gpus", "gpu_memory", "gpu_models", "cpus", "memory", "share", "time_limit"}
	for word, want := range map[string]string{
		"gpu": "gpus", "GPUMemory": "gpu_memory", "gpu-memory": "gpu_memory", "gpu_model": "gpu_models", "cpu": "cpus", "memroy": "memory",
		"shrae": "share", "timelimit": "time_limit", "time_limt": "time_limit", "colour": "", "": "", strings.Repeat("m", 1000): "",
	} {
		if got, ok := job.Nearest(word, known); got != want || ok != (want != "") {
			t.Errorf("%.20q: %q, %v; want %q", word, got, ok, want)
		}
	}
}
