package web

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/berthq/berth/queue"
)

const tailMost = 512 << 10 // bytes of a job's output that are kept for those who come later

var errLogEnds = errors.New("") // the log is complete

// tails are the logs that somebody looks at: one reader each, however many look.
type tails struct {
	q  *queue.Queue
	mu sync.Mutex
	by map[queue.Ref]*tail
	wg sync.WaitGroup
}

func newTails(q *queue.Queue) *tails { return &tails{q: q, by: map[queue.Ref]*tail{}} }

type tail struct {
	users int
	stop  context.CancelFunc

	mu      sync.Mutex
	pieces  []logPiece
	dropped int // pieces before pieces[0]
	size    int
	ended   error // errLogEnds, or what went wrong
	wake    chan struct{}
}

func (x *tails) join(ctx context.Context, id queue.Ref) *tail {
	x.mu.Lock()
	defer x.mu.Unlock()
	t := x.by[id]
	if t == nil {
		ctx, stop := context.WithCancel(ctx)
		t = &tail{stop: stop, wake: make(chan struct{})}
		x.by[id] = t
		x.wg.Go(func() { t.follow(ctx, x.q, id) }) // ends with its last user, or with the server
	}
	t.users++
	return t
}

func (x *tails) leave(id queue.Ref, t *tail) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if t.users--; t.users == 0 {
		t.stop()
		delete(x.by, id)
	}
}

func (t *tail) follow(ctx context.Context, q *queue.Queue, id queue.Ref) {
	err := errLogEnds
	for c, problem := range q.Logs(ctx, id, queue.LogOptions{Follow: true}) {
		if problem != nil {
			err = problem
			break
		}
		if !c.End {
			t.add(logPiece{c.Job, c.Attempt, c.Stream, c.At, strings.ToValidUTF8(string(c.Data), "\uFFFD")})
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = err
	close(t.wake)
	t.wake = make(chan struct{})
}

func (t *tail) add(p logPiece) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.pieces = append(t.pieces, p)
	t.size += len(p.Text)
	for t.size > tailMost && len(t.pieces) > 1 {
		t.size -= len(t.pieces[0].Text)
		t.pieces, t.dropped = t.pieces[1:], t.dropped+1
	}
	close(t.wake)
	t.wake = make(chan struct{})
}

// after returns what came after the first n pieces.
func (t *tail) after(n int) (pieces []logPiece, next int, cut bool, wake <-chan struct{}, ended error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if cut = n < t.dropped; cut {
		n = t.dropped
	}
	return append([]logPiece(nil), t.pieces[n-t.dropped:]...), t.dropped + len(t.pieces), cut, t.wake, t.ended
}
