package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berthq/berth/job"
)

var (
	waitBuckets = []float64{0.1, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 72 * 3600}
	runBuckets  = []float64{1, 10, 60, 300, 1800, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 72 * 3600, 168 * 3600}
)

// Runs are the attempts of one worker since it started. It is safe for use by many goroutines.
type Runs struct {
	projects *names
	started  *prometheus.CounterVec
	ended    *prometheus.CounterVec
	gpu      *prometheus.CounterVec
	waited   *prometheus.HistogramVec
	ran      *prometheus.HistogramVec
}

func newRuns() *Runs {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	return &Runs{
		projects: newNames(),
		started:  counter("berth_runs_started_total", "Attempts started by this worker.", "project"),
		ended:    counter("berth_runs_ended_total", "Attempts ended on this worker, by outcome.", "project", "outcome"),
		gpu:      counter("berth_run_gpu_seconds_total", "Seconds for which ended attempts held GPUs, times their GPUs.", "project"),
		waited: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "berth_run_wait_seconds", Help: "How long jobs had waited when this worker started them.", Buckets: waitBuckets,
		}, []string{"project"}),
		ran: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "berth_run_duration_seconds", Help: "How long ended attempts ran, by outcome.", Buckets: runBuckets,
		}, []string{"outcome"}),
	}
}

// Started counts an attempt that began after so long a wait.
func (r *Runs) Started(project string, waited time.Duration) {
	p := r.projects.of(project)
	r.started.WithLabelValues(p).Inc()
	r.waited.WithLabelValues(p).Observe(max(waited, 0).Seconds())
}

// Ended counts an attempt's end.
func (r *Runs) Ended(project string, outcome job.Outcome, ran time.Duration, gpus int) {
	p, ran := r.projects.of(project), max(ran, 0)
	r.ended.WithLabelValues(p, string(outcome)).Inc()
	r.gpu.WithLabelValues(p).Add(ran.Seconds() * float64(gpus))
	r.ran.WithLabelValues(string(outcome)).Observe(ran.Seconds())
}

// Describe is for the registry.
func (r *Runs) Describe(to chan<- *prometheus.Desc) {
	for _, c := range r.all() {
		c.Describe(to)
	}
}

// Collect is for the registry.
func (r *Runs) Collect(to chan<- prometheus.Metric) {
	for _, c := range r.all() {
		c.Collect(to)
	}
}

func (r *Runs) all() []prometheus.Collector {
	return []prometheus.Collector{r.started, r.ended, r.gpu, r.waited, r.ran}
}

// Jobs are those that started and ended, on any machine, while somebody followed them all.
type Jobs struct {
	projects *names
	ended    *prometheus.CounterVec
	waited   *prometheus.HistogramVec
}

func newJobs() *Jobs {
	return &Jobs{
		projects: newNames(),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "berth_jobs_ended_total", Help: "Jobs and tasks that ended, by state, since this process follows them.",
		}, []string{"project", "state"}),
		waited: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "berth_job_wait_seconds", Help: "How long jobs and tasks had waited when they started.", Buckets: waitBuckets,
		}, []string{"project"}),
	}
}

// Started counts a job that began after so long a wait.
func (j *Jobs) Started(project string, waited time.Duration) {
	j.waited.WithLabelValues(j.projects.of(project)).Observe(max(waited, 0).Seconds())
}

// Ended counts a job's end.
func (j *Jobs) Ended(project string, state job.State) {
	j.ended.WithLabelValues(j.projects.of(project), string(state)).Inc()
}

// Describe is for the registry.
func (j *Jobs) Describe(to chan<- *prometheus.Desc) { j.ended.Describe(to); j.waited.Describe(to) }

// Collect is for the registry.
func (j *Jobs) Collect(to chan<- prometheus.Metric) { j.ended.Collect(to); j.waited.Collect(to) }
