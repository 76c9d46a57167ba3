package gpuslots

import (
	"fmt"
	"strings"
	"time"

	"github.com/berthq/berth/job"
)

// Answer is yes or no, with the sentence that explains it.
type Answer struct {
	OK   bool     `json:"ok"`
	Text string   `json:"text"`
	GPUs []string `json:"gpus,omitempty"` // UUIDs, best first, when yes
	// Never: no, and waiting will not change it.
	Never bool `json:"never,omitempty"`
}

// Check answers "are n GPUs with so much memory free for me alone?" without taking them.
func (p *Pool) Check(n int, memoryMB int64, now time.Time) Answer {
	return p.CheckFor(job.Requirements{GPUs: n, GPUMemoryMB: memoryMB}, now)
}

// CheckFor is Check for any requirements.
func (p *Pool) CheckFor(req job.Requirements, now time.Time) Answer {
	p.mu.Lock()
	defer p.mu.Unlock()
	w, err := newWish(Request{Req: req}, p.at(now))
	if err != nil {
		return Answer{Text: "no: " + err.Error(), Never: true}
	}
	chosen, err := p.choose(&w)
	if err != nil {
		r, _ := AsRefusal(err)
		return Answer{Text: "no: " + err.Error(), Never: r != nil && r.Reason == NeverFits}
	}
	a := Answer{OK: true}
	var names []string
	for _, c := range chosen {
		a.GPUs = append(a.GPUs, c.device.UUID)
		names = append(names, fmt.Sprintf("GPU %s has %d of %d MB free, score %.2f",
			c.device.Key(), max(0, p.available(c, w.now)), c.totalMB, p.score(c, w.now)))
	}
	if len(names) == 0 {
		a.Text = "yes: no GPU is asked for"
		return a
	}
	a.Text = fmt.Sprintf("yes: %s: %s", w.need(), strings.Join(names, "; "))
	return a
}
