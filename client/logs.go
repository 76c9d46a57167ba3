package client

import (
	"context"
	"iter"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// Result is one result with its place in the log of results: Seq, At and Value, a job.Result.
type Result = queue.Entry[job.Result]

// ResultQuery says which results, from where on (New, From or Since; none is all that are kept), and whether to Follow.
type ResultQuery = queue.ResultOptions

// Results yields results in the order in which jobs ended. It ends with the last one there is, or with Follow when ctx
// does; an error is the last thing it yields.
func (c *Client) Results(ctx context.Context, q ResultQuery) iter.Seq2[Result, error] {
	return c.q.ResultEntries(ctx, q)
}

// Event is one line of the log of who did what, with its place there.
type Event = queue.Entry[queue.Event]

// EventQuery says which events, from where on, and whether to Follow.
type EventQuery = queue.EventOptions

// Events yields events in the order in which they were stored, as Results does.
func (c *Client) Events(ctx context.Context, q EventQuery) iter.Seq2[Event, error] {
	return c.q.EventEntries(ctx, q)
}
