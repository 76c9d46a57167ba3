package worker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/berthq/berth/runner/container"
)

// Containers are the settings for jobs with an image.
type Containers struct {
	Engine string // of the container engine: the path of its socket
	// Required: the worker does not start without the engine.
	Required bool
	// GPUs is how the engine is asked for them; "" asks it what it can.
	GPUs container.GPUMethod
	// UID, GID and Groups are whom jobs run as: the worker's own.
	UID, GID int
	Groups   []int
	Login    string        // file with passwords of registries, docker's config.json; "" = none
	Every    time.Duration // how often the engine is looked at; 30 s
}

const (
	engineEvery = 30 * time.Second
	engineWait  = 10 * time.Second // for an answer: an engine that is starting many containers is slow
)

// engineBooks are what is known of the container engine.
type engineBooks struct {
	api *container.Engine // nil: the worker uses none

	mu      sync.Mutex
	ability container.Ability
	why     string // it cannot be used
}

func (b *engineBooks) reason() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.why
}

// report is what the fleet hears: what the engine is, or why there is none.
func (b *engineBooks) report() (engine, why string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.why != "" {
		return "", b.why
	}
	return b.ability.Text(), ""
}

func (b *engineBooks) able() (container.Ability, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.why != "" {
		return b.ability, errors.New(b.why)
	}
	return b.ability, nil
}

// enter takes a look's answer and reports whether that is news.
func (b *engineBooks) enter(a container.Ability, err error) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	before := b.why
	b.why = ""
	if err != nil {
		b.why = err.Error()
	} else {
		b.ability = a
	}
	return (before == "") != (b.why == "")
}

func (b *engineBooks) close() {
	if b.api != nil {
		_ = b.api.Close() // only connections that nobody uses
	}
}

// openEngine looks at the container engine for the first time. Without one, jobs with an image wait for another machine.
func (w *Worker) openEngine(ctx context.Context) (err error) {
	c := w.cfg.Containers
	if c == nil {
		w.engine.why = "its worker was started with --runner process"
		return nil
	}
	if w.engine.api, err = container.Open(c.Engine); err != nil {
		return err
	}
	w.lookAtEngine(ctx)
	if why := w.engine.reason(); why != "" && c.Required {
		return fmt.Errorf("--runner container: %s", why)
	}
	return nil
}

// lookAtEngine asks the engine what it can, and reports whether it came or went.
func (w *Worker) lookAtEngine(ctx context.Context) bool {
	look, cancel := context.WithTimeout(ctx, engineWait)
	defer cancel()
	ability, err := w.engine.api.Look(look)
	if ctx.Err() != nil {
		return false
	}
	if err == nil && w.cfg.Containers.GPUs != "" {
		ability.Method, ability.Devices = w.cfg.Containers.GPUs, nil
	}
	return w.engine.enter(ability, err)
}

// askEngine keeps what is known of the engine fresh, and takes away containers of runs that are over: one may be left
// when the engine was away as its run ended.
func (w *Worker) askEngine(ctx context.Context) {
	if w.engine.api == nil {
		return
	}
	every := w.cfg.Containers.Every
	if every <= 0 {
		every = engineEvery
	}
	for ; ctx.Err() == nil; pause(ctx, every) {
		if w.lookAtEngine(ctx) {
			why := w.engine.reason()
			w.log.Info("container_engine", "usable", why == "", "why", why)
			w.pool.SetNoContainers(why)
			w.tell()
		}
		if w.engine.reason() == "" {
			w.sweepContainers(ctx)
		}
	}
}

// sweepContainers removes what is left of runs that are over. A run that is not has a folder: it is made before the
// container and removed after it.
func (w *Worker) sweepContainers(ctx context.Context) {
	sweep, cancel := context.WithTimeout(ctx, engineWait)
	defer cancel()
	runs, err := w.engine.api.Strays(sweep, w.store.Dir(), func(run string) bool {
		_, err := os.Lstat(w.runner.StateDir(run))
		return errors.Is(err, os.ErrNotExist)
	})
	if len(runs) > 0 {
		w.log.Warn("containers_were_left", "runs", runs)
	}
	if err != nil && ctx.Err() == nil {
		w.log.Warn("containers_not_removed", "err", err)
	}
}
