package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// usageSubject names the counter of one project and hour (UTC): berth.usage.<project>.<hour since 1970>.
func usageSubject(project string, at time.Time) string {
	return prefixUsage + project + "." + strconv.FormatInt(at.Unix()/3600, 10)
}

// AddUsage counts what a run held, in whole GPU seconds, towards its project. The id makes a second try count once.
func (q *Queue) AddUsage(ctx context.Context, project string, at time.Time, gpuSeconds float64, id string) error {
	n := int64(math.Round(gpuSeconds))
	if n <= 0 {
		return nil
	}
	m := newMsg(usageSubject(project, at), nil)
	m.Header.Set(headerIncr, "+"+strconv.FormatInt(n, 10))
	m.Header.Set(headerMsgID, "usage."+id)
	if _, err := q.publish(ctx, m); err != nil {
		return fmt.Errorf("usage of %s: %w", project, err)
	}
	return nil
}

// decayed is what GPU hours of some age still count: half after each half-life. A clock that runs ahead of ours makes
// nothing count more than it was.
func decayed(hours float64, age, halfLife time.Duration) float64 {
	return hours * math.Exp2(-max(0, age).Hours()/halfLife.Hours())
}

// Usage is what each project has used, in GPU hours that count half after each half-life. The counters' own retention
// (30 days) bounds how far it looks back.
func (q *Queue) Usage(ctx context.Context, halfLife time.Duration, now time.Time) (map[string]float64, error) {
	used := map[string]float64{}
	err := q.eachLast(ctx, StreamUsage, prefixUsage+"*.*", whole, func(m jetstream.Msg) {
		project, hour, ok := strings.Cut(strings.TrimPrefix(m.Subject(), prefixUsage), ".")
		h, err := strconv.ParseInt(hour, 10, 64)
		if !ok || err != nil {
			return
		}
		var counter struct {
			Val string `json:"val"`
		}
		if json.Unmarshal(m.Data(), &counter) != nil {
			return
		}
		seconds, err := strconv.ParseFloat(counter.Val, 64)
		if err != nil {
			return
		}
		used[project] += decayed(seconds/3600, now.Sub(time.Unix(h*3600, 0)), halfLife)
	})
	if err != nil {
		return nil, fmt.Errorf("usage: %w", err)
	}
	return used, nil
}
