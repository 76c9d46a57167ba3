package sim

import (
	"context"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/berthq/berth/telemetry"
)

// The same limits as a real source has.
const (
	suspect    = 2 * time.Second
	unreadable = 10 * time.Second
)

// Source is a simulated machine.
type Source struct {
	config  Config
	holders func() map[string][]int
	faults  chan telemetry.Fault

	mu      sync.Mutex
	closed  bool
	started time.Time
	cards   []*card
	crowd   crowd
	stages  []stage // of config.Faults
	control control
	hung    time.Time // since when the whole machine is silent
}

// New makes the machine. holders says which processes hold which card now, by UUID; nil = nobody ever.
func New(config Config, holders func() map[string][]int) (*Source, error) {
	if err := config.check(); err != nil {
		return nil, err
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if holders == nil {
		holders = func() map[string][]int { return nil }
	}
	s := &Source{
		config: config, holders: holders, started: config.Now(),
		faults:  make(chan telemetry.Fault, 64),
		stages:  make([]stage, len(config.Faults)),
		crowd:   crowd{scripts: config.Processes, cpusPerGPU: config.CPUsPerGPU},
		control: control{path: config.Control, log: config.Logger},
	}
	for _, d := range config.Devices {
		for range d.Count {
			s.cards = append(s.cards, newCard(config.Seed, len(s.cards), d))
		}
	}
	s.control.skip()
	return s, nil
}

// Name is "sim".
func (*Source) Name() string { return "sim" }

// Devices are the simulated cards.
func (s *Source) Devices(context.Context) ([]telemetry.Device, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, telemetry.ErrClosed
	}
	return s.devices(), nil
}

func (s *Source) devices() []telemetry.Device {
	out := make([]telemetry.Device, len(s.cards))
	for i, c := range s.cards {
		out[i] = c.Device
	}
	return out
}

// Snapshot reads the processes that hold the cards.
func (s *Source) Snapshot(ctx context.Context) (telemetry.Snapshot, error) {
	held := s.holders() // not under the lock: it may ask for devices
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return telemetry.Snapshot{}, telemetry.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return telemetry.Snapshot{}, err
	}
	now := s.config.Now()
	s.script(now)
	for _, line := range s.control.read() {
		s.obey(line, now)
	}
	snap := telemetry.Snapshot{At: now, Health: telemetry.HealthOK, Devices: s.devices()}
	if !s.hung.IsZero() {
		return s.silent(snap), nil
	}
	s.crowd.begin()
	defer s.crowd.end()
	for _, c := range s.cards {
		snap.Readings = append(snap.Readings, c.read(now, s.processes(c, held[c.UUID], now)))
	}
	return snap, nil
}

// silent is what a real source says of a driver that does not answer.
func (s *Source) silent(snap telemetry.Snapshot) telemetry.Snapshot {
	snap.Health, snap.Err = telemetry.HealthSuspect, "the simulated driver does not answer"
	if snap.At.Sub(s.hung) >= unreadable {
		snap.Health = telemetry.HealthUnreadable
	}
	for _, c := range s.cards {
		r := telemetry.Reading{UUID: c.UUID, Err: snap.Err}
		if snap.Health == telemetry.HealthUnreadable {
			r.Fault = &telemetry.Fault{UUID: c.UUID, Kind: telemetry.FaultUnreadable, At: snap.At, Text: snap.Err}
		}
		snap.Readings = append(snap.Readings, r)
	}
	return snap
}

// processes are who is on a card: its holders, then the scripted strangers, then those of the control file.
func (s *Source) processes(c *card, pids []int, now time.Time) []telemetry.Process {
	var out []telemetry.Process
	for _, pid := range slices.Compact(slices.Sorted(slices.Values(pids))) {
		if u, ok := s.crowd.usage(pid, now); ok {
			out = append(out, telemetry.Process{PID: pid, MemoryMB: &u.memory, UtilizationPercent: rounded(u.percent)})
		}
	}
	elapsed := now.Sub(s.started)
	for _, f := range s.config.Foreign {
		if f.GPU != c.Index || elapsed < f.Start.Std() || (f.End > 0 && elapsed >= f.End.Std()) {
			continue
		}
		mb, _ := f.Memory.MB()
		out = append(out, stranger(f.PID, mb, f.Utilization, f.User, f.Command))
	}
	for _, p := range c.foreign {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b telemetry.Process) int { return a.PID - b.PID })
	return out
}

func stranger(pid int, mb int64, percent float64, user, command string) telemetry.Process {
	if user == "" {
		user = "somebody"
	}
	if command == "" {
		command = "simulated foreign process"
	}
	percent = math.Max(0, math.Min(percent, 100))
	return telemetry.Process{PID: pid, MemoryMB: &mb, UtilizationPercent: &percent, User: user, Command: command}
}

// Faults are the scripted XIDs; the rest shows in the readings.
func (s *Source) Faults() <-chan telemetry.Fault { return s.faults }

// Close ends the simulation.
func (s *Source) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.faults)
	}
	return nil
}
