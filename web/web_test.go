package web

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/natsembed/natstest"
	"github.com/berthq/berth/queue"
)

const token = "the-token"

// house is a broker with a dashboard.
type house struct {
	t      testing.TB
	broker *natstest.Broker
	q      *queue.Queue
	s      *Server
	url    string
}

func newHouse(t testing.TB, change ...func(*Options)) *house {
	t.Helper()
	h := &house{t: t, broker: natstest.New(t)}
	nc := h.broker.Connect()
	q, err := queue.Open(t.Context(), nc, queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	h.q = q
	o := Options{Queue: q, Logger: slog.New(slog.DiscardHandler), Now: time.Now, By: "tester", Token: token}
	for _, c := range change {
		c(&o)
	}
	h.s = New(o)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.url = "http://" + l.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- h.s.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		http.DefaultClient.CloseIdleConnections()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		q.Close()
	})
	h.await(h.s.Loaded())
	return h
}

func (h *house) await(c <-chan struct{}) {
	h.t.Helper()
	select {
	case <-c:
	case <-time.After(time.Minute):
		h.t.Fatal("never loaded")
	}
}

func (h *house) submit(name string, change ...func(*job.Job)) uint64 {
	h.t.Helper()
	j := job.Job{Project: "p", User: "u", Spec: job.Spec{Name: name, Command: job.Command{"true"}}}
	for _, c := range change {
		c(&j)
	}
	r, err := h.q.Submit(h.t.Context(), j)
	if err != nil {
		h.t.Fatal(err)
	}
	return r.Number
}

// ask makes a request as somebody with the token; edit makes it somebody else.
func (h *house) ask(method, path, body string, edit ...func(*http.Request)) (int, string) {
	h.t.Helper()
	r, err := http.NewRequestWithContext(h.t.Context(), method, h.url+path, strings.NewReader(body))
	if err != nil {
		h.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("X-Berth", "1")
	for _, e := range edit {
		e(r)
	}
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		h.t.Fatal(err)
	}
	return res.StatusCode, string(data)
}

// list asks for jobs until the page fits.
func (h *house) list(query string, fits func(total int, jobs []row) bool) {
	h.t.Helper()
	end := time.Now().Add(time.Minute)
	for {
		var a struct {
			Total int   `json:"total"`
			Jobs  []row `json:"jobs"`
		}
		code, text := h.ask("GET", "/api/v1/jobs?"+query, "")
		if err := json.Unmarshal([]byte(text), &a); err != nil || code != 200 {
			h.t.Fatalf("%d %v: %s", code, err, text)
		}
		if fits(a.Total, a.Jobs) {
			return
		}
		if time.Now().After(end) {
			h.t.Fatalf("jobs?%s never fitted: %s", query, text)
		}
		h.s.hub.mu.Lock()
		wake := h.s.hub.wake
		h.s.hub.mu.Unlock()
		select {
		case <-wake:
		case <-time.After(time.Second):
		}
	}
}

func TestListFiltersSortsAndPages(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	for i := range 30 {
		h.submit(fmt.Sprintf("train-%02d", i), func(j *job.Job) { j.User = []string{"ada", "ben"}[i%2]; j.Requirements.GPUs = i % 3 })
	}
	h.list("limit=10", func(total int, jobs []row) bool { return total == 30 && len(jobs) == 10 && jobs[0].Number == 30 })
	h.list("limit=10&offset=25", func(_ int, jobs []row) bool { return len(jobs) == 5 && jobs[4].Number == 1 })
	h.list("user=ada&q=TRAIN-0", func(total int, _ []row) bool { return total == 5 })
	h.list("sort=gpus&limit=1", func(_ int, jobs []row) bool { return jobs[0].GPUs == 2 })
	h.list("sort=name&order=asc&limit=1", func(_ int, jobs []row) bool { return jobs[0].Name == "train-00" })
	h.list("state=running", func(total int, _ []row) bool { return total == 0 })
	if code, _ := h.ask("GET", "/api/v1/jobs?limit=lots", ""); code != http.StatusBadRequest {
		t.Errorf("limit=lots: %d", code)
	}
}

func TestActionsReachTheQueue(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	n := h.submit("x")
	if code, text := h.ask("POST", fmt.Sprintf("/api/v1/jobs/%d/cancel", n), `{"reason":"a test"}`); code != 200 {
		t.Fatalf("%d %s", code, text)
	}
	h.list("state=cancelled", func(total int, jobs []row) bool { return total == 1 && jobs[0].Number == n })
	v, err := h.q.Show(t.Context(), queue.JobRef(n))
	if err != nil || v.State != job.Cancelled {
		t.Fatalf("%v %v", v.State, err)
	}
	for path, want := range map[string]int{"/api/v1/jobs/999/cancel": 404, "/api/v1/jobs/x/cancel": 400, "/api/v1/jobs/1/explode": 404, fmt.Sprintf("/api/v1/jobs/%d/hold", n): 409} {
		if code, text := h.ask("POST", path, ""); code != want {
			t.Errorf("%s: %d, want %d: %s", path, code, want, text)
		}
	}
}

func TestWhoMayDoWhat(t *testing.T) {
	t.Parallel()
	closedHouse := newHouse(t)
	openHouse := newHouse(t, func(o *Options) { o.Open = true; o.Hosts = []string{"gpu1.example.org"} })
	stranger := func(r *http.Request) { r.Header.Del("Authorization") }
	for _, c := range []struct {
		name         string
		method, path string
		edit         func(*http.Request)
		closed, open int
	}{
		{"reads without the token", "GET", "/api/v1/jobs", stranger, 401, 200},
		{"opens a page without it", "GET", "/jobs", stranger, 401, 200},
		{"acts without it", "POST", "/api/v1/jobs/9/cancel", stranger, 401, 401},
		{"acts with it", "POST", "/api/v1/jobs/9/cancel", func(*http.Request) {}, 404, 404},
		{"a wrong token", "POST", "/api/v1/jobs/9/cancel", func(r *http.Request) { r.Header.Set("Authorization", "Bearer no") }, 401, 401},
		{"the cookie", "POST", "/api/v1/jobs/9/cancel", func(r *http.Request) { stranger(r); r.AddCookie(&http.Cookie{Name: cookieName, Value: token}) }, 404, 404},
		{"a form elsewhere", "POST", "/api/v1/jobs/9/cancel", func(r *http.Request) { r.Header.Del("X-Berth") }, 403, 403},
		{"a page elsewhere", "POST", "/api/v1/jobs/9/cancel", func(r *http.Request) { r.Header.Set("Origin", "http://evil.example") }, 403, 403},
		{"a name that was pointed here", "GET", "/api/v1/jobs", func(r *http.Request) { r.Host = "evil.example:7070" }, 421, 421},
		{"the dashboard's own name", "GET", "/api/v1/jobs", func(r *http.Request) { r.Host = "gpu1.example.org:7070" }, 421, 200},
		{"a path that is none", "GET", "/api/v1/passwords", func(*http.Request) {}, 404, 404},
	} {
		if code, text := closedHouse.ask(c.method, c.path, "", c.edit); code != c.closed {
			t.Errorf("%s: %d, want %d: %s", c.name, code, c.closed, text)
		}
		if code, text := openHouse.ask(c.method, c.path, "", c.edit); code != c.open {
			t.Errorf("open, %s: %d, want %d: %s", c.name, code, c.open, text)
		}
	}
	if _, text := closedHouse.ask("GET", "/jobs", "", stranger); !strings.Contains(text, "berth dashboard") || !strings.Contains(text, "Token") {
		t.Errorf("the page for those without the token does not say what to type: %s", text)
	}
}

func TestNamesDoNoHarm(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	// The queue's own door refuses such names; another program may have written them to the stream.
	for i, name := range []string{"<script>alert(1)</script>", "bell\a and \x1b[31mred\u202e", strings.Repeat("x", 10000)} {
		n := uint64(i + 1)
		h.s.hub.seeJob(queue.JobView{Ref: queue.JobRef(n), Number: n, Name: name, Job: &job.Job{}})
	}
	h.list("", func(total int, jobs []row) bool { return total == 3 && len([]rune(jobs[0].Name)) == nameMost+1 })
	code, text := h.ask("GET", "/api/v1/jobs", "")
	if code != 200 || strings.Contains(text, "<script>") || strings.Contains(text, "\a") || len(text) > 4000 {
		t.Errorf("%d: %s", code, text)
	}
	_, page := h.ask("GET", "/jobs/%3Cscript%3Ealert(1)%3C%2Fscript%3E", "")
	if strings.Contains(page, "<script>alert") {
		t.Errorf("the address became markup: %s", page)
	}
}

// beats reads the live events of a browser.
func (h *house) beats(t *testing.T) <-chan beat {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.url+"/api/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	res, err := (&http.Transport{}).RoundTrip(r) //nolint:bodyclose // the reader below closes it
	if err != nil {
		t.Fatal(err)
	}
	out := make(chan beat, 64)
	go func() {
		defer close(out)
		defer func() { _ = res.Body.Close() }()
		lines := bufio.NewScanner(res.Body)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var b beat
				if json.Unmarshal([]byte(data), &b) == nil {
					select {
					case out <- b:
					case <-t.Context().Done():
						return
					}
				}
			}
		}
	}()
	return out
}

func awaitBeat(t *testing.T, beats <-chan beat, what string, fits func(beat) bool) {
	t.Helper()
	end := time.After(time.Minute)
	for {
		select {
		case b, ok := <-beats:
			if !ok {
				t.Fatalf("the stream ended before: %s", what)
			}
			if fits(b) {
				return
			}
		case <-end:
			t.Fatalf("never: %s", what)
		}
	}
}

// Fifty browsers hear of a job, and the connection to the broker has fewer subscriptions than there are browsers: those
// of the five consumers, and of requests that come and go. One for each browser could not hide among them.
func TestManyBrowsersCostOneSubscriptionSet(t *testing.T) {
	t.Parallel()
	const browsers = 50
	h := newHouse(t)
	var all []<-chan beat
	for range browsers {
		b := h.beats(t)
		awaitBeat(t, b, "the first beat", func(beat) bool { return true })
		all = append(all, b)
	}
	n := h.s.hub.q.Subscriptions()
	t.Logf("%d subscriptions with %d browsers", n, browsers)
	if n >= browsers/2 {
		t.Errorf("%d subscriptions with %d browsers, want fewer than %d", n, browsers, browsers/2)
	}
	h.submit("news")
	for _, b := range all {
		awaitBeat(t, b, "jobs changed", func(b beat) bool { return strings.Contains(strings.Join(b.Topics, " "), "jobs") })
	}
}

// The broker dies while a page is open: the page is told, what was known stays readable, and it goes on by itself.
func TestBrokerDiesAndComesBack(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.submit("before")
	h.list("", func(total int, _ []row) bool { return total == 1 })
	beats := h.beats(t)
	h.broker.Stop()
	awaitBeat(t, beats, "told that the broker is away", func(b beat) bool { return b.Broker != "" })
	h.list("", func(total int, _ []row) bool { return total == 1 })
	h.broker.Start()
	awaitBeat(t, beats, "told that it is back", func(b beat) bool { return b.Broker == "" })
	h.submit("after")
	h.list("", func(total int, _ []row) bool { return total == 2 })
}

func TestAssetsWeighLittle(t *testing.T) {
	t.Parallel()
	var size int64
	err := fs.WalkDir(embedded, "assets", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		size += info.Size()
		return err
	})
	if err != nil || size == 0 || size > 2<<20 {
		t.Errorf("the assets weigh %d bytes, want under 2 MiB; %v", size, err)
	}
	t.Logf("assets: %d KiB", size>>10)
}

// runOnce does what a clerk and a worker do to the one job that waits: it runs on the GPU, and succeeds.
func (h *house) runOnce(number uint64, gpu string) { h.t.Helper(); h.runOn(h.q, number, gpu) }

// runOn is runOnce on a machine with a queue of its own.
func (h *house) runOn(q *queue.Queue, number uint64, gpu string) {
	h.t.Helper()
	ctx, stop := context.WithCancel(h.t.Context())
	clerk := make(chan error, 1)
	go func() { clerk <- h.q.RunClerk(ctx) }()
	check := func(err error) {
		h.t.Helper()
		if err != nil {
			h.t.Fatal(err)
		}
	}
	session, err := q.OpenSession(ctx, "m1", "start-1")
	check(err)
	puller, err := q.NewPuller(session)
	check(err)
	for changed := q.LanesChanged(); len(q.Lanes()) == 0; changed = q.LanesChanged() {
		h.await(changed)
	}
	delivery, err := puller.Next(ctx, []queue.Want{{Lane: q.Lanes()[0].Lane}})
	check(err)
	if delivery.Number != number {
		h.t.Fatalf("job %d came, want %d", delivery.Number, number)
	}
	claim, err := delivery.Claim(ctx, []string{gpu})
	check(err)
	check(claim.Finish(ctx, job.Result{Outcome: job.OutcomeSucceeded, Exit: &job.Exit{}}))
	check(puller.Close(ctx))
	check(session.Close(ctx))
	stop()
	check(<-clerk)
}
