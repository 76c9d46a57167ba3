package job_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berthq/berth/job"
)

var update = flag.Bool("update", false, "write the golden files anew")

var (
	queued  = time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	started = queued.Add(1500 * time.Millisecond)
	ended   = started.Add(time.Hour)
)

func goldenSpec() job.Spec {
	return job.Spec{
		Name: "llama3-70b-tune", Project: "serving", Labels: map[string]string{"team": "nlp"},
		Command:   job.Command{"python", "tune.py", "--tp", "{{.tp_size}}"},
		Matrix:    map[string][]any{"tp-size": {1.0, 2.0}},
		Model:     &job.Model{IDOrPath: "llama-3-70b"},
		Resources: job.Resources{GPUs: job.AutoCount, GPUMemory: job.MemoryOf(20480), CPUs: 8, Memory: job.MemoryOf(65536)},
		Workdir:   "/home/ada/tune", Env: map[string]*string{"LANG": ptr("C.UTF-8")},
		Priority: ptr(70), TimeLimit: job.Duration(12 * time.Hour),
		Retry: &job.Retry{Retries: 2, Backoff: &job.Backoff{Initial: job.Duration(30 * time.Second)}, On: []string{"oom_gpu"}},
	}
}

func goldenRequirements(gpus int) job.Requirements {
	return job.Requirements{
		GPUs: gpus, GPUMemoryMB: 20480, CPUs: 8, MemoryMB: 65536, WorldSize: gpus, Model: "llama-3-70b", Method: "autotuner",
		Why: "world size from tp-size; memory as asked for",
	}
}

func goldenAggregate() *job.Aggregate {
	return &job.Aggregate{
		MonitoringDurationSeconds: 3600.5, SampleCount: 3601,
		GPUStats: map[string]job.GPUStats{"0": {
			Name: "NVIDIA A100-SXM4-80GB", UUID: "GPU-6a1f0c52-0b9d-4d0e-9a53-1f2e3d4c5b6a",
			Utilization:        &job.CountedStat{Stat: job.Stat{Min: 0, Max: 100, Mean: 83.25}, Samples: 3601},
			MemoryUsedMB:       &job.Stat{Min: 512, Max: 20480, Mean: 18000.5},
			MemoryUsagePercent: &job.Stat{Min: 0.625, Max: 25, Mean: 22},
			TemperatureC:       &job.Stat{Min: 31, Max: 67, Mean: 60},
			PowerDrawW:         &job.Stat{Min: 61.5, Max: 398, Mean: 310.75},
			EnergyJoules:       ptr(1118700.0),
		}},
	}
}

func goldenGPUInfo() *job.GPUInfo {
	return &job.GPUInfo{
		Model: "llama-3-70b", Count: 1, DeviceIDs: []string{"0"}, WorldSize: 1,
		GPUInfo: job.GPUDetails{Count: 1, Indices: []int{0}, AllocationMethod: "score", Details: []job.GPUDetail{{
			Index: 0, UUID: "GPU-6a1f0c52-0b9d-4d0e-9a53-1f2e3d4c5b6a", Name: "NVIDIA A100-SXM4-80GB",
			MemoryFreeMB: ptr(int64(80000)), UtilizationPercent: ptr(0.0), AvailabilityScore: ptr(0.985),
		}}},
	}
}

func goldenAttempts() []job.Attempt {
	lost := started.Add(-time.Second)
	return []job.Attempt{
		{Attempt: 1, Epoch: 1, Outcome: job.OutcomeMachineLost, Machine: "gpu2", Session: "gpu2.7", Devices: []string{"GPU-1"},
			StartedAt: queued.Add(time.Millisecond), EndedAt: &lost, Reason: "machine_lost", Evidence: "the session gpu2.7 ended"},
		{Attempt: 2, Epoch: 2, Outcome: job.OutcomeFailed, Machine: "gpu1", Session: "gpu1.3",
			Devices: []string{"GPU-6a1f0c52-0b9d-4d0e-9a53-1f2e3d4c5b6a"}, StartedAt: started, EndedAt: &ended, Exit: &job.Exit{Code: 1}},
	}
}

func goldenResult() *job.Result {
	return &job.Result{
		Version: job.Version, JobID: "0195500a-7e00-7000-8000-000000000001", Number: 1842, Index: ptr(1), Group: 1842,
		Name: "llama3-70b-tune", Project: "serving", User: "ada", UserClaimed: true, Labels: map[string]string{"team": "nlp"},
		Params: map[string]any{"tp-size": 1.0}, Round: 1, Attempt: 2, Outcome: job.OutcomeFailed, State: job.Failed,
		Exit: &job.Exit{Code: 1}, Reason: "exit", Evidence: "exit code 1", Warnings: []string{"sampling paused for 4 s"}, Machine: "gpu1",
		QueuedAt: queued, StartedAt: &started, EndedAt: &ended, QueuedSeconds: 1.5, RunSeconds: 3600,
		GPUInfo: goldenGPUInfo(), GPUMonitoring: goldenAggregate(),
		Report: &job.Report{GPUHours: 1, EnergyJoules: ptr(1118700.0), CPUSeconds: ptr(7200.5), PeakMemoryMB: ptr(int64(9000)),
			Advice: []string{"peak 20.0 of 80 GiB: -m 22Gi would let three run on a card"}},
		Attempts: goldenAttempts(), Artifacts: []job.Artifact{{Path: "out/metrics.json", Size: 420}}, Output: json.RawMessage(`{"throughput":12.5}`),
	}
}

// golden are the forms on the wire. Changing one of the files breaks consumers: add fields, never change them.
func golden() map[string]any {
	run := goldenResult()
	run.Attempt, run.Outcome, run.State, run.Attempts, run.Report, run.Output = 1, job.OutcomeMachineLost, job.Queued, nil, nil, nil
	run.Exit, run.GPUMonitoring, run.Reason, run.Machine = nil, nil, "machine_lost", "gpu2"
	cpu := &job.Result{
		Version: job.Version, JobID: "0195500a-7e00-7000-8000-000000000002", Number: 7, Project: "default", User: "ada", Round: 1,
		State: job.Cancelled, Outcome: job.OutcomeCancelled, Reason: "cancelled", QueuedAt: queued, EndedAt: &started, QueuedSeconds: 1.5,
	}
	return map[string]any{
		"job": &job.Job{
			Version: job.Version, ID: "0195500a-7e00-7000-8000-000000000001", Project: "serving", User: "ada", UserClaimed: true,
			SubmittedAt: queued, SubmitHost: "login1", Spec: goldenSpec(), Requirements: goldenRequirements(2),
			Tasks: &job.Tasks{Indexes: "1-2", Count: 2, MaxConcurrent: 8, Params: []map[string]any{{"tp-size": 1.0}, {"tp-size": 2.0}},
				Requirements: []job.Requirements{goldenRequirements(1), goldenRequirements(2)}},
		},
		"record": &job.Record{
			Version: job.Version, JobID: "0195500a-7e00-7000-8000-000000000001", Number: 1842, Index: ptr(1), Project: "serving", User: "ada",
			Name: "llama3-70b-tune", State: job.Failed, Epoch: 2, Round: 1, Requirements: goldenRequirements(1), Attempts: goldenAttempts(),
			Cancel: &job.Cancel{By: "ada", At: ended, Reason: "no longer needed"}, QueuedAt: queued, StartedAt: &started, EndedAt: &ended,
			Result: goldenResult(),
		},
		"record_group": &job.Record{
			Version: job.Version, JobID: "0195500a-7e00-7000-8000-000000000001", Number: 1842, Project: "serving", User: "ada", State: job.Queued,
			Reason: "Resources", ReasonText: "waits for 2 GPUs", Epoch: 1, Round: 1, Requirements: goldenRequirements(2),
			Group: &job.GroupRecord{Count: 2, Next: 1}, QueuedAt: queued,
		},
		"run":          run,
		"result":       goldenResult(),
		"result_queue": cpu,
	}
}

// sameJSON compares raw JSON without its blanks.
var sameJSON = cmp.Comparer(func(a, b json.RawMessage) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, b) == nil && x.String() == y.String()
})

func TestGoldenForms(t *testing.T) {
	t.Parallel()
	for name, value := range golden() {
		file := "testdata/" + name + ".json"
		got, err := json.MarshalIndent(value, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, '\n')
		if *update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s (-file +now):\n%s", file, diff)
		}
		back := reflect.New(reflect.TypeOf(value).Elem()).Interface()
		if err := json.Unmarshal(want, back); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if diff := cmp.Diff(value, back, sameJSON); diff != "" {
			t.Errorf("%s reads back different:\n%s", file, diff)
		}
	}
}

// The founding papers give these two blocks by name; whoever reads them reads exactly these keys.
func TestFoundingBlocks(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/result.json")
	if err != nil {
		t.Fatal(err)
	}
	var result map[string]any
	if err := json.Unmarshal(data, &result); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, keys string
	}{
		{"gpu_info", "count device_ids gpu_info model world_size"},
		{"gpu_info gpu_info", "allocation_method count details indices"},
		{"gpu_info gpu_info details", "availability_score index memory_free_mb name utilization_percent +uuid"},
		{"gpu_monitoring", "gpu_stats monitoring_duration_seconds sample_count"},
		{"gpu_monitoring gpu_stats 0", "memory_usage_percent memory_used_mb name power_draw_w temperature_c utilization +energy_joules +uuid"},
		{"gpu_monitoring gpu_stats 0 utilization", "max mean min samples"},
		{"gpu_monitoring gpu_stats 0 memory_used_mb", "max mean min"},
		{"gpu_monitoring gpu_stats 0 memory_usage_percent", "max mean min"},
		{"gpu_monitoring gpu_stats 0 temperature_c", "max mean min"},
		{"gpu_monitoring gpu_stats 0 power_draw_w", "max mean min"},
	} {
		var at any = result
		for step := range strings.FieldsSeq(c.path) {
			at = at.(map[string]any)[step]
			if list, ok := at.([]any); ok {
				at = list[0]
			}
		}
		var founding, ours []string
		for key := range strings.FieldsSeq(c.keys) {
			if name, extra := strings.CutPrefix(key, "+"); extra {
				ours = append(ours, name)
			} else {
				founding = append(founding, key)
			}
		}
		want := slices.Sorted(slices.Values(append(founding, ours...)))
		if got := slices.Sorted(maps.Keys(at.(map[string]any))); !cmp.Equal(got, want) {
			t.Errorf("%s has the keys %v, want %v", c.path, got, want)
		}
	}
	if ids := result["gpu_info"].(map[string]any)["device_ids"]; !cmp.Equal(ids, []any{"0"}) {
		t.Errorf("device_ids %v: the founding form is text", ids)
	}
}

// plant puts a field nobody knows into every object of a tree and counts them. Objects whose keys are data are left.
func plant(tree any, n *int) {
	switch v := tree.(type) {
	case map[string]any:
		for key, child := range v {
			switch key {
			case "labels", "params", "env", "matrix", "parameters", "output", "gpu_stats":
			default:
				plant(child, n)
			}
		}
		*n++
		v["zz/new~field"] = map[string]any{"since": json.Number("2"), "big": json.Number("123456789012345678901234567890")}
	case []any:
		for _, child := range v {
			plant(child, n)
		}
	}
}

func TestFieldsOfANewerVersionSurvive(t *testing.T) {
	t.Parallel()
	for name, value := range golden() {
		data, err := os.ReadFile("testdata/" + name + ".json")
		if err != nil {
			t.Fatal(err)
		}
		var tree map[string]any
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		if err := d.Decode(&tree); err != nil {
			t.Fatal(err)
		}
		planted := 0
		plant(tree, &planted)
		tree["version"] = json.Number("2")
		newer, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}

		back := reflect.New(reflect.TypeOf(value).Elem())
		if err := json.Unmarshal(newer, back.Interface()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		back.Elem().FieldByName("Project").SetString("changed")
		written, err := json.Marshal(back.Interface())
		if err != nil {
			t.Fatal(err)
		}
		tree["project"] = "changed"
		want, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(canonical(t, want), canonical(t, written)); diff != "" || planted < 1 {
			t.Errorf("%s (%d fields planted):\n%s", name, planted, diff)
		}
	}
}

func canonical(t *testing.T, data []byte) string {
	t.Helper()
	var tree any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	out, err := json.MarshalIndent(tree, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// An attempt appended by this version leaves the fields of the others where they were.
func TestExtraFollowsItsParent(t *testing.T) {
	t.Parallel()
	var r job.Record
	if err := json.Unmarshal([]byte(`{"version":1,"attempts":[{"attempt":1,"new":"a"},{"attempt":2,"new":"b"}],"cancel":{"by":"x","new":"c"}}`), &r); err != nil {
		t.Fatal(err)
	}
	r.Attempts = append(r.Attempts, job.Attempt{Attempt: 3})
	r.Cancel = nil
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var back struct {
		Attempts []struct {
			Attempt int
			New     string
		}
		Cancel any
	}
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	if len(back.Attempts) != 3 || back.Attempts[0].New != "a" || back.Attempts[1].New != "b" || back.Attempts[2].New != "" || back.Cancel != nil {
		t.Errorf("%s", data)
	}
}

func TestDecodeJobSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	good, err := os.ReadFile("testdata/job.json")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := job.DecodeJob(good); err != nil {
		t.Fatal(err)
	}
	for change, want := range map[string]string{
		`"version": 1>"version": 0`:                "it has no version",
		`"id": "0195>"id": "" , "x": "0195`:        "it has no id",
		`"project": "serving">"project": "a.b"`:    `its project is "a.b"`,
		`"user": "ada">"user": "Ada >"`:            "its user is",
		`"gpus": 2,>"gpus": -2,`:                   "it asks for -2 GPUs",
		`"memory_mb": 65536>"memory_mb": -1`:       "impossible amount of memory",
		`"count": 2>"count": 3`:                    "says 3 tasks and lists 2",
		`"indexes": "1-2">"indexes": "1-3"`:        "says 2 tasks and lists 3",
		`"indexes": "1-2">"indexes": "zz"`:         "neither a number nor a range",
		`"command": [>"kommand": [`:                "command: is missing",
		`"workdir": >"notify": ["x"], "workdir": `: "`notify` is not supported yet",
	} {
		from, to, _ := strings.Cut(change, ">")
		bad := strings.Replace(string(good), from, to, 1)
		if bad == string(good) {
			t.Fatalf("%s changes nothing", change)
		}
		if _, err := job.DecodeJob([]byte(bad)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", change, err, want)
		}
	}
	for _, garbage := range []string{"", "\x00\xff\x13", "null", "[]", "5", `{"version":1}`, `{"version":"x"}`, strings.Repeat("[", 100_000)} {
		if j, err := job.DecodeJob([]byte(garbage)); err == nil {
			t.Errorf("%.20q is taken for %+v", garbage, j)
		}
	}
}

func TestEncodeRefusesWhatNoMessageHolds(t *testing.T) {
	t.Parallel()
	j := job.Job{Tasks: &job.Tasks{}}
	if _, err := j.Encode(); err != nil {
		t.Fatal(err)
	}
	for range 20_000 {
		j.Tasks.Params = append(j.Tasks.Params, map[string]any{"a-rather-long-name-of-a-parameter": "a rather long value of it"})
	}
	if _, err := j.Encode(); err == nil || !strings.Contains(err.Error(), "split the matrix") {
		t.Errorf("a message of over 1 MiB: %v", err)
	}
}
