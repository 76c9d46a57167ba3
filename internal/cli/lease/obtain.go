package lease

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// grant is a lease that is held.
type grant struct {
	Version int             `json:"version"`
	Lease   uint64          `json:"lease"`
	JobID   string          `json:"job_id"`
	Machine string          `json:"machine"`
	GPUs    []job.LeasedGPU `json:"gpus"`
	Until   *time.Time      `json:"until,omitempty"`

	here bool
}

func (g grant) ref() queue.Ref { return queue.JobRef(g.Lease) }

// uuids and indexes are the GPUs, comma-separated.
func (g grant) uuids() string {
	return joined(g.GPUs, func(d job.LeasedGPU) string { return d.UUID })
}

func (g grant) indexes() string {
	return joined(g.GPUs, func(d job.LeasedGPU) string { return strconv.Itoa(d.Index) })
}

func joined(gpus []job.LeasedGPU, form func(job.LeasedGPU) string) string {
	parts := make([]string, len(gpus))
	for i, d := range gpus {
		parts[i] = form(d)
	}
	return strings.Join(parts, ",")
}

// obtain stands in the queue until the GPUs are ours, the time to wait is over, or somebody interrupts.
func (w *wish) obtain(ctx context.Context, g *cli.Globals, q *queue.Queue) (grant, error) {
	places, err := machinesFor(ctx, g, q, w.machine)
	if err != nil {
		return grant{}, err
	}
	me := cli.Me(g.Env())
	at, err := choose(ctx, q, me, places, w.requirements(""))
	if err != nil {
		return grant{}, err
	}
	if w.atOnce() && !at.room.OK {
		return grant{}, nothingFree(at.room.Text)
	}
	j, err := w.job(g.Env(), at)
	if err != nil {
		return grant{}, err
	}
	receipt, err := q.Submit(ctx, j)
	if err != nil {
		return grant{}, submitError(err)
	}
	ref := queue.JobRef(receipt.Number)
	if !at.room.OK && (g.Console().TTY || g.Verbose) {
		g.Say("berth: lease %s waits: %s", ref, screen.Safe(at.room.Text))
	}
	rec, err := w.await(ctx, q, ref, at, me)
	if err != nil {
		return grant{}, interrupted(ctx, g, q, ref, me, err)
	}
	if rec.State.Final() {
		return grant{}, ended(ref, rec)
	}
	return grant{Version: 1, Lease: ref.Number, JobID: receipt.ID, Machine: at.Name, GPUs: rec.Lease.GPUs, Until: rec.Lease.Until, here: at.here}, nil
}

func (w *wish) atOnce() bool { return !w.wait.forever && w.wait.d == 0 }

// answerWithin bounds --wait 0: how long the queue may take to give what is free.
const answerWithin = 10 * time.Second

// await waits for the lease as long as --wait says, then withdraws it. Withdrawn too late, it is ours.
func (w *wish) await(ctx context.Context, q *queue.Queue, ref queue.Ref, at place, me queue.Me) (job.Record, error) {
	if w.wait.forever {
		return q.WaitLease(ctx, ref)
	}
	patience := w.wait.d
	if w.atOnce() {
		patience = answerWithin
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	var look sync.WaitGroup
	defer look.Wait()
	defer cancel()
	why := fmt.Sprintf("nothing became free within %s", w.wait.String())
	if w.atOnce() {
		why = "what was free went to others"
		look.Go(func() { w.giveUpWhenTaken(limited, cancel, q, at, me) })
	}
	rec, err := q.WaitLease(limited, ref)
	if err == nil || ctx.Err() != nil || limited.Err() == nil {
		return rec, err
	}
	state, err := q.WithdrawLease(ctx, ref, me.User, why)
	switch {
	case errors.Is(err, queue.ErrFinal), err == nil && state == job.Running:
		return q.WaitLease(ctx, ref)
	case err != nil:
		return job.Record{}, cli.Broker(err)
	}
	return job.Record{}, nothingFree(why)
}

// giveUpWhenTaken ends an "at once" as soon as there is no room any more, be it that we have it or somebody else.
func (w *wish) giveUpWhenTaken(ctx context.Context, giveUp func(), q *queue.Queue, at place, me queue.Me) {
	look := time.NewTicker(250 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-look.C:
		}
		if room, err := q.AskRoom(ctx, at.Name, w.requirements(at.Name), me); err == nil && !room.OK {
			giveUp()
			return
		}
	}
}

func nothingFree(why string) error {
	return exit.Errorf(exit.NothingFree, "nothing is free: %s", why).Hinted("without --wait it waits until there is")
}

// interrupted takes back what was asked for: nobody waits for it any more.
func interrupted(ctx context.Context, g *cli.Globals, q *queue.Queue, ref queue.Ref, me queue.Me, err error) error {
	if ctx.Err() == nil {
		return brokerError(err)
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if _, err := q.ReleaseLease(last, ref, me.User, "interrupted", false); err != nil && !errors.Is(err, queue.ErrFinal) {
		g.Say("berth: lease %s was not taken back: %s (berth lease release %s)", ref, err, ref)
	}
	return ctx.Err()
}

// ended says why a lease is over before anybody had it.
func ended(ref queue.Ref, rec job.Record) error {
	why := string(rec.State)
	if rec.ReasonText != "" {
		why += ": " + rec.ReasonText
	}
	var r job.Result
	if rec.Result != nil {
		r = *rec.Result
	}
	r.State = rec.State
	code := exit.OfResult(r)
	if code == exit.OK {
		code = exit.Failed
	}
	return exit.Errorf(code, "lease %s has ended already, %s", ref, why)
}

func submitError(err error) error {
	switch {
	case errors.Is(err, queue.ErrTooManyLanes):
		return exit.With(exit.Refused, err)
	case errors.Is(err, context.Canceled):
		return err
	}
	return exit.With(exit.Broker, err)
}
