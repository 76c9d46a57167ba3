package job

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
)

// A message written by a newer Berth may hold fields this one does not know. Whoever reads, changes and writes a Job,
// a Record or a Result must not lose them, however deep they lie: Extra keeps them by their path ("attempts/0/weather",
// a JSON pointer without the leading slash), and encoding puts each back where its parent still is.
//
// Version goes up only with such additions. What an older Berth could not live with gets a new subject instead.

// MaxJobBytes bounds an encoded Job: a NATS server takes messages of 1 MiB by default, headers included.
const MaxJobBytes = 1000 << 10

type (
	plainJob    Job
	plainRecord Record
	plainResult Result
)

// MarshalJSON writes the job with the fields in Extra.
func (j Job) MarshalJSON() ([]byte, error) { return encodeWith(plainJob(j), j.Extra) }

// UnmarshalJSON reads a job and keeps unknown fields in Extra.
func (j *Job) UnmarshalJSON(data []byte) error {
	var p plainJob
	extra, err := decodeWith(data, &p)
	if err != nil {
		return err
	}
	*j = Job(p)
	j.Extra = extra
	return nil
}

// MarshalJSON writes the record with the fields in Extra.
func (r Record) MarshalJSON() ([]byte, error) { return encodeWith(plainRecord(r), r.Extra) }

// UnmarshalJSON reads a record and keeps unknown fields in Extra.
func (r *Record) UnmarshalJSON(data []byte) error {
	var p plainRecord
	extra, err := decodeWith(data, &p)
	if err != nil {
		return err
	}
	*r = Record(p)
	r.Extra = extra
	return nil
}

// MarshalJSON writes the result with the fields in Extra.
func (r Result) MarshalJSON() ([]byte, error) { return encodeWith(plainResult(r), r.Extra) }

// UnmarshalJSON reads a result and keeps unknown fields in Extra.
func (r *Result) UnmarshalJSON(data []byte) error {
	var p plainResult
	extra, err := decodeWith(data, &p)
	if err != nil {
		return err
	}
	*r = Result(p)
	r.Extra = extra
	return nil
}

// projectToken is what a project and a user look like: both are subject tokens.
var projectToken = regexp.MustCompile(`^[a-z0-9_-]{1,32}$`)

// ValidToken reports whether s can be a project or a user.
func ValidToken(s string) bool { return projectToken.MatchString(s) }

// TokenOf is an account's name as a user: ada.lovelace@LAB becomes ada-lovelace-lab.
func TokenOf(name string) string {
	token := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '_', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '-'
	}, name)
	token = token[:min(len(token), 32)]
	if token == "" {
		return "unknown"
	}
	return token
}

// Encode is the job's message, refused when it would not fit one.
func (j Job) Encode() ([]byte, error) {
	data, err := json.Marshal(j)
	if err != nil {
		return nil, fmt.Errorf("job: encode: %w", err)
	}
	if len(data) > MaxJobBytes {
		return nil, fmt.Errorf("job: %d KiB with all its tasks, and a message holds %d KiB: split the matrix", len(data)>>10, MaxJobBytes>>10)
	}
	return data, nil
}

// DecodeJob reads a message of the jobs stream. An error says why no worker can run it, for a reader of the result:
// the message may be anything at all.
func DecodeJob(data []byte) (Job, error) {
	var j Job
	if err := json.Unmarshal(data, &j); err != nil {
		return Job{}, fmt.Errorf("the message is not a job: %w", err)
	}
	return j, j.check()
}

// check reports what makes a job impossible to run whatever the machine.
func (j Job) check() error {
	var errs []error
	add := func(bad bool, format string, args ...any) {
		if bad {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	add(j.Version < 1, "it has no version")
	add(j.ID == "" || len(j.ID) > 64, "it has no id")
	add(!ValidToken(j.Project), "its project is %s", quoted(j.Project))
	add(!ValidToken(j.User), "its user is %s", quoted(j.User))
	r := j.Requirements
	add(r.GPUs < 0 || r.GPUs > maxCount || r.CPUs < 0 || r.CPUs > maxCount || r.Slots < 0, "it asks for %d GPUs and %d CPUs", r.GPUs, r.CPUs)
	add(r.GPUMemoryMB < 0 || r.GPUMemoryMB > maxMemoryMB || r.MemoryMB < 0 || r.MemoryMB > maxMemoryMB, "it asks for an impossible amount of memory")
	if j.Tasks != nil {
		if err := j.Tasks.check(); err != nil {
			errs = append(errs, err)
		}
	}
	if err := Validate(j.Spec); err != nil {
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		return fmt.Errorf("the message is not a job: %w", errors.Join(errs...))
	}
	return nil
}

// decodeWith reads data into p. The strict pass is enough as long as there is nothing unknown, which is always but
// while a fleet is upgraded.
func decodeWith(data []byte, p any) (map[string]json.RawMessage, error) {
	strict := json.NewDecoder(bytes.NewReader(data))
	strict.DisallowUnknownFields()
	if strict.Decode(p) == nil {
		return nil, nil
	}
	v := reflect.ValueOf(p).Elem()
	v.SetZero()
	if err := json.Unmarshal(data, p); err != nil {
		return nil, err
	}
	extra := map[string]json.RawMessage{}
	collectUnknown(data, v.Type(), "", extra)
	if len(extra) == 0 {
		return nil, nil
	}
	return extra, nil
}

var unmarshalerType = reflect.TypeFor[json.Unmarshaler]()

// collectUnknown walks data beside the type it was read into.
func collectUnknown(data json.RawMessage, t reflect.Type, path string, extra map[string]json.RawMessage) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if path != "" && reflect.PointerTo(t).Implements(unmarshalerType) {
		return // it keeps its own
	}
	switch t.Kind() {
	case reflect.Struct:
		known := jsonFields(t)
		for name, value := range objectOf(data) {
			f, ok := known.find(name)
			if !ok {
				extra[path+escapeKey(name)] = value
				continue
			}
			collectUnknown(value, f.Type, path+f.name+"/", extra)
		}
	case reflect.Map:
		for name, value := range objectOf(data) {
			collectUnknown(value, t.Elem(), path+escapeKey(name)+"/", extra)
		}
	case reflect.Slice:
		var items []json.RawMessage
		if json.Unmarshal(data, &items) != nil {
			return
		}
		for i, item := range items {
			collectUnknown(item, t.Elem(), path+strconv.Itoa(i)+"/", extra)
		}
	}
}

func objectOf(data json.RawMessage) map[string]json.RawMessage {
	var o map[string]json.RawMessage
	_ = json.Unmarshal(data, &o) // null, or not an object: nothing to walk
	return o
}

func escapeKey(s string) string   { return strings.NewReplacer("~", "~0", "/", "~1").Replace(s) }
func unescapeKey(s string) string { return strings.NewReplacer("~1", "/", "~0", "~").Replace(s) }

// encodeWith writes v and puts each extra field back where its parent still is.
func encodeWith(v any, extra map[string]json.RawMessage) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil || len(extra) == 0 {
		return data, err
	}
	tree, err := decodeTree(data)
	if err != nil {
		return nil, err
	}
	for path, value := range extra {
		v, err := decodeTree(value)
		if err != nil {
			return nil, fmt.Errorf("job: extra field %s: %w", path, err)
		}
		graft(tree, strings.Split(path, "/"), v)
	}
	return json.Marshal(tree)
}

// decodeTree keeps numbers as they are written.
func decodeTree(data []byte) (tree any, err error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	err = d.Decode(&tree)
	return tree, err
}

// graft sets the value at a path unless its parent is gone or the name is taken.
func graft(tree any, path []string, value any) {
	for i, step := range path {
		switch parent := tree.(type) {
		case map[string]any:
			key := unescapeKey(step)
			child, taken := parent[key]
			if i == len(path)-1 && !taken {
				parent[key] = value
			}
			tree = child
		case []any:
			n, err := strconv.Atoi(step)
			if err != nil || n < 0 || n >= len(parent) {
				return
			}
			tree = parent[n]
		default:
			return
		}
	}
}
