package worker

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/worker"
)

// Contexts are the worker's two promises, ended by signals: Claim ends "take no more", Work ends "stop what runs".
type Contexts struct {
	Claim, Work context.Context
}

// Signals turns the process's signals into the two contexts until stop is called. say explains to a person what the
// next Ctrl-C does.
func Signals(ctx context.Context, env cli.Env, say io.Writer) (c Contexts, stop func()) {
	claim, endClaim := context.WithCancelCause(ctx)
	work, endWork := context.WithCancel(ctx)
	signals := make(chan os.Signal, 4)
	env.Notify(signals, os.Interrupt, syscall.SIGTERM)
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		interrupts := 0
		for {
			select {
			case <-done:
				return
			case s := <-signals:
				if s == syscall.SIGTERM {
					endClaim(worker.ErrDetach)
					continue
				}
				interrupts++
				interrupt(interrupts, say, endClaim, endWork)
			}
		}
	}()
	return Contexts{claim, work}, func() {
		signal.Stop(signals)
		close(done)
		<-ended
		endClaim(context.Canceled)
		endWork()
	}
}

func interrupt(times int, say io.Writer, endClaim context.CancelCauseFunc, endWork context.CancelFunc) {
	if times == 1 {
		fmt.Fprintln(say, "draining: no more jobs are taken, what runs is finished; Ctrl-C again stops it")
		endClaim(context.Canceled)
		return
	}
	fmt.Fprintln(say, "stopping what runs")
	endWork()
}
