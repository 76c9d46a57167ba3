package job_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berthq/berth/job"
)

func TestParseArray(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text    string
		indexes []int
		most    int
		written string
	}{
		{"7", []int{7}, 0, "7"},
		{"1-4", []int{1, 2, 3, 4}, 0, "1-4"},
		{"0-9:2", []int{0, 2, 4, 6, 8}, 0, "0-9:2"},
		{"1,5,7-9", []int{1, 5, 7, 8, 9}, 0, "1,5,7-9"},
		{"9,1", []int{9, 1}, 0, "9,1"},
		{"1-3%2", []int{1, 2, 3}, 2, "1-3"},
		{" 1 - 3 , 5 % 8 ", []int{1, 2, 3, 5}, 8, "1-3,5"},
		{"0-9:2,1-9:2", []int{0, 2, 4, 6, 8, 1, 3, 5, 7, 9}, 0, "0-9:2,1-9:2"},
		{"3-3:5", []int{3}, 0, "3"},
	} {
		a, err := job.ParseArray(c.text)
		if err != nil {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		var got []int
		for pos, index := range a.All() {
			got = append(got, index)
			if at, ok := a.At(pos); !ok || at != index {
				t.Errorf("%q: position %d is %d, %v; want %d", c.text, pos, at, ok, index)
			}
			if p, ok := a.Position(index); !ok || p != pos {
				t.Errorf("%q: task %d stands at %d, %v; want %d", c.text, index, p, ok, pos)
			}
		}
		if !cmp.Equal(got, c.indexes) || a.Count() != len(got) || a.MaxConcurrent() != c.most || a.String() != c.written {
			t.Errorf("%q: %v (%d), %%%d, %q; want %v, %%%d, %q", c.text, got, a.Count(), a.MaxConcurrent(), a, c.indexes, c.most, c.written)
		}
		for _, pos := range []int{-1, a.Count()} {
			if index, ok := a.At(pos); ok {
				t.Errorf("%q: there is a task %d at %d", c.text, index, pos)
			}
		}
		if pos, ok := a.Position(999); ok {
			t.Errorf("%q: task 999 stands at %d", c.text, pos)
		}
	}
}

func TestArrayRefusals(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                          "neither a number nor a range",
		"x":                         "neither a number nor a range",
		"1-":                        "neither a number nor a range",
		"-5":                        "neither a number nor a range",
		"1--5":                      "neither a number nor a range",
		"1,,2":                      "neither a number nor a range",
		"+1":                        "neither a number nor a range",
		"1:2":                       "neither a number nor a range",
		"1-9:0":                     "neither a number nor a range",
		"1-9999999999":              "neither a number nor a range",
		"9-1":                       "write 1-9",
		"1-5,3":                     "names task 3 twice",
		"0-9:3,1-9:2":               "names task 3 twice",
		"1-100001":                  "more than 100000 tasks",
		"1-90000,0-0,200000-290000": "more than 100000 tasks",
		"1-5%":                      "after % comes",
		"1-5%0":                     "after % comes",
		"1-5%x":                     "after % comes",
		"1-5%2%3":                   "after % comes",
	} {
		if a, err := job.ParseArray(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, %v; want an error with %q", text, a, err, want)
		}
	}
}

func TestLargestArrayIsCheap(t *testing.T) { // counts allocations, so not in parallel
	tasks, err := job.Expand(job.Spec{Array: "1-100000%8"})
	if err != nil || tasks.Count != job.MaxTasks || tasks.MaxConcurrent != 8 || tasks.Params != nil {
		t.Fatalf("%+v, %v", tasks, err)
	}
	j := job.Job{Tasks: tasks}
	allocs := testing.AllocsPerRun(10, func() {
		if task, ok := j.Task(99_999); !ok || task.Index != 100_000 {
			t.Fatalf("last task: %+v, %v", task, ok)
		}
	})
	if allocs > 20 {
		t.Errorf("looking at one task of 100,000 allocates %v times", allocs)
	}
	n := 0
	for task := range j.AllTasks(99_990) {
		if want := 99_991 + n; task.Index != want || task.Pos != want-1 {
			t.Fatalf("task %+v, want index %d", task, want)
		}
		n++
	}
	if n != 10 {
		t.Errorf("%d tasks from position 99990 on, want 10", n)
	}
}

func TestExpandMatrix(t *testing.T) {
	t.Parallel()
	spec := job.Spec{
		Matrix:  map[string][]any{"tp-size": {1.0, 2.0, 4.0}, "mode": {"fast", "exact"}},
		Exclude: []map[string]any{{"tp-size": 1, "mode": "exact"}, {"tp-size": "4"}},
	}
	tasks, err := job.Expand(spec)
	if err != nil {
		t.Fatal(err)
	}
	want := &job.Tasks{Indexes: "1-3", Count: 3, Params: []map[string]any{
		{"mode": "fast", "tp-size": 1.0}, {"mode": "fast", "tp-size": 2.0}, {"mode": "exact", "tp-size": 2.0},
	}}
	if diff := cmp.Diff(want, tasks); diff != "" {
		t.Error(diff)
	}
	j := job.Job{Tasks: tasks, Requirements: job.Requirements{GPUs: 9}}
	tasks.Requirements = []job.Requirements{{GPUs: 1}, {GPUs: 2}, {GPUs: 2}}
	task, ok := j.Task(1)
	if !ok || task.Index != 2 || task.Requirements.GPUs != 2 || task.Params["mode"] != "fast" {
		t.Errorf("second task: %+v, %v", task, ok)
	}
}

func TestExpandRefusals(t *testing.T) {
	t.Parallel()
	many := slices.Repeat([]any{1.0}, 400)
	for name, s := range map[string]job.Spec{
		"array and matrix exclude each other": {Array: "1-2", Matrix: map[string][]any{"a": {1.0}}},
		"exclude without a matrix":            {Exclude: []map[string]any{{"a": 1.0}}},
		"has no values":                       {Matrix: map[string][]any{"a": {1.0}, "b": {}}},
		"leaves no combination":               {Matrix: map[string][]any{"a": {1.0}}, Exclude: []map[string]any{{"a": 1.0}}},
		"more than 100000 combinations":       {Matrix: map[string][]any{"a": many, "b": many}},
	} {
		if tasks, err := job.Expand(s); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %+v, %v", name, tasks, err)
		}
	}
	if tasks, err := job.Expand(job.Spec{}); tasks != nil || err != nil {
		t.Errorf("neither array nor matrix: %+v, %v", tasks, err)
	}
}

func TestParamText(t *testing.T) {
	t.Parallel()
	for want, v := range map[string]any{"1000000": 1e6, "2": 2, "0.5": 0.5, "true": true, "x": "x", "7": int64(7)} {
		if got := job.ParamText(v); got != want {
			t.Errorf("%#v: %q, want %q", v, got, want)
		}
	}
}
