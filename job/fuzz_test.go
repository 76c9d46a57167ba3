package job_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berthq/berth/job"
)

// seed adds every file under testdata that matches.
func seed(f *testing.F, pattern string) {
	f.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		f.Fatalf("%s: %d files, %v", pattern, len(files), err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
}

// Whatever a message holds, reading it and writing it loses nothing the second time: neither known nor unknown fields.
func FuzzRoundTrip(f *testing.F) {
	seed(f, "testdata/*.json")
	f.Add([]byte(`{"attempts":[{"x/y":{"~":[1]}}],"new":{"a":1e400}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		roundTrip[job.Job](t, data)
		roundTrip[job.Record](t, data)
		roundTrip[job.Result](t, data)
	})
}

func roundTrip[T any](t *testing.T, data []byte) {
	t.Helper()
	var first, second T
	if json.Unmarshal(data, &first) != nil {
		return
	}
	one, err := json.Marshal(first)
	if err != nil {
		t.Fatalf("%T is read and cannot be written: %v", first, err)
	}
	if err := json.Unmarshal(one, &second); err != nil {
		t.Fatalf("%T writes what it cannot read: %v\n%s", first, err, one)
	}
	two, err := json.Marshal(second)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(sorted(t, one), sorted(t, two)) {
		t.Errorf("%T changes when it is read and written again:\n%s\n%s", first, one, two)
	}
}

func sorted(t *testing.T, data []byte) []byte {
	t.Helper()
	var tree any
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(tree)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Whatever a file holds, it is either refused with a place, or read the same from its own encoding.
func FuzzParseSpecs(f *testing.F) {
	seed(f, "testdata/*.yaml")
	seed(f, "testdata/bad/*")
	f.Add([]byte("command: [a]\nparameters: &p {a: *p}"))
	f.Add([]byte("? [a]\n: b\n"))
	f.Add([]byte("command: !!binary aGk=\nname: !!timestamp 2001-01-01\n<<: [{}, *x]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		specs, err := job.ParseSpecs(data, "f")
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f:") || len(job.Problems(err)) == 0 {
				t.Errorf("a refusal without a place: %v", err)
			}
			return
		}
		encoded, err := json.Marshal(specs)
		if err != nil {
			t.Fatal(err)
		}
		again, err := job.ParseSpecs(encoded, "f")
		if err != nil {
			t.Fatalf("%v\n%s", err, encoded)
		}
		second, err := json.Marshal(again)
		if err != nil || !bytes.Equal(encoded, second) {
			t.Errorf("%v\n%s\n%s", err, encoded, second)
		}
		for _, s := range specs {
			if tasks, err := job.Expand(s); err != nil || tasks != nil && (tasks.Count < 1 || tasks.Count > job.MaxTasks) {
				t.Errorf("an accepted spec expands to %+v, %v", tasks, err)
			}
		}
	})
}

func FuzzArray(f *testing.F) {
	for _, s := range []string{"1-150%8", "0-9:2", "1,5,7-9", "3", "9-1", "1-5,3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := job.ParseArray(s)
		if err != nil {
			return
		}
		again, err := job.ParseArray(a.String())
		if err != nil || again.Count() != a.Count() {
			t.Fatalf("%q: %q, %v", s, a, err)
		}
		n := 0
		for pos, index := range a.All() {
			if back, ok := again.Position(index); !ok || back != pos {
				t.Fatalf("%q: task %d stands at %d, %v; want %d", s, index, back, ok, pos)
			}
			n++
		}
		if n != a.Count() || n < 1 || n > job.MaxTasks {
			t.Errorf("%q: %d tasks, says %d", s, n, a.Count())
		}
	})
}

func FuzzSettings(f *testing.F) {
	for _, s := range []string{"auto", "20Gi", "8000MB", "1.5Ti", "12h", "1-02:03:04", "30:00", "7", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if m, err := job.ParseMemory(s); err == nil {
			if back, err := job.ParseMemory(m.String()); err != nil || back != m {
				t.Errorf("memory %q: %v reads back as %v, %v", s, m, back, err)
			}
		}
		if c, err := job.ParseCount(s); err == nil {
			if back, err := job.ParseCount(c.String()); err != nil || back != c {
				t.Errorf("count %q: %v reads back as %v, %v", s, c, back, err)
			}
		}
		if d, err := job.ParseDuration(s); err == nil {
			if back, err := job.ParseDuration(d.String()); d < 0 || err != nil && d >= 1e6 || err == nil && back != d {
				t.Errorf("duration %q: %v reads back as %v, %v", s, d, back, err)
			}
		}
	})
}

// The empty value of every word is valid JSON and reads back as itself.
func TestZeroValues(t *testing.T) {
	t.Parallel()
	for _, v := range []any{&job.Job{}, &job.Record{}, &job.Result{}, &job.Spec{}} {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		back := reflect.New(reflect.TypeOf(v).Elem()).Interface()
		if err := json.Unmarshal(data, back); err != nil || !cmp.Equal(v, back) {
			t.Errorf("%s reads back as %+v, %v", data, back, err)
		}
	}
}
