package metrics

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// Sources are where a scrape reads. A nil one is not shown.
type Sources struct {
	Lanes    LaneReader                // the queue
	LaneRuns func() map[job.Lane]int   // what runs here, by lane
	Machines func() []Machine          // one's own, or the fleet
	Waiting  func() map[Waiting]Oldest // what waits, by band and project, as an index of all jobs knows it
	Logger   *slog.Logger
	Now      func() time.Time
}

// Registry is one set of metrics. Runs and Jobs are told what happens, by a worker or by who follows all jobs.
type Registry struct {
	Runs *Runs
	Jobs *Jobs

	reg *prometheus.Registry
	log *slog.Logger
}

// scrapeTimeout ends a scrape that the broker holds up; Prometheus itself gives up after 10 s unless told otherwise.
const scrapeTimeout = 8 * time.Second

// NewWorker makes the metrics of a worker: its runs, its machine, and the queue as the broker tells it.
func NewWorker(s Sources) *Registry {
	r := newRegistry(s)
	r.Runs = newRuns()
	r.reg.MustRegister(r.Runs)
	return r
}

// NewFleet makes the metrics of who follows all jobs and machines.
func NewFleet(s Sources) *Registry {
	r := newRegistry(s)
	r.Jobs = newJobs()
	r.reg.MustRegister(r.Jobs)
	return r
}

func newRegistry(s Sources) *Registry {
	if s.Logger == nil {
		s.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Registry{reg: prometheus.NewRegistry(), log: s.Logger}
	r.reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	if s.Lanes != nil {
		r.reg.MustRegister(newLanes(s))
	}
	if s.Machines != nil {
		r.reg.MustRegister(machines{s.Machines})
	}
	if s.Waiting != nil {
		r.reg.MustRegister(waits{s.Waiting, s.Now})
	}
	return r
}

// Handler answers scrapes.
func (r *Registry) Handler() http.Handler {
	return promhttp.HandlerFor(r.reg, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(r.log.Handler(), slog.LevelWarn), ErrorHandling: promhttp.ContinueOnError,
		MaxRequestsInFlight: 4, Timeout: scrapeTimeout,
	})
}

// Machine is a machine with, where it is one's own, what its GPUs show beyond what the fleet is told.
type Machine struct {
	queue.Machine
	Readings map[string]Reading // by UUID
}

// Reading is what a GPU shows that its machine does not announce. nil: unknown.
type Reading struct {
	EnergyJoules   *float64
	ECCUncorrected *int64
	RemapPending   *bool
	RemapFailed    *bool
}
