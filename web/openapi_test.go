package web

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// document is what a program reads of the OpenAPI document.
type document struct {
	OpenAPI string
	Paths   map[string]map[string]struct {
		Responses map[string]struct {
			Content map[string]struct{ Schema *jsonschema.Schema }
		}
	}
}

// schema is what the document says about the answer of a path.
func (d document) schema(t *testing.T, method, path string) *jsonschema.Resolved {
	t.Helper()
	op, ok := d.Paths[path][strings.ToLower(method)]
	if !ok {
		t.Fatalf("the document has no %s %s", method, path)
	}
	resolved, err := op.Responses["200"].Content["application/json"].Schema.Resolve(nil)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return resolved
}

// The document has every route, every path in it answers, and the answers are what it says they are.
func TestDocumentSaysWhatTheAPIDoes(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	n := h.submit("documented", func(j *job.Job) { j.Requirements.GPUs = 2; j.Spec.Labels = map[string]string{"a": "b"} })
	h.submit("cancelled")
	group := h.submit("sweep", func(j *job.Job) {
		j.Tasks = &job.Tasks{Indexes: "1-2", Count: 2, Params: []map[string]any{{"lr": 1}, {"lr": 2}}}
	})
	code, text := h.ask("GET", "/api/openapi.json", "")
	var d document
	if err := json.Unmarshal([]byte(text), &d); err != nil || code != 200 || d.OpenAPI != "3.1.0" {
		t.Fatalf("%d %v %.200s", code, err, text)
	}
	if ops := count(d); ops != len(api) {
		t.Errorf("the document has %d operations, the server has %d routes", ops, len(api))
	}
	if err := h.q.Announce(t.Context(), machineWithGPU()); err != nil {
		t.Fatal(err)
	}
	beats := h.beats(t)
	awaitBeat(t, beats, "the machine is known", func(beat) bool { return len(h.s.hub.fleet()) == 1 })
	id := fmt.Sprint(n)
	letter := h.deadLetter()
	for _, c := range []struct{ method, path, at string }{
		{"GET", "/api/v1/overview", ""}, {"GET", "/api/v1/jobs", ""}, {"GET", "/api/v1/jobs/{id}", "/api/v1/jobs/" + id}, {"GET", "/api/v1/jobs/{id}", fmt.Sprintf("/api/v1/jobs/%d", group)},
		{"GET", "/api/v1/jobs/{id}/tasks", fmt.Sprintf("/api/v1/jobs/%d/tasks", group)}, {"GET", "/api/v1/jobs/{id}/series", "/api/v1/jobs/" + id + "/series"},
		{"GET", "/api/v1/reasons", "/api/v1/reasons?ids=" + id}, {"GET", "/api/v1/machines", ""}, {"GET", "/api/v1/machines/{name}/history", "/api/v1/machines/m1/history"},
		{"GET", "/api/v1/leases", ""}, {"GET", "/api/v1/dead", ""}, {"GET", "/api/v1/usage", ""}, {"GET", "/api/v1/timeline", ""},
		{"POST", "/api/v1/jobs/{id}/{verb}", "/api/v1/jobs/2/cancel"}, {"GET", "/api/v1/audit", ""},
		{"POST", "/api/v1/dead/{id}/drop", "/api/v1/dead/" + letter + "/drop"},
	} {
		if c.at == "" {
			c.at = c.path
		}
		code, text := h.ask(c.method, c.at, "")
		var answer any
		if err := json.Unmarshal([]byte(text), &answer); err != nil || code != http.StatusOK {
			t.Errorf("%s: %d %v: %s", c.at, code, err, text)
			continue
		}
		schema := d.schema(t, c.method, c.path)
		if err := schema.Validate(answer); err != nil {
			t.Errorf("%s is not what the document says: %v\n%s", c.at, err, text)
		}
		if err := schema.Validate(map[string]any{"surprise": true}); err == nil {
			t.Errorf("%s: the document allows anything", c.path)
		}
	}
}

// deadLetter is what becomes of a message that is no job.
func (h *house) deadLetter() string {
	h.t.Helper()
	if err := h.broker.Connect().Publish("berth.jobs.p.u", []byte("{ no job")); err != nil {
		h.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(h.t.Context())
	clerk := make(chan error, 1)
	go func() { clerk <- h.q.RunClerk(ctx) }()
	var id string
	h.list("state=dead", func(total int, jobs []row) bool {
		if total == 1 {
			id = jobs[0].ID
		}
		return total == 1
	})
	stop()
	if err := <-clerk; err != nil {
		h.t.Fatal(err)
	}
	return id
}

func count(d document) (ops int) {
	for _, methods := range d.Paths {
		ops += len(methods)
	}
	return ops
}

func machineWithGPU() queue.Machine {
	free, busy := int64(1024), 12.5
	return queue.Machine{Name: "m1", Version: "test", CPUs: 4, GPUs: []queue.GPU{{UUID: "GPU-1", Name: "Card", MemoryTotalMB: 2048, MemoryFreeMB: &free, UtilizationPercent: &busy, Slots: 1, State: "ready"}}}
}
