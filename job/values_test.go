package job_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berthq/berth/job"
)

func TestParseMemory(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]job.Memory{
		"":          {},
		"auto":      job.AutoMemory,
		"0":         job.MemoryOf(0),
		"8000":      job.MemoryOf(8000),
		"8000MB":    job.MemoryOf(8000),
		"8000 MiB":  job.MemoryOf(8000),
		"20Gi":      job.MemoryOf(20480),
		"20G":       job.MemoryOf(20480),
		"20gb":      job.MemoryOf(20480),
		"1.5Ti":     job.MemoryOf(1572864),
		"1025Ki":    job.MemoryOf(2),
		"1B":        job.MemoryOf(1),
		" 12 GiB  ": job.MemoryOf(12288),
	} {
		got, err := job.ParseMemory(text)
		if err != nil || got != want {
			t.Errorf("%q: got %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"-1", "lots", "20Gx", "Gi", "1.2.3Gi", "20 Gi b", "1e3", "NaN", "Inf", "99999999Ti", "20BiB", "0x10"} {
		if got, err := job.ParseMemory(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]time.Duration{
		"":             0,
		"12h":          12 * time.Hour,
		"90s":          90 * time.Second,
		"1.5h":         90 * time.Minute,
		"1h30m":        90 * time.Minute,
		"7d":           7 * 24 * time.Hour,
		"1d 12h":       36 * time.Hour,
		"2w":           14 * 24 * time.Hour,
		"250ms":        250 * time.Millisecond,
		"1-02:03:04":   26*time.Hour + 3*time.Minute + 4*time.Second,
		"2-12":         60 * time.Hour,
		"2-12:30":      60*time.Hour + 30*time.Minute,
		"02:03:04":     2*time.Hour + 3*time.Minute + 4*time.Second,
		"30:00":        30 * time.Minute,
		"00:00:10":     10 * time.Second,
		"100:00:00":    100 * time.Hour,
		"3650d":        3650 * 24 * time.Hour,
		"0-00:00:01":   time.Second,
		"  2h  ":       2 * time.Hour,
		"0.5d":         12 * time.Hour,
		"1m1s":         time.Minute + time.Second,
		"1h0m0s":       time.Hour,
		"1048575:00:0": 0, // too long
	} {
		got, err := job.ParseDuration(text)
		if want == 0 && text != "" {
			if err == nil {
				t.Errorf("%q is taken for %v", text, got)
			}
			continue
		}
		if err != nil || got.Std() != want {
			t.Errorf("%q: got %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"-1h", "1y", "h", "1-", "a-1", "1:2:3:4", "::", "12h30", "99999999d", "1e3s", "1..5h", "1h-3m"} {
		if got, err := job.ParseDuration(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
	if _, err := job.ParseDuration("30"); err == nil || !strings.Contains(err.Error(), "30s, 30m or 30h") {
		t.Errorf("a bare number: %v, want the units it could mean", err)
	}
}

func TestDurationPrintsShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		12 * time.Hour: "12h", 90 * time.Minute: "1h30m", 30 * time.Minute: "30m", 90 * time.Second: "1m30s",
		time.Hour + time.Second: "1h0m1s", 250 * time.Millisecond: "250ms", 10 * time.Second: "10s", 20 * time.Minute: "20m",
	} {
		got := job.Duration(d)
		if got.String() != want {
			t.Errorf("%v prints as %s, want %s", d, got, want)
		}
		if back, err := job.ParseDuration(got.String()); err != nil || back != got {
			t.Errorf("%s reads back as %v, %v", got, back, err)
		}
	}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]job.Count{"": {}, "auto": job.AutoCount, "0": job.CountOf(0), "\t8": job.CountOf(8)} {
		if got, err := job.ParseCount(text); err != nil || got != want {
			t.Errorf("%q: got %v, %v; want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"-1", "two", "1.5", "99999999999", "0x8", "all"} {
		if got, err := job.ParseCount(text); err == nil {
			t.Errorf("%q is taken for %v", text, got)
		}
	}
}

// Absent, zero and auto are three different wishes and stay so on the wire.
func TestSettingsOnTheWire(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		r    job.Resources
		json string
	}{
		{job.Resources{}, `{}`},
		{job.Resources{GPUs: job.CountOf(0), GPUMemory: job.MemoryOf(0)}, `{"gpus":0,"gpu_memory":0}`},
		{job.Resources{GPUs: job.AutoCount, GPUMemory: job.AutoMemory}, `{"gpus":"auto","gpu_memory":"auto"}`},
		{job.Resources{GPUs: job.CountOf(2), GPUMemory: job.MemoryOf(20480)}, `{"gpus":2,"gpu_memory":20480}`},
	} {
		data, err := json.Marshal(c.r)
		if err != nil || string(data) != c.json {
			t.Errorf("%+v: %s, %v; want %s", c.r, data, err, c.json)
		}
		var back job.Resources
		if err := json.Unmarshal(data, &back); err != nil || !cmp.Equal(back, c.r) {
			t.Errorf("%s reads back as %+v, %v", data, back, err)
		}
	}
	var r job.Resources
	if err := json.Unmarshal([]byte(`{"gpus":"4","gpu_memory":"1Gi"}`), &r); err != nil || r.GPUs != job.CountOf(4) || r.GPUMemory != job.MemoryOf(1024) {
		t.Errorf("text forms: %+v, %v", r, err)
	}
	if err := json.Unmarshal([]byte(`{"gpus":[1]}`), &r); err == nil {
		t.Error("a list is taken for a count")
	}
}

func TestCommandOnTheWire(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]job.Command{
		`["sleep", 30, 1.50, true]`: {"sleep", "30", "1.50", "true"},
		`"echo hi | wc"`:            {"bash", "-lc", "echo hi | wc"},
		`[]`:                        {},
		`null`:                      nil,
	} {
		var got job.Command
		if err := json.Unmarshal([]byte(text), &got); err != nil || !cmp.Equal(got, want) {
			t.Errorf("%s: got %q, %v; want %q", text, got, err, want)
		}
	}
	for _, text := range []string{`["a", ["b"]]`, `[{"a": 1}]`, `[null]`, `5`, `{}`} {
		var got job.Command
		if err := json.Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s is taken for %q", text, got)
		}
	}
}
