package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/berthq/berth/gpuslots"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/runner"
	"github.com/berthq/berth/telemetry"
)

// Worker runs jobs on one machine. Make it with New, run it once.
type Worker struct {
	cfg      Config
	log      *slog.Logger
	instance string // of this process

	store   *Store
	runner  *runner.Process
	source  telemetry.Source
	sampler *telemetry.Sampler
	devices []telemetry.Device // this worker's
	pool    *gpuslots.Pool
	puller  *queue.Puller
	engine  engineBooks

	current    atomic.Pointer[queue.Session]
	draining   atomic.Bool
	drainMu    sync.Mutex
	drainEnd   *time.Timer // of a drain that somebody asked for; nil: it takes as long as it takes
	runs       runBooks
	dirt       dirtBooks
	sick       sickBooks
	frameworks frameworkBooks
	shares     shareBooks
	ages       ageBooks
	reserved   reservation
	news       chan struct{} // something others should hear soon

	healthNews chan struct{} // a GPU left service or came back
	probeNow   chan struct{} // a GPU out of service is to be tested at once

	background context.Context // ends when nothing of the worker is needed any more
	stopRuns   context.Context // workCtx, or the end of a drain's patience
	endRuns    context.CancelFunc
	detached   chan struct{}
	attempts   sync.WaitGroup
}

// New checks the settings. Nothing is opened yet.
func New(cfg Config) (*Worker, error) {
	cfg = cfg.withDefaults()
	if err := cfg.check(); err != nil {
		return nil, err
	}
	return &Worker{
		cfg: cfg, log: cfg.Logger.With("machine", cfg.Machine), instance: uuid.NewString()[:8],
		news: make(chan struct{}, 1), healthNews: make(chan struct{}, 1), probeNow: make(chan struct{}, 1), frameworks: frameworkBooks{wanted: make(chan string, 8)}, detached: make(chan struct{}),
	}, nil
}

// Run takes and runs jobs until claimCtx ends, and returns when everything it started has ended. What becomes of the
// runs is in the package comment: they are finished (drain), stopped when workCtx ends, or left to their shims when
// claimCtx ended with ErrDetach.
func (w *Worker) Run(claimCtx, workCtx context.Context) error {
	if err := w.open(claimCtx); err != nil {
		return err
	}
	defer w.close()
	background, end := context.WithCancel(context.WithoutCancel(claimCtx))
	defer end()
	w.background = background
	w.stopRuns, w.endRuns = context.WithCancel(workCtx)
	defer w.endRuns()
	defer w.endDrainAfter(0)
	services := w.serveOthers(background)
	err := w.life(claimCtx)
	end()
	services.Wait()
	return err
}

// open takes the store and opens what the worker is made of, in the order in which close undoes it.
func (w *Worker) open(ctx context.Context) (err error) {
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.store, err = OpenStore(w.cfg.Store); err != nil {
		return err
	}
	if w.runner, err = runner.New(runner.Options{StoreDir: w.cfg.Store, Logger: w.log}); err != nil {
		return err
	}
	if w.source, err = w.cfg.Source(ctx, w.holders); err != nil {
		return err
	}
	if err = w.openEngine(ctx); err != nil {
		return err
	}
	if err = w.findDevices(ctx); err != nil {
		return err
	}
	w.sampler = telemetry.NewSampler(w.source, telemetry.SamplerOptions{
		BusyPeriod: w.cfg.SampleEvery, Attribute: w.runOf, Now: w.cfg.Now, Logger: w.log,
	})
	return nil
}

// close undoes open. What fails here is said and not passed on: the runs are safe, and there is nothing left to do.
func (w *Worker) close() {
	if w.source != nil {
		if err := w.source.Close(); err != nil {
			w.log.Warn("source_not_closed", "err", err)
		}
	}
	w.engine.close()
	if w.runner != nil {
		if err := w.runner.Close(); err != nil {
			w.log.Warn("runner_not_closed", "err", err)
		}
	}
	if w.store != nil {
		if err := w.store.Close(); err != nil {
			w.log.Warn("store_not_closed", "err", err)
		}
	}
}

// findDevices lists this worker's GPUs and makes their pool. No GPU is a warning: CPU jobs still run.
func (w *Worker) findDevices(ctx context.Context) error {
	found, err := w.source.Devices(ctx)
	if err != nil {
		w.log.Warn("gpus_not_listed", "source", w.source.Name(), "err", err)
	}
	for _, d := range found {
		if w.cfg.GPUs == nil || w.cfg.GPUs(d) {
			w.devices = append(w.devices, d)
		}
	}
	if len(w.devices) == 0 {
		w.log.Warn("no_gpu", "source", w.source.Name(), "consequence", "only jobs without a GPU run here")
	}
	o := w.cfg.Slots
	o.Devices, o.Machine, o.Now, o.Frameworks = w.devices, w.cfg.Machine, w.cfg.Now, allFrameworks()
	o.NoContainers = w.engine.reason()
	if w.cfg.SlotsAuto {
		o.SlotsPerGPU = gpuslots.SlotsAuto(o.CPUs, len(w.devices))
	}
	if len(w.devices) == 0 {
		o.LockDir = ""
	}
	if o.LockDir != "" {
		if err := os.MkdirAll(o.LockDir, 0o777); err != nil {
			return fmt.Errorf("folder of GPU locks: %w", err)
		}
	}
	if w.pool, err = gpuslots.New(o); err != nil {
		return err
	}
	w.resumeOrders()
	return nil
}

// serveOthers starts what goes on for as long as the worker does, whatever becomes of its session.
func (w *Worker) serveOthers(ctx context.Context) *sync.WaitGroup {
	var g sync.WaitGroup
	g.Go(func() {
		if err := w.sampler.Run(ctx); err != nil && ctx.Err() == nil {
			w.log.Error("sampler_ended", "err", err)
		}
	})
	g.Go(func() { w.observe(ctx) })
	g.Go(func() { w.guard(ctx) })
	g.Go(func() { w.askFrameworks(ctx) })
	g.Go(func() { w.askEngine(ctx) })
	g.Go(func() { w.tidyCheckpoints(ctx) })
	g.Go(func() { w.shares.follow(ctx, w) })
	g.Go(func() { w.ages.follow(ctx, w) })
	g.Go(func() {
		if err := w.cfg.Queue.RunClerk(ctx); err != nil && ctx.Err() == nil {
			w.log.Error("clerk_ended", "err", err)
		}
	})
	g.Go(func() {
		if err := w.cfg.Queue.RunJanitor(ctx, w.cfg.Machine+"."+w.instance, 0); err != nil && ctx.Err() == nil {
			w.log.Error("janitor_ended", "err", err)
		}
	})
	return &g
}

// life is one session after another (there is one, unless the broker is away for longer than claim_ttl allows), then
// the end.
func (w *Worker) life(claimCtx context.Context) error {
	for first := true; ; first = false {
		err := w.sessionLife(claimCtx, first)
		if err == nil || claimCtx.Err() != nil {
			return err
		}
		if !errors.Is(err, queue.ErrSessionLost) {
			return err
		}
		w.log.Error("session_lost", "err", err, "consequence", "its runs have been stopped; a new session begins")
	}
}

// sessionLife opens a session, takes jobs under it until claimCtx ends or the session is lost, and sees its runs to
// their end.
func (w *Worker) sessionLife(claimCtx context.Context, first bool) error {
	session, err := w.openSession(claimCtx)
	if err != nil {
		return err
	}
	w.current.Store(session)
	if w.puller, err = w.cfg.Queue.NewPuller(session); err != nil {
		return errors.Join(err, session.Close(w.background))
	}
	heard, unheard := context.WithCancel(w.background) // also while a drain takes its time
	var g sync.WaitGroup
	g.Go(func() { w.control(heard) })
	g.Go(func() { w.lend(heard) })
	g.Go(func() { w.announce(heard) })
	g.Go(func() { w.keepHistory(heard) })
	g.Go(func() { w.keepReservation(heard) })
	err = w.takeJobs(claimCtx, first)
	w.leave(claimCtx, err)
	unheard()
	g.Wait()
	if context.Cause(claimCtx) == ErrDetach { //nolint:errorlint // a cause is the very value
		session.Detach()
		return err
	}
	return errors.Join(err, w.endSession(session))
}

// takeJobs adopts what there is and then serves.
func (w *Worker) takeJobs(claimCtx context.Context, first bool) error {
	if _, err := w.sampler.Refresh(claimCtx); err != nil {
		return err
	}
	if snap, ok := w.sampler.Latest(); ok {
		w.pool.Observe(snap, w.cfg.Now())
	}
	adopted, err := w.adopt(claimCtx)
	if err != nil {
		return err
	}
	if first {
		w.ready(adopted)
	}
	w.tell()
	return w.serve(claimCtx)
}

// leave ends the pulls and then, by the way the worker was asked to end, leaves, waits for or stops the runs.
func (w *Worker) leave(claimCtx context.Context, why error) {
	closing, cancel := context.WithTimeout(w.background, 5*time.Second)
	defer cancel()
	if err := w.puller.Close(closing); err != nil {
		w.log.Warn("pulls_not_closed", "err", err) // what they bring comes back after the broker's wait
	}
	switch {
	case errors.Is(why, queue.ErrSessionLost): // every run's claim is lost with it; watch stops them
	case context.Cause(claimCtx) == ErrDetach: //nolint:errorlint // a cause is the very value
		close(w.detached)
	default:
		w.draining.Store(true)
		w.pool.Drain(true)
		if w.cfg.DrainFor > 0 {
			patience := time.AfterFunc(w.cfg.DrainFor, w.endRuns)
			defer patience.Stop()
		}
	}
	w.attempts.Wait()
}

func (w *Worker) endSession(s *queue.Session) error {
	ctx, cancel := context.WithTimeout(w.background, 5*time.Second)
	defer cancel()
	if err := w.cfg.Queue.Depart(ctx, w.cfg.Machine); err != nil {
		w.log.Debug("not_departed", "err", err) // presence ends by itself after 15 s
	}
	if err := s.Close(ctx); err != nil {
		w.log.Warn("session_not_closed", "err", err) // it ends by itself after claim_ttl, and holds nothing
	}
	return nil
}

func (w *Worker) openSession(ctx context.Context) (*queue.Session, error) {
	for {
		s, err := w.cfg.Queue.OpenSession(ctx, w.cfg.Machine, uuid.NewString()[:13])
		if err == nil || ctx.Err() != nil {
			return s, err
		}
		w.log.Warn("no_session", "err", err)
		pause(ctx, time.Second)
	}
}

func (w *Worker) session() *queue.Session { return w.current.Load() }

func (w *Worker) ready(adopted int) {
	if w.cfg.OnReady == nil {
		return
	}
	snap, _ := w.sampler.Latest()
	w.cfg.OnReady(Ready{
		Machine: w.cfg.Machine, Session: w.session().ID(), Snapshot: snap, Status: w.pool.Status(w.cfg.Now()),
		Source: w.source.Name(), Isolation: w.runner.Isolation().Text, Adopted: adopted,
	})
}

// runOf says which run of ours a process belongs to; "" for foreign ones.
func (w *Worker) runOf(pid int) string {
	if run := w.runs.owner(pid); run != "" {
		return run
	}
	return w.dirt.owner(pid)
}

// holders says which processes hold which GPU: what a simulated source reads.
func (w *Worker) holders() map[string][]int {
	held := map[string][]int{}
	w.runs.each(func(a *attempt) {
		pids := a.pids()
		for _, d := range a.devices() {
			held[d.UUID] = append(held[d.UUID], pids...)
		}
	})
	return held
}

// Machine is this machine as it tells the fleet, with the last snapshot of its GPUs. It may be asked once the worker is
// ready (Config.OnReady).
func (w *Worker) Machine() (queue.Machine, telemetry.Snapshot) {
	snap, _ := w.sampler.Latest()
	return w.machine(), snap
}

// LaneRuns is how many jobs of each lane run here. It may be asked once the worker is ready.
func (w *Worker) LaneRuns() map[job.Lane]int {
	n := map[job.Lane]int{}
	w.runs.each(func(a *attempt) { n[a.claim.Lane()]++ })
	return n
}

func (w *Worker) jitter() float64 { return rand.Float64() }
