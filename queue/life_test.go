package queue

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berthq/berth/job"
)

func TestOneJobFromSubmitToResult(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	b.background(b.q.RunClerk)
	m := b.machine("gpu1.lab.example")

	ref := b.submit(newJob("first"))
	d := m.next()
	if d.Ref() != ref || d.Job.Spec.Name != "first" || d.Requirements.GPUMemoryMB != 4096 {
		t.Fatalf("delivery: %+v", d)
	}
	c, err := d.Claim(b.ctx, []string{"GPU-7"})
	if err != nil {
		t.Fatal(err)
	}
	rec := b.record(ref)
	if rec.State != job.Running || rec.Machine != "gpu1.lab.example" || !cmp.Equal(rec.Devices, []string{"GPU-7"}) {
		t.Errorf("record while it runs: %+v", rec)
	}
	result := succeeded
	result.Output = json.RawMessage(`{"loss":0.1}`)
	if err := c.Finish(b.ctx, result); err != nil {
		t.Fatal(err)
	}
	r := b.wait(ref)
	if r.State != job.Succeeded || r.Attempt != 1 || r.Round != 1 || r.Name != "first" || r.User != "ada" || string(r.Output) != `{"loss":0.1}` {
		t.Errorf("result: %+v", r)
	}
	if len(r.Attempts) != 1 || r.Attempts[0].Outcome != job.OutcomeSucceeded || r.Machine != "gpu1.lab.example" {
		t.Errorf("attempts: %+v", r.Attempts)
	}
	if n := b.runs(ref); n != 1 {
		t.Errorf("%d attempt messages, want 1", n)
	}
	eventually(t, "the lane is empty", func() bool { return b.onLanes() == 0 })
}
