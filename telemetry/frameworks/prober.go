package frameworks

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berthq/berth/telemetry"
)

//go:embed survey.py
var surveyScript string

//go:embed probe.py
var probeScript string

// DefaultTimeout is what one framework has to answer. A cold import over a network file system takes half a minute.
const DefaultTimeout = 90 * time.Second

// Options say whom to ask and how.
type Options struct {
	// Interpreter is a Python, or the folder of a virtual environment; "" is python3 of the PATH in Environ.
	Interpreter string
	// Environ is what the probes run with, as jobs would: PATH, PYTHONPATH, LD_LIBRARY_PATH. Berth's own variables
	// and those that hide GPUs are taken out.
	Environ []string
	// Timeout is for each framework; 0 is DefaultTimeout.
	Timeout time.Duration
	// Cache is the file that complete answers are kept in; "" keeps none.
	Cache string

	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: silent
}

// Prober asks the frameworks of one interpreter.
type Prober struct {
	opts Options

	mu    sync.Mutex      // one probe at a time: each import is a busy core and a gigabyte
	stuck <-chan struct{} // open while a process that could not be killed is still there
}

// New returns a prober. It starts nothing.
func New(opts Options) *Prober {
	if opts.Timeout <= 0 {
		opts.Timeout = DefaultTimeout
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Prober{opts: opts}
}

// Probe asks the named frameworks, or Eager when none is named, which of the devices they see. Without devices it only
// says which are installed. An error means that Python itself could not be asked; what goes wrong with one framework
// is in its part of the report.
func (p *Prober) Probe(ctx context.Context, devices []telemetry.Device, names ...string) (Report, error) {
	if len(names) == 0 {
		names = Eager()
	}
	for _, name := range names {
		if !slices.Contains(All(), name) {
			return Report{}, fmt.Errorf("framework %q is not known; there are %s", name, strings.Join(All(), ", "))
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.unstuck(); err != nil {
		return Report{}, err
	}
	python, err := interpreter(p.opts.Interpreter, p.opts.Environ)
	if err != nil {
		return Report{}, err
	}
	survey, err := p.survey(ctx, python)
	if err != nil {
		return Report{}, fmt.Errorf("ask %s which frameworks it has: %w", python, err)
	}
	r := Report{Interpreter: survey.Executable, Python: survey.Python, Installed: survey.installed()}
	if len(devices) == 0 {
		return r, nil
	}
	r.Frameworks = map[string]Seen{}
	for _, name := range names {
		if !slices.Contains(r.Installed, name) {
			continue
		}
		r.Frameworks[name] = p.framework(ctx, python, survey, devices, name)
		if ctx.Err() != nil {
			return Report{}, ctx.Err()
		}
	}
	return r, nil
}

// unstuck refuses a second probe while an old one cannot die.
func (p *Prober) unstuck() error {
	if p.stuck == nil {
		return nil
	}
	select {
	case <-p.stuck:
		p.stuck = nil
		return nil
	default:
		return fmt.Errorf("an earlier probe of a framework is still there: %w; the machine may need a restart", errStuck)
	}
}

// framework answers for one, from the store or by asking.
func (p *Prober) framework(ctx context.Context, python string, survey survey, devices []telemetry.Device, name string) Seen {
	found := survey.Packages[name]
	if found.Error != "" {
		return Seen{Err: found.Error}
	}
	key := survey.key(name, devices)
	if seen, ok := load(p.opts.Cache, key); ok {
		return seen
	}
	seen := p.look(ctx, python, devices, name)
	if seen.Err == "" && len(seen.UUIDs) == len(devices) && ctx.Err() == nil {
		if err := save(p.opts.Cache, key, seen, p.opts.Now()); err != nil {
			p.opts.Logger.Warn("what a framework sees could not be kept for the next start", "framework", name, "err", err)
		}
	}
	return seen
}

// look asks one framework.
func (p *Prober) look(ctx context.Context, python string, devices []telemetry.Device, name string) Seen {
	if err := p.unstuck(); err != nil {
		return Seen{Err: err.Error()}
	}
	limited, cancel := context.WithTimeout(ctx, p.opts.Timeout)
	defer cancel()
	var answer struct {
		Version string     `json:"version"`
		Devices []sighting `json:"devices"`
		Note    string     `json:"note"`
		Error   string     `json:"error"`
	}
	began := p.opts.Now()
	s := script{python, environ(p.opts.Environ), probeScript, []string{name}}
	stuck, err := s.ask(limited, &answer)
	took := p.opts.Now().Sub(began)
	switch {
	case stuck != nil:
		p.stuck = stuck
		return Seen{Err: err.Error(), Took: took}
	case errors.Is(err, context.DeadlineExceeded):
		return Seen{Err: fmt.Sprintf("no answer within %s; it was stopped", p.opts.Timeout), Took: took}
	case err != nil:
		return Seen{Err: err.Error(), Took: took}
	}
	return Seen{
		Version: answer.Version, Count: len(answer.Devices), UUIDs: match(devices, answer.Devices),
		Note: answer.Note, Err: answer.Error, Took: took,
	}
}
