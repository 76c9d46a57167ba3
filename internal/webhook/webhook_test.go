package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/berthq/berth/internal/webhook"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/natsembed/natstest"
	"github.com/berthq/berth/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var secret = []byte("a secret of the test, long enough")

// receiver is somebody's server: answer says what it does at each request.
type receiver struct {
	*httptest.Server
	mu       sync.Mutex
	accepted []uint64 // numbers of jobs, in order
	ids      []string // of all requests
	bad      []error
	some     chan struct{}
	answer   func(request int) int
	signed   string // the last signature
	body     []byte // the last body
}

func newReceiver(t *testing.T, answer func(int) int) *receiver {
	r := &receiver{answer: answer, some: make(chan struct{}, 100)}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, _ := io.ReadAll(q.Body)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.signed, r.body = q.Header.Get(webhook.HeaderSignature), body
	if err := webhook.Verify(secret, r.signed, body, time.Now(), time.Minute); err != nil {
		r.bad = append(r.bad, err)
	}
	r.ids = append(r.ids, q.Header.Get(webhook.HeaderDelivery))
	code := r.answer(len(r.ids))
	if code == http.StatusFound {
		w.Header().Set("Location", "http://127.0.0.1:1/secret")
	}
	w.WriteHeader(code)
	if code == http.StatusOK {
		var res job.Result
		if err := json.Unmarshal(body, &res); err != nil {
			r.bad = append(r.bad, err)
		}
		r.accepted = append(r.accepted, res.Number)
	}
	r.some <- struct{}{}
}

func (r *receiver) await(t *testing.T, requests int) {
	t.Helper()
	for range requests {
		select {
		case <-r.some:
		case <-time.After(time.Minute):
			t.Fatal("no request came")
		}
	}
}

// A receiver that fails, then a sender that ends in the middle: every result arrives, in order, under one id at each try,
// signed; none is sent again that was accepted.
func TestEveryResultArrives(t *testing.T) {
	t.Parallel()
	b := natstest.New(t)
	q, err := queue.Open(t.Context(), b.Connect(), queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	// 1, 2: fails; 3: leads elsewhere; 4: accepts the first result; 5: fails, and the sender ends there.
	r := newReceiver(t, func(n int) int {
		return map[int]int{1: 500, 2: 503, 3: http.StatusFound, 5: 500}[n] | okIf(n == 4 || n > 5)
	})
	end := deliver(t, q, r.URL)
	var want []uint64
	for range 3 {
		want = append(want, result(t, q))
	}
	r.await(t, 5)
	end()
	want = append(want, result(t, q)) // while nobody sends
	defer deliver(t, q, r.URL)()
	r.await(t, 3)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !equal(r.accepted, want) || len(r.bad) > 0 {
		t.Errorf("accepted %v, want %v; %v", r.accepted, want, r.bad)
	}
	if got := strings.Join(r.ids, " "); got != "result-1 result-1 result-1 result-1 result-2 result-2 result-3 result-4" {
		t.Errorf("requests: %s", got)
	}
	python(t, r.signed, r.body)
}

func okIf(yes bool) int {
	if yes {
		return http.StatusOK
	}
	return 0
}

func equal(a, b []uint64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// deliver sends until the returned function is called.
func deliver(t *testing.T, q *queue.Queue, url string) (end func()) {
	t.Helper()
	s, err := webhook.New(url, secret, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	ready := make(chan struct{})
	go func() {
		o := queue.DeliverOptions{Name: "hook", Backoff: 10 * time.Millisecond, Ready: func() { close(ready) }}
		ended <- q.DeliverResults(ctx, o, func(ctx context.Context, d queue.Delivered) error { return s.Send(ctx, d.ID, d.Try, d.Data) })
	}()
	select {
	case <-ready:
	case err := <-ended:
		t.Fatal(err)
	}
	return func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		s.Close()
	}
}

// result makes one: a job that is cancelled before it runs.
func result(t *testing.T, q *queue.Queue) uint64 {
	t.Helper()
	r, err := q.Submit(t.Context(), job.Job{Project: "p", User: "u", Spec: job.Spec{Command: job.Command{"true"}}})
	if err == nil {
		_, err = q.Cancel(t.Context(), queue.JobRef(r.Number), "u", "a test")
	}
	if err != nil {
		t.Fatal(err)
	}
	return r.Number
}

// python checks a signature with the example for it, and that a body with one byte more does not pass.
func python(t *testing.T, signature string, body []byte) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Log("NOT RUN: there is no python3 for examples/webhook/verify.py")
		return
	}
	for _, c := range []struct {
		body []byte
		ok   bool
	}{{body, true}, {append(bytes.Clone(body), ' '), false}} {
		cmd := exec.CommandContext(t.Context(), python, "../../examples/webhook/verify.py", string(secret), signature)
		cmd.Stdin = bytes.NewReader(c.body)
		if out, err := cmd.CombinedOutput(); (err == nil) != c.ok {
			t.Errorf("verify.py: %v, want accepted: %v\n%s", err, c.ok, out)
		}
	}
}

func TestSignatureIsChecked(t *testing.T) {
	t.Parallel()
	now, body := time.Unix(1_700_000_000, 0), []byte(`{"number":1}`)
	good := webhook.Sign(secret, now, body)
	if want := "t=1700000000,v1="; !strings.HasPrefix(good, want) {
		t.Errorf("%s begins not with %s", good, want)
	}
	for name, c := range map[string]struct {
		header string
		body   string
		now    time.Time
		ok     bool
	}{
		"good":         {good, string(body), now.Add(time.Minute), true},
		"another body": {good, "{}", now, false},
		"another time": {strings.Replace(good, "1700000000", "1700000001", 1), string(body), now, false},
		"sent again":   {good, string(body), now.Add(time.Hour), false},
		"no signature": {"", string(body), now, false},
		"no hex":       {"t=1700000000,v1=zz", string(body), now, false},
	} {
		err := webhook.Verify(secret, c.header, []byte(c.body), c.now, 5*time.Minute)
		if (err == nil) != c.ok || err != nil && !errors.Is(err, webhook.ErrSignature) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, bad := range []struct{ url, secret string }{{"ftp://x/", string(secret)}, {"not an address", string(secret)}, {"http://x/", "short"}} {
		if _, err := webhook.New(bad.url, []byte(bad.secret), time.Now); err == nil {
			t.Errorf("%v passes", bad)
		}
	}
}
