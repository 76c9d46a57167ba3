package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/berthq/berth/job"
)

// jobCache keeps the last few jobs by number, so that a group is fetched and parsed once, not once a task. Jobs never
// change, so nothing in it grows old.
type jobCache struct {
	mu    sync.Mutex
	jobs  map[uint64]*job.Job
	order []uint64 // oldest first
}

const jobCacheSize = 64

func newJobCache() *jobCache { return &jobCache{jobs: map[uint64]*job.Job{}} }

func (c *jobCache) get(number uint64) *job.Job {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.jobs[number]
}

func (c *jobCache) put(number uint64, j *job.Job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.jobs[number]; ok {
		return
	}
	if len(c.order) == jobCacheSize {
		delete(c.jobs, c.order[0])
		c.order = c.order[1:]
	}
	c.jobs[number] = j
	c.order = append(c.order, number)
}

// Job reads a submitted job by its number. The value is shared: treat it as read-only.
func (q *Queue) Job(ctx context.Context, number uint64) (*job.Job, error) {
	if j := q.jobs.get(number); j != nil {
		return j, nil
	}
	if j := q.fresh.get(number); j != nil {
		return j, nil
	}
	s, err := q.getSeq(ctx, number)
	if err != nil {
		return nil, fmt.Errorf("job %d: %w", number, err)
	}
	j, err := decodeJob(s)
	if err != nil {
		return nil, fmt.Errorf("job %d: %w", number, err)
	}
	if j.IsGroup() {
		q.jobs.put(number, j)
	}
	return j, nil
}

// groupStates keeps for a second how groups stand, so that a claim of one of many tasks costs no request of its own.
type groupStates struct {
	mu  sync.Mutex
	all map[uint64]groupStanding
}

type groupStanding struct {
	state job.State     // "" where it is not known, which stops nothing
	limit *job.Duration // time limit as changed after the submit
	at    time.Time
}

const groupStandingFor = time.Second

// groupStanding is how a group stood within the last second.
func (q *Queue) groupStanding(ctx context.Context, number uint64) groupStanding {
	g := &q.groups
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if s, ok := g.all[number]; ok && now.Sub(s.at) < groupStandingFor && !s.state.Final() { // a retry may follow an end at once
		return s
	}
	rec, _, err := q.records.get(ctx, JobRef(number))
	if err != nil || rec == nil {
		return groupStanding{}
	}
	if g.all == nil || len(g.all) >= jobCacheSize {
		g.all = map[uint64]groupStanding{}
	}
	s := groupStanding{rec.State, rec.TimeLimit, now}
	g.all[number] = s
	return s
}

// forget makes the next question about a group one to the broker.
func (g *groupStates) forget(number uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.all, number)
}
