package lease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// meaning says which leases the words of a command are: numbers, or GPUs of a machine.
type meaning struct {
	machine      string
	gpus, number bool
}

func (m *meaning) bind(set *pflag.FlagSet) {
	set.BoolVar(&m.gpus, "gpus", false, "the words are GPUs, also where one could be a lease's number")
	set.BoolVar(&m.number, "number", false, "the words are lease numbers, also where one could be a GPU's index")
	set.StringVar(&m.machine, "machine", "", "GPUs of this machine instead of the one we are on")
}

// leases finds what the words mean; without words the only lease of whoever asks.
func (m *meaning) leases(ctx context.Context, g *cli.Globals, q *queue.Queue, words []string) ([]queue.Ref, error) {
	if m.gpus && m.number {
		return nil, exit.Errorf(exit.Usage, "--gpus and --number exclude each other")
	}
	known := func() ([]queue.HeldLease, error) {
		places, err := machinesFor(ctx, g, q, m.machine)
		if err != nil {
			return nil, err
		}
		return heldOn(ctx, g, q, places)
	}
	if len(words) == 0 {
		held, err := known()
		if err != nil {
			return nil, err
		}
		return only(held, cli.Me(g.Env()).User)
	}
	var refs []queue.Ref
	for _, word := range words {
		ref, err := m.one(word, cli.Me(g.Env()).User, known)
		if err != nil {
			return nil, err
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

// one finds the lease that a word means. Only a word that may be a GPU is looked up.
func (m *meaning) one(word, user string, known func() ([]queue.HeldLease, error)) (queue.Ref, error) {
	number, err := strconv.ParseUint(word, 10, 64)
	isNumber := err == nil
	switch {
	case m.number && !isNumber:
		return queue.Ref{}, exit.Errorf(exit.Usage, "%q is no lease number", word)
	case m.number:
		return queue.JobRef(number), nil
	}
	if isNumber && !m.gpus && number > maxIndex {
		return queue.JobRef(number), nil
	}
	held, err := known()
	if isNumber && !m.gpus && exit.Of(err) == exit.Refused { // no worker here: it can only be a lease's number
		held, err = nil, nil
	}
	if err != nil {
		return queue.Ref{}, err
	}
	byGPU, gpuErr := onGPUs(held, word, user)
	if !isNumber || m.gpus {
		return byGPU, gpuErr
	}
	mine := slices.ContainsFunc(held, func(l queue.HeldLease) bool { return l.Number == number && l.User == user })
	switch {
	case errors.Is(gpuErr, errNotLeased) && number > 0, gpuErr != nil && mine:
		return queue.JobRef(number), nil
	case gpuErr != nil:
		return queue.Ref{}, gpuErr
	case mine && byGPU.Number != number:
		return queue.Ref{}, exit.Errorf(exit.Usage, "%s may be your lease %s, or GPU %s, which is your lease %s", word, word, word, byGPU).
			Hinted("say --number or --gpus")
	}
	return byGPU, nil
}

// maxIndex is beyond what a GPU of one machine is numbered with.
const maxIndex = 1023

// onGPUs is the caller's newest lease on exactly these GPUs.
func onGPUs(held []queue.HeldLease, word, user string) (queue.Ref, error) {
	want := strings.FieldsFunc(word, func(r rune) bool { return r == ',' || r == ' ' })
	if len(want) == 0 {
		return queue.Ref{}, exit.Errorf(exit.Usage, "no GPU is named: want lease numbers, or GPUs as berth lease get --short prints them")
	}
	var part, others *queue.HeldLease
	for i := len(held) - 1; i >= 0; i-- { // newest first
		l := &held[i]
		hits := hits(l.GPUs, want)
		switch {
		case hits == 0:
		case l.User != user:
			others = l
		case hits == len(want) && hits == len(l.GPUs):
			return queue.JobRef(l.Number), nil
		default:
			part = l
		}
	}
	switch {
	case part != nil:
		return queue.Ref{}, exit.Errorf(exit.Failed, "your lease %d has the GPUs %s, not just %s", part.Number, grant{GPUs: part.GPUs}.indexes(), word).
			Hinted("a lease is given back whole: berth lease release %d", part.Number)
	case others != nil:
		return queue.Ref{}, exit.With(exit.Broker, fmt.Errorf("%w: %s is leased by %s (lease %d), you are %s", queue.ErrNotAllowed, word, others.User, others.Number, user))
	}
	return queue.Ref{}, exit.Errorf(exit.Failed, "%w %s", errNotLeased, word).Hinted("berth lease ls shows who holds what")
}

var errNotLeased = errors.New("you have no lease on")

// hits counts how many of the wanted GPUs a lease has.
func hits(gpus []job.LeasedGPU, want []string) int {
	n := 0
	for _, w := range want {
		if slices.ContainsFunc(gpus, func(d job.LeasedGPU) bool {
			return d.UUID == w || strconv.Itoa(d.Index) == w
		}) {
			n++
		}
	}
	return n
}

// only is the one lease of a user.
func only(held []queue.HeldLease, user string) ([]queue.Ref, error) {
	mine := slices.DeleteFunc(slices.Clone(held), func(l queue.HeldLease) bool { return l.User != user })
	switch len(mine) {
	case 0:
		return nil, exit.Errorf(exit.Failed, "you hold no lease here").Hinted("berth lease ls shows who holds what")
	case 1:
		return []queue.Ref{queue.JobRef(mine[0].Number)}, nil
	}
	return nil, exit.Errorf(exit.Usage, "you hold %d leases here: %s", len(mine), whose(mine)).Hinted("name one")
}

// heldOn lists what is held on the machines, by number.
func heldOn(ctx context.Context, g *cli.Globals, q *queue.Queue, places []place) ([]queue.HeldLease, error) {
	var all []queue.HeldLease
	for _, p := range places {
		held, err := q.Leases(ctx, p.Name, cli.Me(g.Env()))
		switch {
		case errors.Is(err, queue.ErrNoWorker):
			g.Say("berth: the worker on %s does not answer at the moment; what is leased there is not known", p.Name)
		case err != nil:
			return nil, cli.Broker(err)
		}
		all = append(all, held...)
	}
	slices.SortFunc(all, func(a, b queue.HeldLease) int { return int(int64(a.Number) - int64(b.Number)) })
	return all, nil
}
