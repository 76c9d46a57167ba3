package browser_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

const (
	manyJobs     = 100_000
	manyBrowsers = 50
)

// A real berth dashboard beside a real broker with a hundred thousand jobs and fifty open pages: what it holds in memory,
// how long the Jobs page waits, and what the broker says that all of it costs in subscriptions.
func TestWhatADashboardCosts(t *testing.T) {
	if os.Getenv("BERTH_LONG") == "" {
		t.Skip("DID NOT RUN: a process with 100,000 jobs takes a minute; set BERTH_LONG=1 (make test-all)")
	}
	broker, nc := plainBroker(t)
	fillStreams(t, nc)
	url, pid := dashboardProcess(t, broker.ClientURL())
	base, token, _ := strings.Cut(url, "/login?token=")
	a := &api{t: t, base: base, token: token}
	a.eventually("all jobs are read", "/api/v1/jobs?limit=1", fmt.Sprintf(`"loaded":true,"total":%d`, manyJobs))
	before := subscriptions(t, broker)
	for range manyBrowsers {
		a.listen()
	}
	after := subscriptions(t, broker)
	t.Logf("subscriptions of the dashboard at the broker: %d alone, %d with %d open pages", before, after, manyBrowsers)
	if after > before+3 { // requests that come and go
		t.Errorf("%d subscriptions with %d open pages, %d without", after, manyBrowsers, before)
	}
	fastest := time.Hour
	for range 20 {
		start := time.Now()
		if code, text := a.ask(http.MethodGet, "/api/v1/jobs?limit=50", ""); code != http.StatusOK || len(text) < 5000 {
			t.Fatalf("%d %s", code, text)
		}
		fastest = min(fastest, time.Since(start))
	}
	t.Logf("first paint data of the Jobs page: %v at best of 20", fastest)
	if fastest > 300*time.Millisecond {
		t.Errorf("the Jobs page waits %v for its data, want under 300 ms", fastest)
	}
	now, most := memory(t, pid)
	t.Logf("the process holds %d MiB, at most %d MiB so far", now, most)
	if most >= 200 {
		t.Errorf("the process held %d MiB, want under 200", most)
	}
}

func plainBroker(t *testing.T) (*server.Server, *nats.Conn) {
	t.Helper()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(patience) {
		t.Fatal("no broker")
	}
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return s, nc
}

// fillStreams writes jobs that have run as submit and workers left them.
func fillStreams(t *testing.T, nc *nats.Conn) {
	t.Helper()
	q, err := queue.Open(t.Context(), nc, queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	start := time.Now().Add(-time.Hour).UTC()
	ended := start.Add(time.Minute)
	for i := range manyJobs {
		n, user := uint64(i+1), fmt.Sprintf("user%d", i%40)
		put := func(subject string, v any) {
			body, err := json.Marshal(v)
			if err == nil {
				err = nc.Publish(subject, body)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		put("berth.jobs.vision."+user, job.Job{Version: job.Version, ID: fmt.Sprintf("job-%d", n), Project: "vision", User: user, SubmittedAt: start,
			Spec: job.Spec{Name: fmt.Sprintf("train-%d", i), Command: job.Command{"python", "train.py", "--seed", fmt.Sprint(i)}}})
		put(fmt.Sprintf("$KV.%s.%d", queue.BucketRecords, n), job.Record{Version: job.Version, Number: n, State: job.Succeeded, QueuedAt: start, StartedAt: &start, EndedAt: &ended, Machine: "m1",
			Project: "vision", Attempts: []job.Attempt{{Attempt: 1, Machine: "m1", Devices: []string{fmt.Sprintf("GPU-%d", i%8)}, StartedAt: start, EndedAt: &ended, Outcome: job.OutcomeSucceeded}}})
		if i%500 == 499 {
			if err := nc.FlushTimeout(patience); err != nil { // the broker keeps up
				t.Fatal(err)
			}
		}
	}
}

// dashboardProcess builds berth and starts its dashboard.
func dashboardProcess(t *testing.T, broker string) (url string, pid int) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "berth")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "github.com/berthq/berth/cmd/berth").CombinedOutput(); err != nil { //nolint:gosec // our own source
		t.Fatalf("%v: %s", err, out)
	}
	cmd := exec.Command(program, "dashboard", "--server", broker, "--http", "127.0.0.1:0") //nolint:gosec // what was just built
	cmd.Env = append(os.Environ(), "XDG_CONFIG_HOME="+t.TempDir())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }) // it was killed
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line), cmd.Process.Pid
}

// listen opens a page's stream of events and reads it until the test ends.
func (a *api) listen() {
	a.t.Helper()
	r, err := http.NewRequestWithContext(a.t.Context(), http.MethodGet, a.base+"/api/v1/events", nil)
	if err != nil {
		a.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+a.token)
	res, err := (&http.Transport{}).RoundTrip(r)
	if err != nil {
		a.t.Fatal(err)
	}
	read := make(chan struct{})
	lines := bufio.NewReader(res.Body)
	if _, err := lines.ReadString('\n'); err != nil {
		a.t.Fatal(err)
	}
	go func() { defer close(read); _, _ = io.Copy(io.Discard, lines) }() // ends with the stream
	a.t.Cleanup(func() { _ = res.Body.Close(); <-read })
}

// subscriptions counts those of the one other client of the broker, as the broker does.
func subscriptions(t *testing.T, s *server.Server) int {
	t.Helper()
	all, err := s.Connz(&server.ConnzOptions{})
	if err != nil {
		t.Fatal(err)
	}
	most := 0
	for _, c := range all.Conns {
		if c.Name != "" { // the test's own has no name
			most += int(c.NumSubs)
		}
	}
	if most == 0 {
		t.Fatalf("the broker knows no dashboard: %+v", all.Conns)
	}
	return most
}

var residentLine = regexp.MustCompile(`(?m)^(VmRSS|VmHWM):\s+(\d+) kB`)

// memory is what a process holds, now and at most, in MiB.
func memory(t *testing.T, pid int) (now, most int) {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range residentLine.FindAllStringSubmatch(string(status), -1) {
		kib, _ := strconv.Atoi(m[2]) // digits
		if m[1] == "VmRSS" {
			now = kib >> 10
		} else {
			most = kib >> 10
		}
	}
	return now, most
}
