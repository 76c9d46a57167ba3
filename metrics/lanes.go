package metrics

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berthq/berth/job"
)

// LaneReader is the queue, for as far as a scrape looks at it.
type LaneReader interface {
	LaneCounts(ctx context.Context) (map[job.Lane]int, error)
}

const (
	// lanesFresh is how long an answer of the broker is good for: fifty workers that two Prometheus scrape must not ask a
	// hundred times.
	lanesFresh = 5 * time.Second
	// lanesPatience is how long a scrape waits for the broker.
	lanesPatience = 3 * time.Second
)

// lanes shows how much is on each lane, and of a worker how much of it runs here. The broker cannot tell what waits from
// what runs: a worker also holds, for seconds, what it only looks at.
type lanes struct {
	from LaneReader
	runs func() map[job.Lane]int // nil: nothing runs here
	log  *slog.Logger
	now  func() time.Time

	mu   sync.Mutex // held while the broker is asked: one scrape asks, the others wait for its answer
	last map[job.Lane]int
	err  error
	at   time.Time

	up, jobs, running *prometheus.Desc
}

func newLanes(s Sources) *lanes {
	labels := []string{"band", "shape", "project"}
	return &lanes{from: s.Lanes, runs: s.LaneRuns, log: s.Logger, now: s.Now,
		up:      prometheus.NewDesc("berth_broker_up", "1: the broker answers. 0: it does not, and what it would tell is absent.", nil, nil),
		jobs:    prometheus.NewDesc("berth_lane_jobs", "Jobs on a lane, waiting or running anywhere.", labels, nil),
		running: prometheus.NewDesc("berth_lane_runs", "Jobs of a lane that run on this worker.", labels, nil),
	}
}

func (l *lanes) Describe(to chan<- *prometheus.Desc) { to <- l.up; to <- l.jobs; to <- l.running }

func (l *lanes) Collect(to chan<- prometheus.Metric) {
	counts, err := l.read()
	gauge(to, l.up, oneIf(err == nil))
	var own map[job.Lane]int
	if l.runs != nil {
		own = l.runs()
	}
	for _, d := range bounded(counts, own) {
		labels := []string{bandName(d.lane.Band), string(d.lane.Shape), d.lane.Project}
		if err == nil {
			gauge(to, l.jobs, float64(d.jobs), labels...)
		}
		if l.runs != nil { // 0 too, so that one can be taken from the other
			gauge(to, l.running, float64(d.runs), labels...)
		}
	}
}

func (l *lanes) read() (map[job.Lane]int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now := l.now(); l.at.IsZero() || now.Sub(l.at) >= lanesFresh || now.Before(l.at) {
		ctx, cancel := context.WithTimeout(context.Background(), lanesPatience) // a collector is handed no context
		defer cancel()
		l.last, l.err = l.from.LaneCounts(ctx)
		l.at = now
		if l.err != nil {
			l.last = nil
			l.log.Debug("lanes_not_counted", "err", l.err)
		}
	}
	return l.last, l.err
}

// depth is one lane.
type depth struct {
	lane       job.Lane
	jobs, runs int
}

// bounded lists the lanes, fullest first; those beyond the limit are one for each band.
func bounded(counts, runs map[job.Lane]int) []depth {
	all := make([]depth, 0, len(counts))
	for lane, n := range counts {
		all = append(all, depth{lane, n, runs[lane]})
	}
	for lane, n := range runs {
		if _, listed := counts[lane]; !listed { // it began, or ended, since the broker was asked
			all = append(all, depth{lane, n, n})
		}
	}
	slices.SortFunc(all, func(a, b depth) int {
		return cmp.Or(cmp.Compare(b.jobs, a.jobs), strings.Compare(string(a.lane.Shape), string(b.lane.Shape)), strings.Compare(a.lane.Project, b.lane.Project))
	})
	if len(all) <= mostLanes {
		return all
	}
	kept, rest := all[:mostLanes:mostLanes], map[job.Band]depth{}
	for _, d := range all[mostLanes:] {
		sum := rest[d.lane.Band]
		rest[d.lane.Band] = depth{job.Lane{Band: d.lane.Band, Shape: other, Project: other}, sum.jobs + d.jobs, sum.runs + d.runs}
	}
	for _, d := range rest {
		kept = append(kept, d)
	}
	return kept
}

// bandName is the band in words.
func bandName(b job.Band) string {
	switch b {
	case job.BandHigh:
		return "high"
	case job.BandNormal:
		return "normal"
	case job.BandLow:
		return "low"
	}
	return string(b)
}
