package queue

import (
	"context"
	"encoding/json"
	"fmt"
)

// PublishSeries stores the chart points of an attempt, any JSON value; the last one counts. It is stored while the job
// runs and at its end.
func (q *Queue) PublishSeries(ctx context.Context, project string, ref Ref, attempt int, series any) error {
	return q.publishPoints(ctx, seriesSubject(project, ref, attempt), series)
}

// PublishFleet stores one minute's points of a machine.
func (q *Queue) PublishFleet(ctx context.Context, machine string, points any) error {
	return q.publishPoints(ctx, prefixFleet+token(machine), points)
}

func (q *Queue) publishPoints(ctx context.Context, subject string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("%s: %w", subject, err)
	}
	_, err = q.publish(ctx, newMsg(subject, body))
	return err
}

// Series reads the chart points of an attempt into v. ErrNotFound: there are none.
func (q *Queue) Series(ctx context.Context, project string, ref Ref, attempt int, v any) error {
	s, err := q.getLast(ctx, StreamSeries, seriesSubject(project, ref, attempt), false)
	if err != nil {
		return fmt.Errorf("series of %s.%d: %w", ref, attempt, err)
	}
	if err := json.Unmarshal(s.Data, v); err != nil {
		return fmt.Errorf("series of %s.%d: %w", ref, attempt, err)
	}
	return nil
}
