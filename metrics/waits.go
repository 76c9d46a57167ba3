package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berthq/berth/job"
)

// Waiting is where jobs wait.
type Waiting struct {
	Band    job.Band
	Project string
}

// Oldest is how many wait there, and since when the first of them.
type Oldest struct {
	Jobs  int
	Since time.Time
}

// waits shows what waits, dispatched or not.
type waits struct {
	from func() map[Waiting]Oldest
	now  func() time.Time
}

var (
	waitLabels  = []string{"band", "project"}
	jobsWaiting = prometheus.NewDesc("berth_jobs_waiting", "Jobs and tasks that have not started yet, held ones and those that wait for others among them.", waitLabels, nil)
	oldestWait  = prometheus.NewDesc("berth_jobs_oldest_wait_seconds", "How long the first of the queued jobs has waited.", waitLabels, nil)
)

func (w waits) Describe(to chan<- *prometheus.Desc) { to <- jobsWaiting; to <- oldestWait }

func (w waits) Collect(to chan<- prometheus.Metric) {
	now, few := w.now(), newNames()
	sum := map[Waiting]Oldest{}
	for at, o := range w.from() {
		at.Project = few.of(at.Project)
		all := sum[at]
		all.Jobs += o.Jobs
		if all.Since.IsZero() || !o.Since.IsZero() && o.Since.Before(all.Since) {
			all.Since = o.Since
		}
		sum[at] = all
	}
	for at, o := range sum {
		labels := []string{bandName(at.Band), at.Project}
		to <- prometheus.MustNewConstMetric(jobsWaiting, prometheus.GaugeValue, float64(o.Jobs), labels...)
		if !o.Since.IsZero() {
			to <- prometheus.MustNewConstMetric(oldestWait, prometheus.GaugeValue, max(now.Sub(o.Since), 0).Seconds(), labels...)
		}
	}
}
