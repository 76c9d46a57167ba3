package day

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/berthq/berth/queue"
)

//go:embed specs
var specs embed.FS

// Label marks every job of the day, and so its result.
const Label = "demo=made-up"

// Command runs one command as somebody: what it prints, or how it failed.
type Command func(ctx context.Context, user string, stdin []byte, args ...string) ([]byte, error)

// Day is a made-up day, again and again.
type Day struct {
	Queue *queue.Queue
	Type  Command
	Fleet *Fleet
	Dir   string
	Pace  float64 // 1: a beat is a second
	Say   func(format string, args ...any)

	board *board
	mu    sync.Mutex
	refs  []queue.Ref // of this day
}

// The day's pauses, in beats.
const (
	night   = 90 // between two days
	evening = 3  // after the last job
)

// Run plays days until ctx ends. A scene that does not go as written is said; the day goes on.
func (d *Day) Run(ctx context.Context) error {
	d.board = newBoard()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() {
		if err := d.board.follow(ctx, d.Queue); err != nil {
			cancel(fmt.Errorf("the made-up day lost sight of the queue: %w", err))
		}
	})
	defer cancel(nil)
	if err := d.opening(ctx); err != nil {
		return ended(ctx, err)
	}
	for n := 1; ctx.Err() == nil; n++ {
		d.Say("day %d begins", n)
		d.play(ctx)
		if ctx.Err() == nil {
			d.Say("day %d is over; the next begins in %s", n, beats(d.Pace, night))
		}
		d.wait(ctx, night)
	}
	return ended(ctx, context.Cause(ctx))
}

// ended is nil when the day was told to end.
func ended(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause == nil || !errors.Is(cause, context.Canceled) {
		return err
	}
	return nil
}

// opening waits until all machines are there.
func (d *Day) opening(ctx context.Context) error {
	return d.board.await(ctx, func() bool {
		for _, m := range fleet {
			if _, there := d.board.machines[m.name]; !there {
				return false
			}
		}
		return true
	})
}

// play is one day: every scene at its hour, several at once, then the evening.
func (d *Day) play(ctx context.Context) {
	d.refs = nil
	var wg sync.WaitGroup
	for _, s := range scenes {
		wg.Go(func() {
			d.wait(ctx, s.at)
			if ctx.Err() != nil {
				return
			}
			if err := s.play(ctx, d); err != nil && ctx.Err() == nil {
				d.Say("%s did not go as it was written: %v", s.name, err)
			}
		})
	}
	wg.Wait()
	for _, ref := range d.refs {
		if _, err := d.board.ended(ctx, ref); err != nil {
			return
		}
	}
	d.wait(ctx, evening)
	if err := d.tidy(ctx); err != nil && ctx.Err() == nil {
		d.Say("the evening did not go as it was written: %v", err)
	}
}

// tidy drops what the day left on the list of dead jobs.
func (d *Day) tidy(ctx context.Context) error {
	out, err := d.Type(ctx, "operator", nil, "dead", "ls", "-o", "name")
	if err != nil {
		return err
	}
	dead := strings.Fields(string(out))
	if len(dead) == 0 {
		return nil
	}
	d.Say("operator: drops %s from the list of dead jobs; `berth report --days 1 --by project` says what the day cost", strings.Join(dead, ", "))
	_, err = d.Type(ctx, "operator", nil, append([]string{"dead", "drop", "--reason", "looked at"}, dead...)...)
	return err
}

func (d *Day) wait(ctx context.Context, n float64) { pause(ctx, beats(d.Pace, n)) }

// submit sends the jobs of a spec as somebody, and gives their numbers.
func (d *Day) submit(ctx context.Context, user, spec string) ([]queue.Ref, error) {
	text, err := specs.ReadFile("specs/" + spec)
	if err != nil {
		return nil, err
	}
	beat := strconv.FormatFloat(1/d.Pace, 'f', 3, 64)
	out, err := d.Type(ctx, user, text, "submit", "-q", "-f", "-", "-e", "BEAT="+beat, "--label", Label)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", spec, err)
	}
	var refs []queue.Ref
	for word := range bytes.FieldsSeq(out) {
		ref, err := queue.ParseRef(string(word))
		if err != nil {
			return nil, fmt.Errorf("%s: submit printed %q: %w", spec, word, err)
		}
		refs = append(refs, ref)
	}
	if len(refs) == 0 {
		return nil, fmt.Errorf("%s: submit printed no number", spec)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.refs = append(d.refs, refs...)
	return refs, nil
}

// one is submit for a spec with one job.
func (d *Day) one(ctx context.Context, user, spec string) (queue.Ref, error) {
	refs, err := d.submit(ctx, user, spec)
	if err != nil {
		return queue.Ref{}, err
	}
	return refs[0], nil
}
