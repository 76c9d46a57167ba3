package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/job"
)

// countTasks is how many tasks of a group have ended: the results that are stored of them. One request, no matter how
// many there are.
func (q *Queue) countTasks(ctx context.Context, project string, number uint64) (int, error) {
	filter := prefixResults + project + "." + strconv.FormatUint(number, 10) + ".*"
	n, err := q.countSubjects(ctx, StreamResults, filter)
	if err != nil {
		return 0, fmt.Errorf("count the finished tasks of %d: %w", number, err)
	}
	return n, nil
}

// countSubjects counts the messages of a filter. Results of a second round count once more, so callers that care count
// by TaskStates.
func (q *Queue) countSubjects(ctx context.Context, stream, filter string) (int, error) {
	return q.countSubjectsFrom(ctx, stream, filter, 1)
}

// countSubjectsFrom counts from a sequence on.
func (q *Queue) countSubjectsFrom(ctx context.Context, stream, filter string, from uint64) (int, error) {
	body, err := json.Marshal(map[string]any{"seq": from, "next_by_subj": filter, "batch": 1})
	if err != nil {
		return 0, err
	}
	m, err := q.request(ctx, "$JS.API.DIRECT.GET."+stream, body)
	if err != nil {
		return 0, err
	}
	if m.Header.Get(headerStatus) != "" {
		return 0, nil
	}
	behind, err := strconv.Atoi(m.Header.Get(headerNumPend))
	if err != nil {
		return 0, fmt.Errorf("an answer without a count: %w", err)
	}
	return behind + 1, nil
}

// TaskStates counts the ended tasks of a group by state, from the last result of each.
func (q *Queue) TaskStates(ctx context.Context, project string, number uint64) (map[job.State]int, error) {
	filter := prefixResults + project + "." + strconv.FormatUint(number, 10) + ".*"
	states := map[job.State]int{}
	err := q.eachLast(ctx, StreamResults, filter, headersOnly, func(m jetstream.Msg) {
		states[job.State(m.Headers().Get(HeaderState))]++
	})
	if err != nil {
		return nil, fmt.Errorf("states of the tasks of %d: %w", number, err)
	}
	return states, nil
}

// How much of each message eachLast reads.
const (
	headersOnly = true
	whole       = false
)

// eachLast reads the last message of each subject of a filter, as they are now.
func (q *Queue) eachLast(ctx context.Context, stream, filter string, only bool, see func(jetstream.Msg)) error {
	consumer, err := q.orderedConsumer(ctx, stream, jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{filter}, DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, HeadersOnly: only,
	})
	if err != nil {
		return streamError(err)
	}
	defer q.forgetConsumer(stream, consumer)
	left := consumer.CachedInfo().NumPending
	if left == 0 {
		return nil
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for ; left > 0; left-- {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return errors.Join(ctx.Err(), err)
		}
		see(m)
	}
	return nil
}

// stateCounts says "148 succeeded, 2 failed".
func stateCounts(states map[job.State]int) string {
	parts := make([]string, 0, len(states))
	for s, n := range states {
		parts = append(parts, strconv.Itoa(n)+" "+string(s))
	}
	slices.Sort(parts)
	slices.Reverse(parts)
	return strings.Join(parts, ", ")
}
