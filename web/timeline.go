package web

import (
	"cmp"
	"net/http"
	"slices"
	"time"
)

const (
	segmentsMost  = 4000
	segmentsSteps = 1000 // what is shorter than this part of the time shown is drawn with its neighbour
	leastShown    = time.Minute
)

// segment is one GPU held by one job for a time.
type segment struct {
	GPU     string    `json:"gpu"` // UUID
	Job     string    `json:"job"` // number[.index]; of the first one, where several short ones are drawn as one
	Jobs    int       `json:"jobs"`
	Name    string    `json:"name"`
	User    string    `json:"user"`
	Project string    `json:"project"`
	Kind    string    `json:"kind,omitempty"`
	Start   time.Time `json:"start"`
	End     time.Time `json:"end"`
	Running bool      `json:"running,omitempty"`
}

// timeline lists who held which GPU from then to now, oldest first on each GPU. It begins with the first job where that is
// later: a young fleet's picture is not empty for the time before it. cut: there is more than is listed.
func (x *index) timeline(back time.Duration, now time.Time) (from time.Time, all []segment, cut bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	from = now.Add(-back)
	if first, known := x.begins(); known {
		from = later(from, earlier(first, now.Add(-leastShown)))
	}
	back = now.Sub(from)
	all = []segment{}
	for ref, spans := range x.spans {
		r := x.by[ref.Number]
		if r == nil {
			continue
		}
		for _, s := range spans {
			s = x.ours(s)
			end, running := s.end, s.end.IsZero()
			if running || end.After(now) {
				end = now
			}
			if !end.After(from) || !end.After(s.start) {
				continue
			}
			for _, gpu := range s.devices {
				all = append(all, segment{gpu, ref.String(), 1, r.Name, r.User, r.Project, r.Kind, later(s.start, from), end, running})
			}
		}
	}
	slices.SortFunc(all, func(a, b segment) int { return cmp.Or(cmp.Compare(a.GPU, b.GPU), a.Start.Compare(b.Start)) })
	all = joined(all, back/segmentsSteps)
	if len(all) > segmentsMost {
		slices.SortStableFunc(all, func(a, b segment) int { return b.End.Compare(a.End) })
		return from, all[:segmentsMost], true
	}
	return from, all, false
}

// ours is the span by our clock.
func (x *index) ours(s span) span {
	if ahead := x.ahead[s.machine]; ahead != 0 {
		s.start = s.start.Add(-ahead)
		if !s.end.IsZero() { // it has ended
			s.end = s.end.Add(-ahead)
		}
	}
	return s
}

// begins is when the oldest run, or else the oldest job, began. A job that is retried is queued anew: its runs tell more.
func (x *index) begins() (first time.Time, known bool) {
	if len(x.rows) > 0 {
		first = x.rows[0].QueuedAt
	}
	for _, spans := range x.spans {
		if start := x.ours(spans[0]).start; first.IsZero() || start.Before(first) {
			first = start
		}
	}
	return first, !first.IsZero()
}

// joined draws runs of one owner that follow one another as one where they are too short to be told apart.
func joined(all []segment, least time.Duration) []segment {
	out := all[:0]
	for _, s := range all {
		if n := len(out); n > 0 {
			p := &out[n-1]
			short := s.End.Sub(s.Start) < least || p.End.Sub(p.Start) < least
			if short && p.GPU == s.GPU && p.User == s.User && p.Project == s.Project && s.Start.Sub(p.End) < least {
				p.End, p.Jobs, p.Running = later(p.End, s.End), p.Jobs+s.Jobs, p.Running || s.Running
				continue
			}
		}
		out = append(out, s)
	}
	return out
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (s *Server) timeline(r *http.Request) (any, error) {
	minutes, err := number(r.URL.Query().Get("minutes"), 60, 30*24*60)
	if err != nil {
		return nil, err
	}
	if minutes == 0 {
		return nil, refuse(http.StatusBadRequest, "minutes: want at least 1")
	}
	st, back := s.stamp(), time.Duration(minutes)*time.Minute
	from, segments, cut := s.hub.index.timeline(back, st.Now)
	return timelineAnswer{st, from, segments, cut}, nil
}
