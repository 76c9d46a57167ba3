package queue

import (
	"context"
	"encoding/json"
	"time"
)

// survey is how many messages each lane has, by subject; those it does not name have none. nil: not looked.
type survey map[string]uint64

// survey looks at all lanes in one request where many would have to be asked: a fleet with a thousand lanes must not
// cost the broker a thousand requests a worker and second to learn that nothing is there.
func (p *Puller) survey(ctx context.Context, lanes int) survey {
	if lanes < surveyFrom {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, probeWait)
	defer cancel()
	m, err := p.q.request(ctx, "$JS.API.STREAM.INFO."+StreamLanes, []byte(`{"subjects_filter":"`+prefixLanes+`>"}`))
	var answer struct {
		State *struct {
			Subjects survey `json:"subjects"`
		} `json:"state"`
	}
	if err == nil {
		err = json.Unmarshal(m.Data, &answer)
	}
	if err != nil || answer.State == nil {
		p.q.log.Debug("lanes_not_surveyed", "err", err) // each is asked instead
		return nil
	}
	if answer.State.Subjects == nil {
		return survey{}
	}
	return answer.State.Subjects
}

// empty reports whether there is nothing to get on a lane. Messages that are with other workers count as its own until
// they are done; so a lane that had so many the last time it was asked is left alone for a while.
func (s survey) empty(q question) bool {
	if s == nil {
		return false
	}
	n := s[laneSubject(q.Lane)]
	return n == 0 || n <= q.was.messages && time.Since(q.was.asked) < busySweep
}
