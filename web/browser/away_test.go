package browser_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/natsembed/natstest"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/web"
)

// The broker dies while a page is open: the page says so, keeps what it knows, and goes on by itself.
func TestBrokerDiesWhileAPageIsOpen(t *testing.T) {
	needChromium(t)
	broker := natstest.New(t)
	q, err := queue.Open(t.Context(), broker.Connect(), queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	submit := func(name string) {
		t.Helper()
		if _, err := q.Submit(t.Context(), job.Job{Project: "p", User: "u", Spec: job.Spec{Name: name, Command: job.Command{"true"}}}); err != nil {
			t.Fatal(err)
		}
	}
	submit("before")
	s := web.New(web.Options{Queue: q, Logger: slog.New(slog.DiscardHandler), Now: time.Now, By: "tester"})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		q.Close()
	})
	b := open(t, s.URL(l))
	b.visit("/jobs")
	b.until(`document.querySelectorAll("tr[data-job]").length === 1 && document.body.dataset.live === "live"`)
	b.expectComplaints(true)
	broker.Stop()
	b.until(`document.getElementById("alert").innerText.includes("broker does not answer") && document.body.dataset.live === "cut"`)
	b.until(`document.querySelector("tr[data-job]").innerText.includes("before")`)
	b.accessible("/jobs without a broker")
	broker.Start()
	b.until(`document.getElementById("alert").innerText === "" && document.body.dataset.live === "live"`)
	submit("after")
	b.until(`document.querySelectorAll("tr[data-job]").length === 2`)
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
