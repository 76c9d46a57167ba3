package queue

import (
	"context"
	"fmt"
	"sync"

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
	s, err := q.getSeq(ctx, StreamJobs, number)
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
