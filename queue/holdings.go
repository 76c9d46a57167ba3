package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/nats-io/nats.go"
)

// Holdings are what runs hold for each project: of one machine, or of the whole fleet.
type Holdings struct {
	GPUs  map[string]int     `json:"gpus"`      // now
	Hours map[string]float64 `json:"gpu_hours"` // GPU hours those runs have had so far; they are counted for good when the runs end
}

const (
	// holdingsEvery is how often the sum is told although no project has won or lost a GPU.
	holdingsEvery = 5 * time.Second

	// holdingsSilence is after how long without a sum a worker reads the presence of all machines itself.
	holdingsSilence = 30 * time.Second

	// presenceFor is how long a machine that has fallen silent counts.
	presenceFor = 15 * time.Second
)

// holdingsPause is the least time between two sums for so many machines: each sum goes to all of them, so that their
// broker has at most about a thousand of those messages a second, however many there are.
func holdingsPause(machines int) time.Duration {
	return max(200*time.Millisecond, time.Duration(machines)*time.Millisecond)
}

// keepHoldings adds up what the machines announce that they hold and tells all workers the sum, until ctx ends. It is a
// part of the janitor's duty. With it a fleet of n machines costs n announcements and n sums; if each worker listened to
// each machine it would be n times n.
func (q *Queue) keepHoldings(ctx context.Context) {
	for ctx.Err() == nil {
		if err := q.tellHoldings(ctx); err != nil && ctx.Err() == nil {
			q.log.Debug("holdings_not_told", "err", err)
		}
		_ = sleep(ctx, time.Second) // its only error is the end of ctx
	}
}

// presence is what was heard of a machine, and when, by this process's clock.
type presence struct {
	machine Machine
	heard   time.Time
}

// news is an announcement, or the key of a machine that is gone.
type news struct {
	machine *Machine
	gone    string
}

func (q *Queue) tellHoldings(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	heard, ended := make(chan news, 64), make(chan error, 1)
	hear := func(n news) {
		select {
		case heard <- n:
		case <-ctx.Done():
		}
	}
	go func() {
		ended <- q.WatchMachines(ctx, func(m Machine) { hear(news{machine: &m}) }, func(key string) { hear(news{gone: key}) })
	}()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			q.log.Debug("machines_not_watched", "err", err)
		}
	}()
	machines, told := map[string]presence{}, Holdings{}
	var last time.Time
	soon := time.NewTimer(holdingsPause(0))
	defer soon.Stop()
	for {
		select {
		case err := <-ended:
			ended <- nil // it has been told
			return errors.Join(err, ctx.Err())
		case n := <-heard:
			if n.machine != nil {
				machines[MachineKey(n.machine.Name)] = presence{*n.machine, time.Now()}
			} else {
				delete(machines, n.gone)
			}
		case <-soon.C:
			soon.Reset(holdingsPause(len(machines)))
			sum := sumOf(machines, time.Now())
			if maps.Equal(sum.GPUs, told.GPUs) && time.Since(last) < holdingsEvery {
				continue
			}
			if err := q.publishHoldings(sum); err != nil {
				return err
			}
			told, last = sum, time.Now()
		}
	}
}

// sumOf adds up what the machines hold that have not fallen silent.
func sumOf(machines map[string]presence, now time.Time) Holdings {
	sum := Holdings{GPUs: map[string]int{}, Hours: map[string]float64{}}
	for _, p := range machines {
		if now.Sub(p.heard) < presenceFor {
			sum.add(p.machine)
		}
	}
	return sum
}

func (h Holdings) add(m Machine) {
	for project, n := range m.Projects {
		h.GPUs[project] += n
	}
	for project, hours := range m.Hours {
		h.Hours[project] += hours
	}
}

func (q *Queue) publishHoldings(h Holdings) error {
	body, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("holdings: %w", err)
	}
	if err := q.nc.Publish(subjectHoldings, body); err != nil { // a lost one is made good by the next
		return fmt.Errorf("holdings: %w", err)
	}
	return nil
}

// FollowHoldings calls see with what the fleet holds, at first and then with each sum of the janitor's, until ctx ends.
// While there is none it reads the machines' presence itself, now and then.
func (q *Queue) FollowHoldings(ctx context.Context, see func(Holdings)) error {
	sub, err := q.nc.SubscribeSync(subjectHoldings)
	if err != nil {
		return fmt.Errorf("holdings: %w", err)
	}
	defer func() { _ = sub.Unsubscribe() }() // fails only when the connection is gone
	for ctx.Err() == nil {
		all, err := q.Machines(ctx)
		if err != nil {
			return fmt.Errorf("holdings: %w", err)
		}
		sum := Holdings{GPUs: map[string]int{}, Hours: map[string]float64{}}
		for _, m := range all {
			sum.add(m)
		}
		see(sum)
		if err := hearHoldings(ctx, sub, see); !errors.Is(err, context.DeadlineExceeded) {
			return err
		}
	}
	return nil
}

// hearHoldings passes on the sums until none has come for a while.
func hearHoldings(ctx context.Context, sub *nats.Subscription, see func(Holdings)) error {
	for {
		wait, cancel := context.WithTimeout(ctx, holdingsSilence)
		m, err := sub.NextMsgWithContext(wait)
		cancel()
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the caller wants no more
		}
		if err != nil {
			return fmt.Errorf("holdings: %w", err)
		}
		var sum Holdings
		if json.Unmarshal(m.Data, &sum) == nil { // what is not ours on this subject says nothing
			see(sum)
		}
	}
}
