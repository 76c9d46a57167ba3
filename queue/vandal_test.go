package queue

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/job"
)

// TestEveryJobRunsOnceWhateverTheLanesLose deletes messages, lanes and consumers at random while jobs are submitted,
// claimed and run by four workers. The janitors, of which one is elected, put back what is missing, and every job and task
// runs once: no more, no less.
func TestEveryJobRunsOnceWhateverTheLanesLose(t *testing.T) {
	t.Parallel()
	jobs, tasks := 150, 60
	if os.Getenv("BERTH_LONG") != "" {
		jobs, tasks = 4000, 1000
	}
	b := setup(t, quick())
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(jobs)*100*time.Millisecond+4*patience)
	t.Cleanup(cancel)
	b.ctx = ctx
	ran := &runCount{runs: map[Ref]int{}}
	for range 4 {
		q := b.open()
		b.background(q.RunClerk)
		b.background(func(ctx context.Context) error { return q.RunJanitor(ctx, "test", 500*time.Millisecond) })
		m := b.machineOn(q, "m")
		b.background(func(ctx context.Context) error { return m.work(ctx, ran) })
	}
	v := &vandal{bundle: b, rng: rand.New(rand.NewPCG(1, rand.Uint64()))}
	stop := b.background(v.rage)

	array := newJob("array")
	array.Tasks = &job.Tasks{Indexes: fmt.Sprint("1-", tasks), Count: tasks}
	group := b.submit(array)
	refs := make([]Ref, 0, jobs)
	for i := range jobs {
		j := newJob("x")
		j.Requirements.GPUMemoryMB = 4096 + 1024*int64(i%7)
		refs = append(refs, b.submit(j))
	}
	for b.ended() < uint64(jobs+tasks+1) {
		if err := sleep(b.ctx, 50*time.Millisecond); err != nil {
			t.Fatalf("%d of %d have ended: %v", b.ended(), jobs+tasks+1, err)
		}
	}
	if r := b.outcome(group); r.Reason != fmt.Sprint(tasks, " succeeded") {
		t.Errorf("the group: %s", r.Reason)
	}
	stop()
	for i := range tasks {
		refs = append(refs, TaskRef(group.Number, i+1))
	}
	for _, ref := range refs {
		if n := ran.of(ref); n != 1 {
			t.Errorf("%s ran %d times", ref, n)
		}
	}
	if n := b.ended(); n != uint64(len(refs)+1) {
		t.Errorf("%d results, want %d", n, len(refs)+1)
	}
	if v.messages == 0 || v.consumers == 0 || v.lanes == 0 {
		t.Fatal("nothing was deleted: this shows nothing")
	}
	t.Logf("%d jobs and tasks ran once; deleted were %d messages, %d consumers, %d lanes", len(refs), v.messages, v.consumers, v.lanes)
}

// ended counts the results.
func (b *bundle) ended() uint64 {
	b.t.Helper()
	state, err := b.q.streamState(context.WithoutCancel(b.ctx), StreamResults, "")
	if err != nil {
		b.t.Fatal(err)
	}
	return state.Msgs
}

// outcome waits for a job's success, as long as the whole test may take.
func (b *bundle) outcome(ref Ref) job.Result {
	b.t.Helper()
	r, err := b.q.WaitResult(b.ctx, ref)
	if err != nil || r.State != job.Succeeded {
		b.t.Fatalf("%s: %s %s, %v", ref, r.State, r.Reason, err)
	}
	return r
}

// runCount is how often each job was run.
type runCount struct {
	mu   sync.Mutex
	runs map[Ref]int
}

func (c *runCount) add(ref Ref) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs[ref]++
}

func (c *runCount) of(ref Ref) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.runs[ref]
}

// work takes and runs jobs as a worker does, four at a time, until ctx ends.
func (m *machine) work(ctx context.Context, ran *runCount) error {
	slots := make(chan struct{}, 4)
	var g sync.WaitGroup
	defer g.Wait()
	for {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		d, err := m.tryNextIn(ctx)
		if err != nil {
			return ctx.Err()
		}
		g.Go(func() {
			defer func() { <-slots }()
			c, err := d.Claim(m.ctx, nil)
			if err != nil {
				return // dealt with: the delivery said why
			}
			ran.add(c.Ref())
			_ = sleep(ctx, time.Duration(rand.IntN(20))*time.Millisecond) // the run; its end is that of the test at the latest
			if err := c.Finish(m.ctx, succeeded); err != nil {
				m.t.Errorf("finish %s: %v", c.Ref(), err)
			}
		})
	}
}

// vandal deletes what the lanes are made of.
type vandal struct {
	*bundle
	rng                        *rand.Rand
	messages, consumers, lanes int
}

// rage goes on until ctx ends. What it does not get because somebody else was faster it does not count.
func (v *vandal) rage(ctx context.Context) error {
	lanes, err := v.q.js.Stream(ctx, StreamLanes)
	if err != nil {
		return err
	}
	for turn := 0; ; turn++ {
		if err := sleep(ctx, time.Duration(20+v.rng.IntN(60))*time.Millisecond); err != nil {
			return nil //nolint:nilerr // the end of the rage, not an error
		}
		v.deleteMessage(ctx, lanes)
		all := v.q.Lanes()
		if len(all) == 0 {
			continue
		}
		lane := all[v.rng.IntN(len(all))].Lane
		switch turn % 4 {
		case 1:
			if v.q.js.DeleteConsumer(ctx, StreamLanes, laneConsumer(lane)) == nil {
				v.consumers++
			}
		case 3:
			h, _ := v.q.lanes.heat(lane)
			if v.q.deleteKey(ctx, BucketShapes, laneKey(lane), h.rev) == nil {
				v.lanes++
			}
		}
	}
}

// deleteMessage deletes one of the messages that wait or are being worked on.
func (v *vandal) deleteMessage(ctx context.Context, lanes jetstream.Stream) {
	info, err := lanes.Info(ctx)
	if err != nil || info.State.Msgs == 0 {
		return
	}
	seq := info.State.FirstSeq + v.rng.Uint64N(info.State.LastSeq-info.State.FirstSeq+1)
	if lanes.DeleteMsg(ctx, seq) == nil {
		v.messages++
	}
}
