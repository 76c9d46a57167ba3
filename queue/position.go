package queue

import (
	"context"
	"fmt"

	"github.com/berthq/berth/job"
)

// positionLooks bounds how many messages of a lane are read to find a job's place.
const positionLooks = 2000

// Position is where a job stands on its lane.
type Position struct {
	Lane    job.Lane
	InFront []Ref // those that wait before it, the first first
	Found   bool  // false: it is not on the lane (not yet, or held), or further back than was looked
}

// LaneOf is the lane on which a job of these requirements and priority waits.
func LaneOf(project string, r job.Requirements, priority int) job.Lane {
	return job.Lane{Band: job.BandOf(priority), Shape: job.ShapeOf(r).ID, Project: project}
}

// Position looks a waiting job up on its lane, without taking anything off it.
func (q *Queue) Position(ctx context.Context, v JobView) (Position, error) {
	p := Position{Lane: LaneOf(v.Project, v.Asks(), v.Priority)}
	var waiting []Ref
	seen, from := 0, uint64(1)
	for seen < positionLooks && !p.Found {
		batch, err := q.batch(ctx, StreamLanes, map[string]any{"seq": from, "batch": listWindow, "next_by_subj": laneSubject(p.Lane)})
		if err != nil {
			return p, fmt.Errorf("position of %s: %w", v.Ref, err)
		}
		var refs []Ref
		epochs := map[Ref]int{}
		for _, s := range batch {
			from = s.Seq + 1
			msg, err := decodeLaneMessage(s.Data)
			if err != nil {
				continue // whoever pulls it deals with it
			}
			refs, epochs[msg.ref()] = append(refs, msg.ref()), msg.Epoch
		}
		records, err := q.recordsOf(ctx, refs)
		if err != nil {
			return p, err
		}
		for _, ref := range refs {
			if judge(records[ref], epochs[ref]) != mayClaim {
				continue
			}
			if ref == v.Ref {
				p.Found = true
				break
			}
			waiting = append(waiting, ref)
		}
		seen += len(batch)
		if len(batch) < listWindow {
			break
		}
	}
	p.InFront = waiting
	if !p.Found && seen < positionLooks {
		p.InFront = nil // it is not there, so nobody is in front of it
	}
	return p, nil
}

// Ahead lists the heads of lanes in higher bands that some machine serves before this one: at most so many.
func (q *Queue) Ahead(ctx context.Context, lane job.Lane, most int) ([]Head, error) {
	counts, err := q.LaneCounts(ctx)
	if err != nil {
		return nil, err
	}
	var heads []Head
	for l := range counts {
		if l.Band >= lane.Band || len(heads) >= most {
			continue
		}
		head, waits, err := q.LaneHead(ctx, l)
		if err != nil {
			return heads, err
		}
		if waits && head.Requirements.GPUs > 0 == (lane.Shape[0] == 'g') {
			heads = append(heads, head)
		}
	}
	return heads, nil
}

// recentResults is how far back RecentRuns looks on the results stream.
const recentResults = 2000

// RecentRuns are the last results of a project's jobs that ran, for estimates.
func (q *Queue) RecentRuns(ctx context.Context, project string) ([]job.Result, error) {
	state, err := q.streamState(ctx, StreamResults, "")
	if err != nil || state.Msgs == 0 {
		return nil, err
	}
	from := state.FirstSeq
	if state.LastSeq > recentResults {
		from = max(from, state.LastSeq-recentResults)
	}
	var all []job.Result
	err = q.scan(ctx, StreamResults, prefixResults+project+".>", from, state.LastSeq, func(s stored) error {
		var r job.Result
		if r.UnmarshalJSON(s.Data) == nil && r.StartedAt != nil && r.EndedAt != nil {
			all = append(all, r)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("recent results of %s: %w", project, err)
	}
	return all, nil
}
