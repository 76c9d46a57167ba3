package client_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/berthq/berth/client"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

var update = flag.Bool("update", false, "write docs/schema anew")

// schemas are the files of docs/schema and what makes them.
var schemas = map[string]func() map[string]any{
	"spec.json": job.SpecSchema, "result.json": job.ResultSchema, "event.json": queue.EventSchema,
}

func schemaFile(name string) string { return filepath.Join("..", "docs", "schema", name) }

// The files that people fetch are what the types say now.
func TestSchemasAreCurrent(t *testing.T) {
	t.Parallel()
	for name, of := range schemas {
		var want bytes.Buffer
		enc := json.NewEncoder(&want)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(of()); err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(schemaFile(name), want.Bytes(), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		got, err := os.ReadFile(schemaFile(name))
		if err != nil || !bytes.Equal(got, want.Bytes()) {
			t.Errorf("docs/schema/%s is not what the types say (%v): go test ./client -run Schemas -update", name, err)
		}
	}
}

// The page about events tells of every kind that is written.
func TestEveryKindOfEventIsDocumented(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "docs", "events.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n| kind |")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, kind := range queue.EventKinds() {
		if !strings.Contains(table, "`"+kind+"`") {
			t.Errorf("docs/events.md says nothing of %s", kind)
		}
	}
}

func compiled(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	s, err := c.Compile(schemaFile(name))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// complaint is what a schema says against the bytes of a message.
func complaint(t *testing.T, s *jsonschema.Schema, data []byte) error {
	t.Helper()
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	return s.Validate(value)
}

// A schema that takes everything would show nothing.
func TestSchemasRefuse(t *testing.T) {
	t.Parallel()
	good := map[string]string{
		"result.json": `{"version":1,"job_id":"x","number":1,"project":"lab","user":"ada","round":1,"attempt":0,"state":"cancelled",
			"queued_at":"2026-01-31T08:00:00Z","queued_seconds":1,"run_seconds":0,"of_a_newer_one":true}`,
		"event.json": `{"at":"2026-01-31T08:00:00Z","kind":"of-a-newer-one","project":"_","by":"ada","job":"7"}`,
	}
	bad := map[string][][2]string{
		"result.json": {{`"number":1`, `"number":"1"`}, {`"cancelled"`, `"gone"`}, {`"round":1,`, ``}, {`08:00:00Z`, `8 o'clock`},
			{`"of_a_newer_one":true`, `"exit":{"signal":"SIGKILL"}`}, {`"of_a_newer_one":true`, `"tasks":{"gone":1}`},
			{`"of_a_newer_one":true`, `"gpu_monitoring":{"monitoring_duration_seconds":1,"sample_count":1,"gpu_stats":{"0":{"name":"x","power_draw_w":{"min":1}}}}`}},
		"event.json": {{`"by":"ada",`, ``}, {`"job":"7"`, `"job":7`}, {`"job":"7"`, `"facts":{"gpu":0}`}},
	}
	for name, text := range good {
		s := compiled(t, name)
		if err := complaint(t, s, []byte(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, change := range bad[name] {
			other := strings.Replace(text, change[0], change[1], 1)
			if other == text || complaint(t, s, []byte(other)) == nil {
				t.Errorf("%s takes %s", name, other)
			}
		}
	}
}

// ends are jobs of every kind, and what they should come to.
func ends(gate string) map[string]job.Spec {
	word := func(name, script string) job.Spec {
		return job.Spec{Name: name, Command: job.Command{"sh", "-c", script}, Workdir: "/"}
	}
	gpu := word("succeeded", `echo '::progress 1/2 halves'; echo '{"loss":0.2}' > "$BERTH_RESULT_FILE"`)
	gpu.Resources.GPUs, gpu.Labels = job.CountOf(1), map[string]string{"team": "nlp"}
	array := word("array", `test "$BERTH_ARRAY_INDEX" = 1`)
	array.Array = "1-2"
	sweep := word("sweep", "true")
	sweep.Matrix = map[string][]any{"tp-size": {1, 2}}
	retried := word("failed", "exit 3")
	retried.Retry = &job.Retry{Retries: 1, Backoff: &job.Backoff{Initial: job.Duration(time.Millisecond)}}
	pipeline := job.Spec{Name: "pipeline", Workdir: "/", Resources: job.Resources{GPUs: job.CountOf(1)}, Steps: []job.Step{
		{Name: "load", Command: job.Command{"true"}}, {Name: "fit", Command: job.Command{"true"}},
	}}
	timeout := word("timeout", "exec sleep 600")
	timeout.TimeLimit = job.Duration(time.Second)
	running := word("cancelled", "echo > "+gate+"; exec sleep 600")
	held := word("cancelled in the queue", "true")
	held.Hold = true
	return map[string]job.Spec{"gpu": gpu, "array": array, "sweep": sweep, "failed": retried, "pipeline": pipeline, "timeout": timeout,
		"running": running, "held": held}
}

// Every message that a real worker and a real broker write for jobs that end in every way, as bytes, is what the published
// schemas say.
func TestRealMessagesFitTheSchemas(t *testing.T) {
	t.Parallel()
	s, err := open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	t.Cleanup(cancel)
	c, err := s.connect(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	states := s.runAll(ctx, t, c)
	want := map[string]job.State{"gpu": job.Succeeded, "array": job.Failed, "sweep": job.Succeeded, "failed": job.Failed,
		"pipeline": job.Succeeded, "timeout": job.TimedOut, "running": job.Cancelled, "held": job.Cancelled}
	for name, state := range want {
		if states[name] != state {
			t.Errorf("%s came to %s, want %s", name, states[name], state)
		}
	}

	seen := s.fits(ctx, t, queue.StreamResults, "result.json")
	for _, field := range []string{"index", "params", "labels", "exit", "reason", "progress", "gpu_info", "gpu_monitoring", "steps", "report", "attempts", "tasks", "output"} {
		if !slices.Contains(seen, field) {
			t.Errorf("no result has %s: this test shows too little", field)
		}
	}
	s.fits(ctx, t, queue.StreamRuns, "result.json")
	s.doDeeds(ctx, t, c)
	s.fits(ctx, t, queue.StreamEvents, "event.json")
	done := kindsOf(ctx, t, c)
	for _, kind := range queue.EventKinds() {
		if !slices.Contains(done, kind) && !slices.Contains(notDone, kind) {
			t.Errorf("no event of kind %s: this test shows too little", kind)
		}
	}
}

// runAll submits all of them and ends each as it should end.
func (s *site) runAll(ctx context.Context, t *testing.T, c *client.Client) map[string]job.State {
	t.Helper()
	ids := map[string]client.ID{}
	for name, spec := range ends(filepath.Join(s.dir, "gate")) {
		receipt, err := c.Submit(ctx, spec)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		ids[name] = client.Job(receipt.Number)
	}
	s.awaitFile(ctx, t, "gate")
	for _, name := range []string{"running", "held"} {
		if _, err := c.Cancel(ctx, ids[name], "no longer wanted"); err != nil {
			t.Fatalf("cancel %s: %v", name, err)
		}
	}
	states := map[string]job.State{}
	for name, id := range ids {
		r, err := c.Wait(ctx, id)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		states[name] = r.State
	}
	return states
}

func (s *site) awaitFile(ctx context.Context, t *testing.T, name string) {
	t.Helper()
	look := time.NewTicker(20 * time.Millisecond)
	defer look.Stop()
	for {
		if _, err := os.Stat(filepath.Join(s.dir, name)); err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s never came", name)
		case <-look.C:
		}
	}
}

// fits validates every message of a stream, and returns the names of all fields at the top of any.
func (s *site) fits(ctx context.Context, t *testing.T, stream, schema string) (fields []string) {
	t.Helper()
	nc, err := queue.Connect(ctx, queue.ConnectOptions{URL: s.url, Token: s.token})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	all, err := js.Stream(ctx, stream)
	if err != nil {
		t.Fatal(err)
	}
	rules, last := compiled(t, schema), all.CachedInfo().State.LastSeq
	for seq := uint64(1); seq <= last; seq++ {
		m, err := all.GetMsg(ctx, seq)
		if err != nil {
			t.Fatalf("%s %d: %v", stream, seq, err)
		}
		if err := complaint(t, rules, m.Data); err != nil {
			t.Errorf("%s: %v\n%s", m.Subject, err, m.Data)
		}
		var top map[string]json.RawMessage
		if err := json.Unmarshal(m.Data, &top); err != nil {
			t.Fatal(err)
		}
		for name := range top {
			fields = append(fields, name)
		}
	}
	fmt.Fprintf(t.Output(), "%s: %d messages fit docs/schema/%s\n", stream, last, schema)
	return fields
}
