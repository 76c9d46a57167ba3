package lease

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

func holds(number uint64, user string, gpus ...int) queue.HeldLease {
	l := queue.HeldLease{Number: number, User: user, Machine: "m1"}
	for _, i := range gpus {
		l.GPUs = append(l.GPUs, job.LeasedGPU{UUID: "GPU-" + string(rune('a'+i)), Index: i})
	}
	return l
}

func TestWhatAWordMeans(t *testing.T) {
	t.Parallel()
	held := []queue.HeldLease{
		holds(3, "ada", 0, 1), holds(5, "ada", 2), holds(6, "bob", 4), holds(7, "ada", 3), holds(9, "ada", 2), // a shared card: 5 and 9
	}
	for _, c := range []struct {
		m       meaning
		word    string
		want    uint64
		code    int
		problem string
	}{
		{word: "GPU-a,GPU-b", want: 3},
		{word: "1,0", want: 3},
		{word: "GPU-c", want: 9}, // the newest
		{word: "2", want: 9},
		{word: "5", want: 5},
		{word: "42", want: 42}, // the server knows
		{word: "4096", want: 4096},
		{word: "3", code: exit.Usage, problem: "3 may be your lease 3, or GPU 3, which is your lease 7"},
		{m: meaning{number: true}, word: "3", want: 3},
		{m: meaning{gpus: true}, word: "3", want: 7},
		{m: meaning{number: true}, word: "GPU-a", code: exit.Usage, problem: "no lease number"},
		{word: "0", code: exit.Failed, problem: "your lease 3 has the GPUs 0,1, not just 0"},
		{word: "GPU-e", code: exit.Broker, problem: "leased by bob (lease 6), you are ada"},
		{word: "4", code: exit.Broker, problem: "leased by bob"},
		{word: "GPU-z", code: exit.Failed, problem: "you have no lease on GPU-z"},
		{m: meaning{gpus: true}, word: "8", code: exit.Failed, problem: "you have no lease on 8"},
		{word: ",", code: exit.Usage, problem: "no GPU is named"},
	} {
		got, err := c.m.one(c.word, "ada", func() ([]queue.HeldLease, error) { return held, nil })
		switch {
		case c.problem == "" && (err != nil || got != queue.JobRef(c.want)):
			t.Errorf("%q: %s, %v, want %d", c.word, got, err, c.want)
		case c.problem != "" && (err == nil || exit.Of(err) != c.code || !strings.Contains(err.Error(), c.problem)):
			t.Errorf("%q: %s, code %d, %v; want %d, %q", c.word, got, exit.Of(err), err, c.code, c.problem)
		}
	}
}

// Without a worker here a number is a lease's; anything else cannot be told.
func TestWordsWhereNoWorkerIs(t *testing.T) {
	t.Parallel()
	none := func() ([]queue.HeldLease, error) { return nil, exit.Errorf(exit.Refused, "no worker") }
	if got, err := new(meaning).one("3", "ada", none); err != nil || got.Number != 3 {
		t.Errorf("3: %s, %v", got, err)
	}
	if _, err := new(meaning).one("GPU-a", "ada", none); exit.Of(err) != exit.Refused {
		t.Errorf("GPU-a: %v", err)
	}
	broken := func() ([]queue.HeldLease, error) { return nil, exit.With(exit.Broker, errors.New("gone")) }
	if _, err := new(meaning).one("3", "ada", broken); exit.Of(err) != exit.Broker {
		t.Errorf("3 without a broker: %v", err)
	}
}

func TestTheOnlyLease(t *testing.T) {
	t.Parallel()
	one := []queue.HeldLease{holds(3, "ada", 0), holds(6, "bob", 4)}
	if got, err := only(one, "ada"); err != nil || !slices.Equal(got, []queue.Ref{queue.JobRef(3)}) {
		t.Errorf("one: %v, %v", got, err)
	}
	if _, err := only(one, "cid"); exit.Of(err) != exit.Failed {
		t.Errorf("none: %v", err)
	}
	if _, err := only(append(one, holds(8, "ada", 1)), "ada"); exit.Of(err) != exit.Usage || !strings.Contains(err.Error(), "8 of ada on GPU 1") {
		t.Errorf("two: %v", err)
	}
}

func TestIdleIsTheFoundingCriterion(t *testing.T) {
	t.Parallel()
	f := func(v float64) *float64 { return &v }
	mb := func(v int64) *int64 { return &v }
	held := holds(3, "ada", 0)
	for i, c := range []struct {
		card card
		want bool
	}{
		{card{GPU: queue.GPU{State: "ready", UtilizationPercent: f(29), MemoryFreeMB: mb(501), MemoryTotalMB: 1000}}, true},
		{card{GPU: queue.GPU{State: "ready", UtilizationPercent: f(30), MemoryFreeMB: mb(1000), MemoryTotalMB: 1000}}, false},
		{card{GPU: queue.GPU{State: "ready", UtilizationPercent: f(0), MemoryFreeMB: mb(500), MemoryTotalMB: 1000}}, false},
		{card{GPU: queue.GPU{State: "ready", Active: 1}}, false},
		{card{GPU: queue.GPU{State: "foreign"}}, false},
		{card{GPU: queue.GPU{State: "ready"}, Lease: &held}, false}, // presence may lag behind
		{card{GPU: queue.GPU{State: "ready"}}, true},                // nothing is known against it
	} {
		if got := c.card.isIdle(); got != c.want {
			t.Errorf("%d: idle %v, want %v", i, got, c.want)
		}
	}
}

func TestEnvironmentOfARun(t *testing.T) {
	t.Parallel()
	got := environ([]string{"HOME=/h", "CUDA_VISIBLE_DEVICES=7", "BERTH_GPUS=x"}, grant{Lease: 12, GPUs: holds(0, "", 2, 0).GPUs})
	for _, want := range []string{"HOME=/h", "CUDA_VISIBLE_DEVICES=GPU-c,GPU-a", "NVIDIA_VISIBLE_DEVICES=GPU-c,GPU-a", "BERTH_GPUS=GPU-c,GPU-a",
		"BERTH_GPU_INDICES=2,0", "CUDA_DEVICE_ORDER=PCI_BUS_ID", "BERTH_JOB_ID=12"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s in %q", want, got)
		}
	}
	if len(got) != 7 {
		t.Errorf("%d variables: %q", len(got), got)
	}
}
