package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/metrics"
	"github.com/berthq/berth/queue"
)

// What a worker and a dashboard show, before, while and after jobs run on a real broker and real processes.
func TestScrapeOfARealWorker(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	machine := "titan-" + t.Name()
	before := h.scrape(h.own)
	if got := before.value(t, "berth_gpu_state", gpu(0), "state=ready"); got != 1 {
		t.Errorf("an idle GPU is ready: %v", got)
	}
	if got := before.value(t, "DCGM_FI_DEV_FB_FREE", gpu(1), "Hostname="+machine); got < 20000 {
		t.Errorf("free memory of GPU 1: %v MiB", got)
	}

	h.ended(h.submit("imaging", 1, "false"))
	h.until("its end is counted by both", func() bool {
		return h.scrape(h.own).value(t, "berth_runs_ended_total", "project=imaging", "outcome=failed") == 1 &&
			h.scrape(h.fleet).value(t, "berth_jobs_ended_total", "project=imaging", "state=failed") == 1
	})

	release := t.TempDir() + "/go"
	holds := h.submit("lab", 2, "sh", "-c", "until [ -e "+release+" ]; do sleep 0.05; done")
	h.until("the job runs", func() bool { return h.scrape(h.own).value(t, "berth_lane_runs", "project=lab") == 1 })
	waits := h.submit("imaging", 1, "false")
	h.until("the second one is on its lane and does not run, the first one does", func() bool {
		s := h.scrape(h.own)
		return s.value(t, "berth_lane_jobs", "project=imaging") == 1 && s.value(t, "berth_lane_runs", "project=imaging") == 0 &&
			s.value(t, "berth_lane_jobs", "project=lab") == 1 && s.value(t, "berth_lane_runs", "project=lab") == 1
	})
	h.until("the dashboard knows it too", func() bool {
		s := h.scrape(h.fleet)
		return s.value(t, "berth_jobs_waiting", "project=imaging", "band=normal") == 1 && s.value(t, "berth_jobs_oldest_wait_seconds", "project=imaging") >= 0 &&
			s.value(t, "berth_machine_gpus_held", "machine="+machine, "project=lab") == 2
	})
	busy := h.scrape(h.own)
	for name, want := range map[string]float64{"berth_gpu_slots": 1, "berth_gpu_slots_used": 1} {
		if got := busy.value(t, name, gpu(1)); got != want {
			t.Errorf("%s of a held GPU: %v, want %v", name, got, want)
		}
	}
	queriesFit(t, h) // now: there is something of everything

	if err := os.WriteFile(release, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h.ended(holds)
	h.ended(waits)
	h.until("the ends are counted", func() bool {
		own, fleet := h.scrape(h.own), h.scrape(h.fleet)
		return own.value(t, "berth_runs_ended_total", "project=lab", "outcome=succeeded") == 1 &&
			own.value(t, "berth_runs_ended_total", "project=imaging", "outcome=failed") == 2 &&
			own.value(t, "berth_run_wait_seconds", "project=imaging") == 2 && own.value(t, "berth_run_duration_seconds", "outcome=failed") == 2 &&
			own.value(t, "berth_run_gpu_seconds_total", "project=lab") > 0 &&
			fleet.value(t, "berth_jobs_ended_total", "project=lab", "state=succeeded") == 1 &&
			fleet.value(t, "berth_jobs_ended_total", "project=imaging", "state=failed") == 2 &&
			fleet.value(t, "berth_job_wait_seconds", "project=imaging") == 2
	})
	noJobs(t, h.scrapeText(h.own), holds, waits)
	noJobs(t, h.scrapeText(h.fleet), holds, waits)
	theRules(t, h.scrapeText(h.own))
	theRules(t, h.scrapeText(h.fleet))
}

// noJobs: a label that holds a job makes a series for each.
func noJobs(t *testing.T, text string, refs ...queue.Ref) {
	t.Helper()
	for name, family := range parse(t, text) {
		for _, m := range family.GetMetric() {
			for _, l := range m.GetLabel() {
				for _, ref := range refs {
					if l.GetName() == "job" || l.GetName() == "user" || l.GetName() != "gpu" && l.GetName() != "le" && l.GetName() != "quantile" && l.GetValue() == ref.String() {
						t.Errorf("%s has the label %s=%q", name, l.GetName(), l.GetValue())
					}
				}
			}
		}
	}
}

// theRules are Prometheus' own for names and help; NVIDIA's names, of metrics and labels, are not ours to choose.
func theRules(t *testing.T, text string) {
	t.Helper()
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		labels := strings.HasPrefix(p.Metric, "berth_gpu_") && strings.Contains(p.Text, "camelCase")
		if !strings.HasPrefix(p.Metric, "DCGM_FI_") && !labels {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// manyLanes is a queue with more of everything than there are series for.
type manyLanes struct {
	err   error
	asked int
}

func (m *manyLanes) LaneCounts(context.Context) (map[job.Lane]int, error) {
	m.asked++
	all := map[job.Lane]int{}
	for i := range 2000 {
		all[job.Lane{Band: job.BandLow, Shape: job.ShapeID(fmt.Sprintf("g1-%d", i)), Project: fmt.Sprintf("p%d", i)}] = 2000 - i
	}
	return all, m.err
}

// A thousand projects and lanes make no more series than a hundred, and none of their jobs is lost from the sums.
func TestSeriesAreBounded(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	lanes := &manyLanes{}
	s := metrics.Sources{Lanes: lanes, Now: func() time.Time { return now }, Waiting: func() map[metrics.Waiting]metrics.Oldest {
		all := map[metrics.Waiting]metrics.Oldest{}
		for i := range 1000 {
			all[metrics.Waiting{Band: job.BandHigh, Project: fmt.Sprintf("p%d", i)}] = metrics.Oldest{Jobs: 3, Since: now.Add(-time.Hour)}
		}
		return all
	}}
	fleet, own := metrics.NewFleet(s), metrics.NewWorker(s)
	for i := range 1000 {
		p := fmt.Sprintf("p%d", i)
		fleet.Jobs.Ended(p, job.Dead)
		own.Runs.Started(p, time.Second)
		own.Runs.Ended(p, job.OutcomeFailed, time.Minute, 2)
	}
	for _, r := range []*metrics.Registry{fleet, own} {
		text := answer(t, r)
		if n := strings.Count(text, "\n"); n > 4500 {
			t.Errorf("%d lines", n)
		}
		families := parse(t, text)
		for name, want := range map[string]float64{
			"berth_lane_jobs": 2000 * 2001 / 2, "berth_jobs_waiting": 3000, "berth_jobs_ended_total": 1000, "berth_runs_ended_total": 1000,
			"berth_run_gpu_seconds_total": 1000 * 120,
		} {
			sum := 0.0
			for _, m := range families[name].GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
			if families[name] != nil && sum != want {
				t.Errorf("%s sums up to %v, want %v", name, sum, want)
			}
		}
		if got := families.value(t, "berth_broker_up"); got != 1 {
			t.Errorf("berth_broker_up %v", got)
		}
	}
}

// The broker is asked once in a while, however often somebody scrapes, and its silence is said.
func TestBrokerIsAskedSeldom(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	lanes := &manyLanes{}
	r := metrics.NewWorker(metrics.Sources{Lanes: lanes, Now: func() time.Time { return now }})
	for range 10 {
		answer(t, r)
	}
	if lanes.asked != 1 {
		t.Errorf("asked %d times for ten scrapes in one moment", lanes.asked)
	}
	now, lanes.err = now.Add(time.Minute), errors.New("no broker")
	silent := parse(t, answer(t, r))
	if up := silent.value(t, "berth_broker_up"); up != 0 || lanes.asked != 2 || silent["berth_lane_jobs"] != nil {
		t.Errorf("without a broker: up %v, asked %d times, lanes %v", up, lanes.asked, silent["berth_lane_jobs"] != nil)
	}
}

func answer(t *testing.T, r *metrics.Registry) string {
	t.Helper()
	w := httptest.NewRecorder()
	r.Handler().ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return w.Body.String()
}

// A gauge that a card does not have is absent, never zero; a state that a newer worker says is shown.
func TestUnknownIsAbsent(t *testing.T) {
	t.Parallel()
	r := metrics.NewWorker(metrics.Sources{Machines: func() []metrics.Machine {
		return []metrics.Machine{{Machine: queue.Machine{Name: "m", GPUs: []queue.GPU{{UUID: "GPU-1", State: "asleep", Slots: 2}}}}}
	}})
	s := parse(t, answer(t, r))
	for name := range s {
		if strings.HasPrefix(name, "DCGM_") || name == "berth_gpu_score" {
			t.Errorf("%s is shown, and nobody knows it", name)
		}
	}
	if s.value(t, "berth_gpu_state", "state=asleep") != 1 || s.value(t, "berth_gpu_state", "state=ready") != 0 {
		t.Errorf("states: %v", s["berth_gpu_state"])
	}
}
