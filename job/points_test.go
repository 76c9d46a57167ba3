package job_test

import (
	"strings"
	"testing"

	"github.com/berthq/berth/job"
)

func TestPointsAreTasks(t *testing.T) {
	t.Parallel()
	s := job.Spec{
		Command: job.Command{"train", "--lr", "{{.lr}}", "{{.seed_no}}"},
		Points:  []map[string]any{{"lr": 0.1, "seed-no": 1.0}, {"lr": 0.2, "seed-no": 1.0}, {"lr": 0.1, "seed-no": 1.0}},
		Group:   &job.Group{MaxConcurrent: 2, MaxGPUs: 8, MaxFailures: 1},
	}
	if err := job.Validate(s); err != nil {
		t.Fatal(err)
	}
	tasks, err := job.Expand(s)
	if err != nil || tasks.Count != 3 || tasks.Indexes != "1-3" {
		t.Fatalf("tasks %+v, %v", tasks, err)
	}
	j := job.Job{Spec: s, Tasks: &job.Tasks{Indexes: tasks.Indexes, Count: tasks.Count}} // the points are said once
	if second, ok := j.Task(1); !ok || second.Index != 2 || second.Params["lr"] != 0.2 {
		t.Errorf("the second task is %+v, %v", second, ok)
	}
}

func TestGroupsThatMakeNoSense(t *testing.T) {
	t.Parallel()
	point := func(keys ...string) map[string]any {
		m := map[string]any{}
		for _, k := range keys {
			m[k] = 1.0
		}
		return m
	}
	for want, s := range map[string]job.Spec{
		"points[1]: has no `lr`":                     {Points: []map[string]any{point("lr", "b"), point("b")}},
		"points[1]: has keys":                        {Points: []map[string]any{point("lr"), point("lr", "b")}},
		"points[0].lr: want text, a number":          {Points: []map[string]any{{"lr": []any{1}}}},
		"points[0]: has no key":                      {Points: []map[string]any{{}}},
		"points: \"a b\": a key is letters":          {Points: []map[string]any{point("a b")}},
		"matrix and points exclude each other":       {Points: []map[string]any{point("a")}, Matrix: map[string][]any{"b": {1.0}}},
		"array and points exclude each other":        {Points: []map[string]any{point("a")}, Array: "1-3"},
		"group: limits the tasks of a group":         {Group: &job.Group{MaxFailures: 1}},
		"group.max_concurrent: -1":                   {Array: "1-3", Group: &job.Group{MaxConcurrent: -1}},
		"group.max_concurrent: says 4 and array say": {Array: "1-9%8", Group: &job.Group{MaxConcurrent: 4}},
		"group.max_gpus: is 2 and each task asks for 4 GPUs": {
			Array: "1-9", Group: &job.Group{MaxGPUs: 2}, Resources: job.Resources{GPUs: job.CountOf(4)},
		},
	} {
		s.Command = job.Command{"true"}
		err := job.Validate(s)
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), `"lr"`, "`lr`"), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
