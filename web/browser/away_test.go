package browser_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/natsembed/natstest"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/web"
)

// house is a broker with a dashboard, without workers.
type house struct {
	t      *testing.T
	broker *natstest.Broker
	q      *queue.Queue
	url    string
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, broker: natstest.New(t)}
	h.q = h.queue(queue.Options{})
	s := web.New(web.Options{Queue: h.q, Logger: slog.New(slog.DiscardHandler), Now: time.Now, By: "tester",
		Explain: func(context.Context, queue.Ref) (any, error) {
			return map[string]string{"text": "Nobody is there to run it."}, nil
		}})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h.url = s.URL(l)
	h.background(func(ctx context.Context) error { return s.Serve(ctx, l) })
	return h
}

func (h *house) queue(o queue.Options) *queue.Queue {
	h.t.Helper()
	q, err := queue.Open(h.t.Context(), h.broker.Connect(), o)
	if err != nil {
		h.t.Fatal(err)
	}
	h.t.Cleanup(q.Close)
	return q
}

// background runs do until the test ends.
func (h *house) background(do func(context.Context) error) {
	ctx, stop := context.WithCancel(context.WithoutCancel(h.t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- do(ctx) }()
	h.t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			h.t.Error(err)
		}
	})
}

func (h *house) submit(name string) {
	h.t.Helper()
	if _, err := h.q.Submit(h.t.Context(), job.Job{Project: "p", User: "u", Spec: job.Spec{Name: name, Command: job.Command{"true"}}}); err != nil {
		h.t.Fatal(err)
	}
}

// The broker dies while a page is open: the page says so, keeps what it knows, and goes on by itself.
func TestBrokerDiesWhileAPageIsOpen(t *testing.T) {
	needChromium(t)
	h := newHouse(t)
	h.submit("before")
	b := open(t, h.url)
	b.visit("/jobs")
	b.until(`document.querySelectorAll("tr[data-job]").length === 1 && document.body.dataset.live === "live"`)
	b.expectComplaints(true)
	h.broker.Stop()
	b.until(`document.getElementById("alert").innerText.includes("broker does not answer") && document.body.dataset.live === "cut"`)
	b.until(`document.querySelector("tr[data-job]").innerText.includes("before")`)
	b.accessible("/jobs without a broker")
	h.broker.Start()
	b.until(`document.getElementById("alert").innerText === "" && document.body.dataset.live === "live"`)
	h.submit("after")
	b.until(`document.querySelectorAll("tr[data-job]").length === 2`)
}

// What no clerk could read is a dead letter, and is dealt with by hand.
func TestDeadLetterIsDropped(t *testing.T) {
	needChromium(t)
	h := newHouse(t)
	h.background(h.q.RunClerk)
	if err := h.broker.Connect().Publish("berth.jobs.p.u", []byte("{ no job")); err != nil {
		t.Fatal(err)
	}
	b := open(t, h.url)
	b.visit("/dead")
	b.until(`document.querySelector("main tbody").innerText.includes("Garbage")`)
	b.accessible("/dead with one")
	b.press("Drop", true)
	b.until(`document.querySelector("main tbody").innerText.includes("No dead letters")`)
	b.visit("/audit")
	b.until(`document.body.innerText.includes("drop")`)
	if bad := b.complaints(); len(bad) > 0 {
		t.Errorf("pages logged errors: %q", bad)
	}
}

// Jobs that another program wrote to the stream, with names that submit refuses: markup, control characters, ten thousand
// letters. They are text on every page, and no page grows wider than a phone.
func TestNamesThatSubmitRefuses(t *testing.T) {
	needChromium(t)
	h := newHouse(t)
	nc := h.broker.Connect()
	names := []string{"<img src=x onerror=document.title='taken'>", "bell\a red\x1b[31m turned\u202e", strings.Repeat("W", 10_000)}
	for _, name := range names {
		body, err := json.Marshal(job.Job{Version: job.Version, ID: name[:4], Project: "p", User: "u", Spec: job.Spec{Name: name, Command: job.Command{"echo", name}, Labels: map[string]string{"label": name}}})
		if err == nil {
			err = nc.Publish("berth.jobs.p.u", body)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	b := open(t, h.url)
	b.run(chromedp.EmulateViewport(390, 844))
	b.visit("/jobs")
	b.until(`document.querySelectorAll("tr[data-job]").length === 3`)
	for _, at := range []string{"/jobs", "/jobs/1", "/jobs/2", "/jobs/3", "/"} {
		b.visit(at)
		if bad := b.says(`/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u202a-\u202e]/.test(document.body.textContent) || document.querySelector("main img") !== null || document.title === "taken" || document.documentElement.scrollWidth > 390`); bad != "false" {
			b.t.Errorf("%s: a name became markup, a control character was left, or the page is %s pixels wide", at, b.says(`document.documentElement.scrollWidth`))
		}
	}
	b.visit("/jobs/1")
	b.until(`document.querySelector("#lead").innerText.includes("<img src=x")`)
	if bad := b.complaints(); len(bad) > 0 {
		t.Errorf("pages logged errors: %q", bad)
	}
}

// The clocks of the browser and of a machine are hours off: what pages say of times is by the dashboard's clock.
func TestClocksThatDiffer(t *testing.T) {
	needChromium(t)
	h := newHouse(t)
	h.submit("just now")
	ahead := h.queue(queue.Options{Now: func() time.Time { return time.Now().Add(3 * time.Hour) }})
	b := open(t, h.url)
	b.run(chromedp.ActionFunc(func(ctx context.Context) error {
		_, err := page.AddScriptToEvaluateOnNewDocument(`{
			const Real = Date, off = -7 * 3600e3;
			globalThis.Date = class extends Real { constructor(...a) { a.length ? super(...a) : super(Real.now() + off); } static now() { return Real.now() + off; } };
		}`).Do(ctx)
		return err
	}))
	b.visit("/jobs")
	if off := b.says(`Math.round((new Date() - performance.timeOrigin - performance.now()) / 3600e3)`); off != "-7" {
		t.Fatalf("the browser's clock is %s hours off, want -7", off)
	}
	fresh := `/^(<?\d+ s|\d+ min( \d+ s)?) ago$/`
	b.until(`document.querySelectorAll("tr[data-job] time").length > 0 && [...document.querySelectorAll("tr[data-job] time")].every(e => ` + fresh + `.test(e.innerText))`)
	if err := ahead.Announce(t.Context(), queue.Machine{Name: "m1", CPUs: 4, GPUs: []queue.GPU{{UUID: "GPU-1", Name: "Card", Slots: 1, State: "ready"}}}); err != nil {
		t.Fatal(err)
	}
	b.visit("/machines")
	b.until(`document.querySelector("[data-machine] .warn")?.innerText.includes("its clock is 3h0m0s ahead of the dashboard's")`)
	b.until(fresh + `.test(document.querySelector("[data-machine] .facts time").innerText)`)
	b.visit("/")
	now := time.Now()
	b.until(`document.querySelectorAll(".ticks span").length === 6`)
	want := []string{now.Format("15:04"), now.Add(-time.Minute).Format("15:04"), now.Add(-2 * time.Minute).Format("15:04"), now.Add(time.Minute).Format("15:04")}
	if got := b.says(`document.querySelectorAll(".ticks span")[4].innerText`); !slices.Contains(want, got) {
		t.Errorf("the time before now is labelled %s, want %s", got, now.Format("15:04"))
	}
	if bad := b.complaints(); len(bad) > 0 {
		t.Errorf("pages logged errors: %q", bad)
	}
}

// The dashboard is started again while a page is open: the page says that it is away and goes on with the token it has.
func TestDashboardIsStartedAgain(t *testing.T) {
	needChromium(t)
	dir := t.TempDir()
	berth(t, dir, "up", "--no-worker", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--store", filepath.Join(dir, "store"))
	first, end := berth(t, dir, "dashboard", "--http", "127.0.0.1:0")
	b := open(t, first)
	b.visit("/jobs")
	b.until(`document.body.dataset.live === "live"`)
	b.expectComplaints(true)
	end()
	b.until(`document.getElementById("alert").innerText.includes("dashboard does not answer")`)
	again, _ := berth(t, dir, "dashboard", "--http", strings.TrimPrefix(b.base, "http://"))
	if again != first {
		t.Errorf("the address was %s and is %s", first, again)
	}
	b.until(`document.getElementById("alert").innerText === "" && document.body.dataset.live === "live"`)
	b.expectComplaints(false)
	var refused string
	b.eval(`fetch("/api/v1/jobs/99/cancel", {method: "POST", headers: {"X-Berth": "1"}}).then(r => String(r.status))`, &refused)
	if refused != "404" {
		t.Errorf("an action of the open page is answered with %s, want 404: there is no job 99", refused)
	}
}

// A browser without the token sees how to get it; one with it comes in by typing it.
func TestBrowserWithoutTheToken(t *testing.T) {
	needChromium(t)
	url := up(t, "--no-worker", "--store", t.TempDir())
	base, token, _ := strings.Cut(url, "/login?token=")
	b := open(t, base+"/login")
	b.expectComplaints(true) // the answer is 401
	b.run(navigate(base + "/jobs"))
	b.until(`document.body.innerText.includes("wants its token")`)
	b.accessible("the page that asks for the token")
	b.run(typeIn("#token", "wrong"))
	b.press("Open", false)
	b.until(`document.querySelector("[role=alert]")?.innerText.includes("not the token")`)
	b.run(typeIn("#token", token))
	b.press("Open", false)
	b.until(`document.body.dataset.shown === "true"`)
	b.expectComplaints(false)
	b.visit("/jobs")
	b.until(`document.body.innerText.includes("No jobs yet")`)
	b.visit("/machines")
	b.until(`document.body.innerText.includes("No machine is there")`)
	b.accessible("/machines with none")
	if bad := b.complaints(); len(bad) > 0 {
		t.Errorf("pages logged errors: %q", bad)
	}
}
