package worker

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// fencingTTL is short, and long enough that a loaded machine can kill a process in the tenth of it that is left for that.
const fencingTTL = 4 * time.Second

// fleet is two workers of their own processes, each with a cable to the broker that can go dark.
type fleet struct {
	*house
	members []*member
	rng     *rand.Rand
}

// member is one worker process and its machine's network.
type member struct {
	name, store string
	cable       *cable
	cmd         *exec.Cmd
	steps       bool // its clock is stepped all the time
	frozen      bool
}

func newFleet(t *testing.T, seed uint64) *fleet {
	t.Helper()
	h := newHouse(t, "", func(h *house) {
		h.opts = queue.Options{ClaimTTL: fencingTTL, AckWait: time.Second, SystemAttempts: 20}
	})
	f := &fleet{house: h, rng: rand.New(rand.NewPCG(seed, 12))}
	for i, name := range []string{"alpha", "beta"} {
		m := &member{name: name, store: t.TempDir(), cable: newCable(t, h.broker.URL()), steps: i == 1}
		f.members = append(f.members, m)
		f.start(m)
	}
	return f
}

func (f *fleet) start(m *member) {
	f.t.Helper()
	m.cmd = f.spawn(workerOrder{URL: m.cable.url(), Machine: m.name, Store: m.store, ClockSteps: m.steps})
}

// blow is what happens to a worker, and how it is made good.
type blow struct {
	cut    bool // its network goes dark
	freeze bool // SIGSTOP
	kill   bool // SIGKILL; made good by a new worker on the same store
}

func (b blow) String() string {
	return fmt.Sprintf("cut=%v freeze=%v kill=%v", b.cut, b.freeze, b.kill)
}

func (f *fleet) strike(m *member, b blow) {
	f.t.Helper()
	if b.cut {
		m.cable.cut()
	}
	if b.freeze {
		f.signal(m, syscall.SIGSTOP)
		m.frozen = true
	}
	if b.kill {
		kill(f.t, m.cmd, syscall.SIGKILL)
	}
}

func (f *fleet) restore(m *member, b blow) {
	f.t.Helper()
	m.cable.mend(f.rng.IntN(2) == 0)
	switch {
	case b.kill:
		f.start(m)
	case b.freeze:
		f.signal(m, syscall.SIGCONT)
	}
	m.frozen = false
}

func (f *fleet) signal(m *member, sig syscall.Signal) {
	f.t.Helper()
	if err := m.cmd.Process.Signal(sig); err != nil {
		f.t.Fatal(err)
	}
}

// member finds the machine that has the job; any, if nobody has.
func (f *fleet) holder(rec job.Record) *member {
	for _, m := range f.members {
		if m.name == rec.Machine {
			return m
		}
	}
	return f.members[f.rng.IntN(len(f.members))]
}

// sendStamping submits a job that leaves a trail in a ledger.
func (f *fleet) sendStamping(lasts time.Duration) (number uint64, ledger string) {
	f.t.Helper()
	ledger = filepath.Join(f.t.TempDir(), "ledger")
	return f.send(job.Job{Spec: stamping(ledger, lasts)}), ledger
}

// settle waits for the end of a job and checks what the trail says: no two attempts at once, one of them to its end, one
// result.
func (f *fleet) settle(number uint64, ledger string) []life {
	f.t.Helper()
	r := f.result(queue.JobRef(number))
	if r.State != job.Succeeded {
		f.t.Errorf("job %d ended %s: %s %s", number, r.State, r.Reason, r.Evidence)
	}
	if n := f.count(queue.StreamResults, fmt.Sprint("berth.results.lab.", number)); n != 1 {
		f.t.Errorf("job %d has %d results", number, n)
	}
	all := trail(f.t, ledger)
	if len(all) == 0 || !all[len(all)-1].ended {
		f.t.Errorf("the last attempt of job %d did not come to its end: %+v", number, all)
	}
	return all
}

// outlast strikes the worker that runs a job for as long as it takes until another one has run it, and only then makes
// the blow good: whatever the worker had still to say comes late.
func (f *fleet) outlast(b blow) {
	f.t.Helper()
	number, ledger := f.sendStamping(5 * fencingTTL / 4) // longer than a lost session lets it live
	victim := f.holder(f.running(queue.JobRef(number)))
	appears(f.t, ledger)
	f.strike(victim, b)
	// The blow is over when the heir has finished the job: for a frozen worker this means that its shim, and nobody else,
	// ended the run in time.
	r := f.result(queue.JobRef(number))
	f.restore(victim, b)
	all := f.settle(number, ledger)
	if r.Machine == victim.name || len(all) != 2 || r.Attempts[0].Outcome != job.OutcomeMachineLost {
		f.t.Errorf("%s: ended on %s after %s was struck, attempts %+v, lives %+v", b, r.Machine, victim.name, r.Attempts, all)
	}
	if len(all) == 2 {
		f.t.Logf("%s: the first run was over %v before the second began", b, (all[1].first - all[0].last).Round(time.Millisecond))
	}
}

// chance strikes at a moment, in a way and for a time that the dice decide.
func (f *fleet) chance() {
	f.t.Helper()
	upTo := func(d time.Duration) time.Duration { return time.Duration(f.rng.Int64N(int64(d))) }
	lasts := 100*time.Millisecond + upTo(2*time.Second)
	number, ledger := f.sendStamping(lasts)
	pause(f.t.Context(), upTo(lasts+time.Second)) // the moments before, during and after the claim and the run
	b := blow{cut: f.rng.IntN(2) == 0, freeze: f.rng.IntN(2) == 0}
	b.kill = !b.cut && !b.freeze
	victims := []*member{f.holder(f.recordIfAny(queue.JobRef(number)))}
	if f.rng.IntN(5) == 0 {
		victims = f.members
	}
	for _, m := range victims {
		f.strike(m, b)
	}
	pause(f.t.Context(), upTo(2*fencingTTL))
	for _, m := range victims {
		f.restore(m, b)
	}
	all := f.settle(number, ledger)
	f.t.Logf("job %d of %v, %s, %d machines: %d attempts", number, lasts.Round(time.Millisecond), b, len(victims), len(all))
}

// Attempts of one job never overlap, whatever happens to the worker that runs it: real processes, a real broker, a
// network that goes dark, SIGSTOP, SIGKILL, and on one of the two machines a clock that jumps by hours all the time.
func TestAttemptsNeverOverlap(t *testing.T) {
	for name, b := range map[string]blow{
		"cut off":            {cut: true},
		"frozen":             {freeze: true},
		"killed":             {kill: true},
		"cut off and frozen": {cut: true, freeze: true},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, rand.Uint64())
			f.outlast(b)
			f.chance()
		})
	}
}

// The same two hundred times over, at random.
func TestAttemptsNeverOverlapSoak(t *testing.T) {
	if os.Getenv("BERTH_LONG") == "" {
		t.Skip("200 randomised trials; set BERTH_LONG=1 (make test-all)")
	}
	const fleets, trials = 5, 40
	for i := range fleets {
		t.Run(fmt.Sprint("fleet ", i), func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			f := newFleet(t, seed)
			for n := range trials {
				f.chance()
				if t.Failed() {
					t.Fatalf("trial %d failed", n)
				}
			}
		})
	}
}
