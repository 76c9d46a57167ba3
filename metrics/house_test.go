package metrics_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/worker"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/natsembed/natstest"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/web"
)

// patience is a verdict on a hang, not on speed.
const patience = 60 * time.Second

// house is a broker, the command worker with simulated GPUs and its metrics, and a dashboard.
type house struct {
	t      *testing.T
	broker *natstest.Broker
	q      *queue.Queue
	own    string // the worker's address of metrics
	fleet  string // the dashboard's
	last   string // what was scraped last
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, broker: natstest.New(t)}
	q, err := queue.Open(t.Context(), h.broker.Connect(), queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	h.q = q
	h.dashboard()
	h.work()
	return h
}

// work starts the command and finds its address in what it logs.
func (h *house) work() {
	h.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	said := &log{}
	env := cli.Env{
		Args: []string{"--server", h.broker.URL(), "--store", h.t.TempDir(), "--name", "titan-" + h.t.Name(), "--gpu-source", "sim:2x24Gi", "--python", "none",
			"--settle", "0s", "--allow-root", "--metrics", "127.0.0.1:0"},
		Environ: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.t.TempDir()}, Stdout: io.Discard, Stderr: said, Now: time.Now,
		Notify: func(chan<- os.Signal, ...os.Signal) {},
	}
	ended := make(chan int, 1)
	go func() { ended <- cli.Execute(ctx, worker.Root(env), env) }()
	h.t.Cleanup(func() {
		stop()
		if code := <-ended; code != 0 {
			h.t.Errorf("the worker ended with %d:\n%s", code, said)
		}
	})
	address := regexp.MustCompile(`"msg":"metrics","address":"([^"]+)"`)
	h.until("the worker is ready", func() bool {
		m := address.FindStringSubmatch(said.String())
		if m == nil || !strings.Contains(said.String(), `"msg":"ready"`) {
			return false
		}
		h.own = "http://" + m[1] + "/metrics"
		return true
	})
}

func (h *house) dashboard() {
	h.t.Helper()
	s := web.New(web.Options{Queue: h.q, Logger: slog.New(slog.DiscardHandler), Now: time.Now, Token: "t"})
	l := httptest.NewServer(s.Metrics())
	h.fleet = l.URL
	pages := httptest.NewUnstartedServer(nil)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, pages.Listener) }()
	h.t.Cleanup(func() {
		stop()
		l.Close()
		if err := <-ended; err != nil {
			h.t.Error(err)
		}
	})
	select {
	case <-s.Loaded():
	case <-time.After(patience):
		h.t.Fatal("the dashboard never loaded")
	}
}

// log is what a command says, to be read while it does.
type log struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// until asks again and again: what it waits for is told to nobody.
func (h *house) until(what string, is func() bool) {
	h.t.Helper()
	for end := time.Now().Add(patience); !is(); {
		if time.Now().After(end) {
			h.t.Fatalf("not within %v: %s; the last scrape:\n%s", patience, what, ours(h.last))
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-h.t.Context().Done():
			h.t.Fatal(h.t.Context().Err())
		}
	}
}

func (h *house) submit(project string, gpus int, command ...string) queue.Ref {
	h.t.Helper()
	r, err := h.q.Submit(h.t.Context(), job.Job{
		Project: project, User: "ann", Requirements: job.Requirements{GPUs: gpus}, Spec: job.Spec{Command: command, Workdir: "/"},
	})
	if err != nil {
		h.t.Fatal(err)
	}
	return queue.JobRef(r.Number)
}

func (h *house) ended(ref queue.Ref) job.Result {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), patience)
	defer cancel()
	r, err := h.q.WaitResult(ctx, ref)
	if err != nil {
		h.t.Fatal(err)
	}
	return r
}

// scrape is what Prometheus would read.
type scrape map[string]*dto.MetricFamily

func (h *house) scrapeText(url string) string {
	h.t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Get(url)
	if err != nil {
		h.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		h.t.Fatalf("%s: %s %v\n%s", url, res.Status, err, data)
	}
	h.last = string(data)
	return h.last
}

// ours are the lines that are not Go's or the process's.
func ours(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "berth_") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "")
}

func (h *house) scrape(url string) scrape {
	h.t.Helper()
	return parse(h.t, h.scrapeText(url))
}

func parse(t *testing.T, text string) scrape {
	t.Helper()
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// value is the one series of a metric that has these labels ("project=lab"); absent is -1.
func (s scrape) value(t *testing.T, name string, labels ...string) float64 {
	t.Helper()
	found := -1.0
	for _, m := range s[name].GetMetric() {
		var have []string
		for _, l := range m.GetLabel() {
			have = append(have, l.GetName()+"="+l.GetValue())
		}
		if slices.ContainsFunc(labels, func(want string) bool { return !slices.Contains(have, want) }) {
			continue
		}
		if found >= 0 {
			t.Fatalf("%s%v: more than one series", name, labels)
		}
		switch {
		case m.Counter != nil:
			found = m.GetCounter().GetValue()
		case m.Histogram != nil:
			found = float64(m.GetHistogram().GetSampleCount())
		default:
			found = m.GetGauge().GetValue()
		}
	}
	return found
}

func gpu(i int) string { return fmt.Sprintf("gpu=%d", i) }
