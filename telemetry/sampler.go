package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

// SamplerOptions are the settings of a Sampler. The zero value of each field means its default.
type SamplerOptions struct {
	Period      time.Duration // between readings while nothing is metered; 5 s
	BusyPeriod  time.Duration // while a meter runs; 1 s
	SlowPeriod  time.Duration // when every meter is older than SlowAfter; 2 s
	SlowAfter   time.Duration // 10 min
	ReadTimeout time.Duration // the longest one call into the source may take; 15 s

	// Attribute says which of our runs a process belongs to, "" = none of them. Called for every process of every
	// snapshot, so it should be quick. nil: every process is foreign.
	Attribute func(pid int) (run string)
	// Describe says whose a process is and what it is called; nil = from /proc.
	Describe func(pid int) (user, command string)

	Now    func() time.Time // nil = time.Now
	Logger *slog.Logger     // nil = silent
}

func (o SamplerOptions) withDefaults() SamplerOptions {
	setDefault := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	setDefault(&o.Period, 5*time.Second)
	setDefault(&o.BusyPeriod, time.Second)
	setDefault(&o.SlowPeriod, max(2*time.Second, o.BusyPeriod))
	setDefault(&o.SlowAfter, 10*time.Minute)
	setDefault(&o.ReadTimeout, 15*time.Second)
	if o.Attribute == nil {
		o.Attribute = func(int) string { return "" }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

// Sampler is the one loop of a worker that reads its GPUs, and the one place everything else asks.
type Sampler struct {
	src    Source
	opts   SamplerOptions
	ctx    context.Context // of the readings; ends with Run
	cancel context.CancelFunc
	books  books
	namer  namer
	faults chan Fault
	wake   chan struct{} // a meter has come: the period is shorter now

	mu      sync.Mutex
	stopped bool
	latest  *Snapshot
	changed chan struct{} // closed when latest is replaced
	flying  *flight
	queued  *flight
	flights sync.WaitGroup
	meters  map[*Meter]struct{}
}

// NewSampler makes a sampler; Run starts it. Refresh works without Run, for a command that asks once.
func NewSampler(src Source, opts SamplerOptions) *Sampler {
	opts = opts.withDefaults()
	ctx, cancel := context.WithCancel(context.Background())
	return &Sampler{
		src: src, opts: opts, ctx: ctx, cancel: cancel,
		books:   books{log: opts.Logger},
		namer:   namer{describe: opts.Describe},
		faults:  make(chan Fault, 64),
		wake:    make(chan struct{}, 1),
		changed: make(chan struct{}),
		meters:  map[*Meter]struct{}{},
	}
}

// Run reads at the period that the meters ask for until ctx ends. It returns when no reading is under way any more,
// and leaves the source open: it is not the sampler's.
func (s *Sampler) Run(ctx context.Context) error {
	var forwarding sync.WaitGroup
	forwarding.Go(func() { s.forwardFaults(ctx) })
	defer func() {
		s.stop()
		forwarding.Wait()
	}()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
			_, _ = s.Refresh(ctx) // said in the snapshot, and logged when it changes
		case <-s.wake:
			timer.Reset(s.firstLook())
			continue
		}
		timer.Reset(s.period())
	}
}

// Latest is the last snapshot, however old: look at its At. False before the first one.
func (s *Sampler) Latest() (Snapshot, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest == nil {
		return Snapshot{}, false
	}
	return *s.latest, true
}

// Fresh is the last snapshot if it is at most maxAge old, else a new one.
func (s *Sampler) Fresh(ctx context.Context, maxAge time.Duration) (Snapshot, error) {
	if s.youngerThan(maxAge) {
		snap, _ := s.Latest()
		return snap, nil
	}
	return s.Refresh(ctx)
}

// Refresh reads now. Callers at the same time share one reading, which began after each of them asked. A source in
// trouble still makes a snapshot, which says so; the error is for an ended ctx or a stopped sampler.
func (s *Sampler) Refresh(ctx context.Context) (Snapshot, error) {
	f, err := s.book()
	if err != nil {
		return Snapshot{}, err
	}
	select {
	case <-f.done:
		return f.snap, nil
	case <-ctx.Done():
		return Snapshot{}, fmt.Errorf("waiting for a GPU reading: %w", ctx.Err())
	}
}

// Changed is closed when there is a newer snapshot than the last one. Take the channel first, then look at Latest.
func (s *Sampler) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Faults are the source's events and what the readings show between two snapshots: a device lost, a fatal recovery
// action, more uncorrected memory errors, no answer for 10 s. One reader; never closed; a reader that is 64 faults
// behind misses some and the log says so.
func (s *Sampler) Faults() <-chan Fault { return s.faults }

// Meter starts one attempt's view: of these devices, from now until Stop.
func (s *Sampler) Meter(uuids ...string) *Meter { return s.MeterEvery(0, uuids...) }

// MeterEvery is Meter with the interval the job asks for; 0 = BusyPeriod, at least 100 ms.
func (s *Sampler) MeterEvery(interval time.Duration, uuids ...string) *Meter {
	if interval <= 0 {
		interval = s.opts.BusyPeriod
	}
	m := newMeter(s, max(interval, 100*time.Millisecond), uuids)
	s.mu.Lock()
	s.meters[m] = struct{}{}
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default: // the loop has one waiting already
	}
	return m
}

// firstLook is how soon a new meter gets its first reading: at once, but a hundred short runs a second must not make a
// hundred readings of it.
func (s *Sampler) firstLook() time.Duration {
	const often = 250 * time.Millisecond
	latest, ok := s.Latest()
	if !ok {
		return 0
	}
	return min(max(often-s.opts.Now().Sub(latest.At), 0), s.period())
}

func (s *Sampler) forget(m *Meter) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.meters, m)
}

// period is the shortest that any meter asks for.
func (s *Sampler) period() time.Duration {
	now := s.opts.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	period := s.opts.Period
	for m := range s.meters {
		period = min(period, m.wants(now, s.opts))
	}
	return period
}

func (s *Sampler) youngerThan(age time.Duration) bool {
	latest, ok := s.Latest()
	return ok && s.opts.Now().Sub(latest.At) <= age
}

func (s *Sampler) forwardFaults(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case f, ok := <-s.src.Faults():
			if !ok {
				return
			}
			s.tell(f)
		}
	}
}

// tell hands a fault to the meters of its device and to the reader of Faults.
func (s *Sampler) tell(f Fault) {
	if f.At.IsZero() {
		f.At = s.opts.Now()
	}
	s.mu.Lock()
	for m := range s.meters {
		m.fault(f)
	}
	s.mu.Unlock()
	s.opts.Logger.Warn("gpu fault", "gpu", f.UUID, "kind", f.Kind, "xid", f.XID, "fatal", f.Fatal, "text", f.Text)
	select {
	case s.faults <- f:
	default:
		s.opts.Logger.Error("gpu fault not taken: its reader is behind", "gpu", f.UUID, "text", f.Text)
	}
}
