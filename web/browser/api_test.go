package browser_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"
)

// api is the dashboard as a program sees it, with the document that describes it.
type api struct {
	t           *testing.T
	base, token string
	document    struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct {
				Content map[string]struct{ Schema *jsonschema.Schema }
			}
		}
	}
	seen map[string]bool
}

func (a *api) ask(method, path, body string) (int, []byte) {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), method, a.base+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+a.token)
	r.Header.Set("X-Berth", "1")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		a.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		a.t.Fatal(err)
	}
	return res.StatusCode, text
}

// check asks, and holds the answer against the document: want 200, or a refusal.
func (a *api) check(method, path, as, body string, want int) []byte {
	a.t.Helper()
	code, text := a.ask(method, path, body)
	var answer any
	if err := json.Unmarshal(text, &answer); err != nil || code != want {
		a.t.Fatalf("%s %s: %d %v: %s, want %d", method, path, code, err, text, want)
	}
	kind := "200"
	if want != http.StatusOK {
		kind = "default"
	}
	schema := a.document.Paths[as][strings.ToLower(method)].Responses[kind].Content["application/json"].Schema
	if schema == nil {
		a.t.Fatalf("the document has no %s %s", method, as)
	}
	if kind == "default" {
		var refusal struct{ Error string }
		if json.Unmarshal(text, &refusal) != nil || refusal.Error == "" {
			a.t.Errorf("%s %s refuses without a reason: %s", method, path, text)
		}
		return text
	}
	resolved, err := schema.Resolve(nil)
	if err != nil {
		a.t.Fatal(err)
	}
	if err := resolved.Validate(answer); err != nil {
		a.t.Errorf("%s %s is not what the document says: %v\n%s", method, path, err, text)
	}
	if resolved.Validate(map[string]any{"surprise": true}) == nil {
		a.t.Errorf("%s %s: the document allows anything", method, as)
	}
	a.seen[method+" "+as] = true
	return text
}

// eventually asks until the answer has the text.
func (a *api) eventually(what, path, text string) {
	a.t.Helper()
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for end := time.Now().Add(patience); ; <-again.C {
		_, got := a.ask(http.MethodGet, path, "")
		if strings.Contains(string(got), text) {
			return
		}
		if time.Now().After(end) {
			a.t.Fatalf("never: %s: %s", what, got)
		}
	}
}

// Submit, explain and every action of a real berth up answer what the document of the API says. No browser is needed.
func TestActionsAnswerWhatTheDocumentSays(t *testing.T) {
	base, token, _ := strings.Cut(simulated(t), "/login?token=")
	a := &api{t: t, base: base, token: token, seen: map[string]bool{}}
	if _, text := a.ask(http.MethodGet, "/api/openapi.json", ""); json.Unmarshal(text, &a.document) != nil {
		t.Fatalf("%s", text)
	}
	act := func(path, as string, want int) {
		t.Helper()
		a.check(http.MethodPost, "/api/v1/"+path, "/api/v1/"+as, `{"reason": "a test"}`, want)
	}
	send := func(spec string) uint64 {
		t.Helper()
		body, _ := json.Marshal(map[string]string{"spec": spec})
		var answer struct{ Receipt struct{ Number uint64 } }
		if err := json.Unmarshal(a.check(http.MethodPost, "/api/v1/jobs", "/api/v1/jobs", string(body), 200), &answer); err != nil {
			t.Fatal(err)
		}
		return answer.Receipt.Number
	}
	const job = "jobs/{id}/{verb}"
	a.check(http.MethodPost, "/api/v1/jobs", "/api/v1/jobs", `{"spec": "comand: [true]"}`, 422)
	a.eventually("a machine", "/api/v1/machines", `"gpu1"`)
	act("machines/gpu1/drain", "machines/{name}/{verb}", 200)
	n := send("command: [sleep, '600']\nresources: {gpus: 4}")
	a.check(http.MethodGet, fmt.Sprintf("/api/v1/jobs/%d/explain", n), "/api/v1/jobs/{id}/explain", "", 200)
	for _, verb := range []string{"hold", "release", "cancel"} {
		act(fmt.Sprintf("jobs/%d/%s", n, verb), job, 200)
	}
	act(fmt.Sprintf("jobs/%d/retry", n), job, 200)
	act(fmt.Sprintf("jobs/%d/cancel", n), job, 200)
	act(fmt.Sprintf("jobs/%d/hold", n), job, 409)
	act(fmt.Sprintf("jobs/%d/release-lease", n), job, 400)
	act("machines/gpu1/undrain", "machines/{name}/{verb}", 200)
	act("machines/gpu1/gpus/0/quarantine", "machines/{name}/gpus/{gpu}/{verb}", 200)
	act("machines/gpu1/gpus/0/restore", "machines/{name}/gpus/{gpu}/{verb}", 200)
	act("machines/gpu1/gpus/77/quarantine", "machines/{name}/gpus/{gpu}/{verb}", 404)
	lease := send(`{"kind": "lease", "resources": {"gpus": 1}, "lease": {"for": "1h"}}`)
	a.eventually("the lease is held", "/api/v1/leases", fmt.Sprintf(`"number":%d`, lease))
	act(fmt.Sprintf("jobs/%d/release-lease", lease), job, 200)
	act("dead/99/drop", "dead/{id}/drop", 404)
	if len(a.seen) != 5 {
		t.Errorf("checked %v, want submit, explain and three kinds of actions", a.seen)
	}
}
