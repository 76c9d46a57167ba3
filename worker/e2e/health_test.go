package e2e

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

func TestApplicationXIDFailsOnlyTheRun(t *testing.T) {
	h, f := newHouse(t), newFake(t, 1)
	d := h.work("titan", f)
	ref := h.submit(1)
	a := h.started()
	f.XID(0, 31)
	d.says("gpu_application_fault", "XID 31")
	h.end(a, 1)
	r := h.result(ref)
	if r.Outcome != job.OutcomeFailed || !strings.Contains(r.Evidence, "XID 31") {
		t.Errorf("%s, evidence %q", r.Outcome, r.Evidence)
	}
	next := h.submit(1) // the card serves on
	h.end(h.started(), 0)
	if r := h.result(next); r.State != job.Succeeded {
		t.Errorf("%+v", r)
	}
}

func TestFatalXIDQuarantinesAndComesBack(t *testing.T) {
	h, f := newHouse(t), newFake(t, 2)
	d := h.work("titan", f, "--restore-after", "2s")
	ref := h.submit(1)
	a := h.started()
	sick := f.index(t, a.gpus)
	f.XID(sick, 79)
	if g := h.gpuIs("titan", sick, "quarantined"); !strings.Contains(g.Why, "XID 79") {
		t.Errorf("why %q", g.Why)
	}
	b := h.started()
	if b.ref != a.ref || b.attempt != 2 || b.gpus != f.uuids[1-sick] {
		t.Errorf("after %+v: %+v", a, b)
	}
	h.end(b, 0)
	r := h.result(ref)
	if r.State != job.Succeeded || len(r.Attempts) != 2 || r.Attempts[0].Outcome != job.OutcomeGPUFault || !strings.Contains(r.Attempts[0].Evidence, "XID 79") {
		t.Errorf("%s after %+v", r.State, r.Attempts)
	}
	d.says("gpu_restored", f.uuids[sick])
	h.gpuIs("titan", sick, "ready")
	for _, kind := range []string{"quarantine", "restore"} {
		events, err := h.queue.Events(t.Context(), kind, time.Time{})
		if err != nil || len(events) != 1 || events[0].Facts["gpu"] != f.uuids[sick] {
			t.Errorf("%s: %+v, %v", kind, events, err)
		}
	}
	h.told("titan", f.uuids[sick], "XID 79", "ready")
}

// history are the states that a machine's history has of a GPU, in order, each once in a row, with why.
func (h *house) history(machine, gpu string) []string {
	h.t.Helper()
	s, err := h.js.Stream(h.t.Context(), queue.StreamSeries)
	if err != nil {
		h.t.Fatal(err)
	}
	info, err := s.Info(h.t.Context())
	if err != nil {
		h.t.Fatal(err)
	}
	var states []string
	for seq := max(info.State.FirstSeq, 1); seq <= info.State.LastSeq; seq++ {
		m, err := s.GetMsg(h.t.Context(), seq)
		if err != nil || m.Subject != "berth.fleet."+machine {
			continue // gone, or of a run
		}
		var point struct {
			GPUs map[string]struct{ State, Why string }
		}
		if err := json.Unmarshal(m.Data, &point); err != nil {
			h.t.Fatal(err)
		}
		g := point.GPUs[gpu]
		if text := strings.TrimSpace(g.State + " " + g.Why); len(states) == 0 || states[len(states)-1] != text {
			states = append(states, text)
		}
	}
	return states
}

// told waits until a machine's history tells of a GPU what is wanted, in that order.
func (h *house) told(machine, gpu string, want ...string) {
	h.t.Helper()
	for end := time.Now().Add(patience); ; {
		got := h.history(machine, gpu)
		at := 0
		for _, state := range got {
			if at < len(want) && strings.Contains(state, want[at]) {
				at++
			}
		}
		if at == len(want) {
			return
		}
		if time.Now().After(end) {
			h.t.Fatalf("the history of %s tells of %s %q, want %q", machine, gpu, got, want)
		}
		time.Sleep(50 * time.Millisecond) // a point is stored beside what it tells of
	}
}

func TestLostCardAndItsReturn(t *testing.T) {
	h, f := newHouse(t), newFake(t, 2)
	d := h.work("titan", f, "--restore-after", "1s")
	ref := h.submit(1)
	a := h.started()
	lost := f.index(t, a.gpus)
	f.GPU(lost).Lose()
	b := h.started()
	if b.gpus != f.uuids[1-lost] {
		t.Errorf("the second attempt is on %s", b.gpus)
	}
	h.end(b, 0)
	if r := h.result(ref); len(r.Attempts) != 2 || r.Attempts[0].Outcome != job.OutcomeGPUFault {
		t.Errorf("attempts %+v", r.Attempts)
	}
	h.gpuIs("titan", lost, "quarantined")
	f.GPU(lost).Return()
	d.says("gpu_restored", f.uuids[lost])
	h.gpuIs("titan", lost, "ready")
}

func TestUncorrectableMemoryErrors(t *testing.T) {
	h, f := newHouse(t), newFake(t, 2)
	h.work("titan", f)
	ref := h.submit(1)
	a := h.started()
	sick := f.index(t, a.gpus)
	h.sees("titan", "a reading", func(m queue.Machine) bool { return m.GPUs[sick].TemperatureC != nil })
	f.GPU(sick).Set("ecc_unc", "2")
	if g := h.gpuIs("titan", sick, "quarantined"); !strings.Contains(g.Why, "could not be corrected") {
		t.Errorf("why %q", g.Why)
	}
	b := h.started()
	h.end(b, 0)
	if r := h.result(ref); r.Attempts[0].Outcome != job.OutcomeGPUFault || !strings.Contains(r.Attempts[0].Evidence, "could not be corrected") {
		t.Errorf("attempts %+v", r.Attempts)
	}
}

func TestOperatorQuarantineOutlivesTheWorker(t *testing.T) {
	h, f := newHouse(t), newFake(t, 1)
	d := h.work("titan", f)
	running := h.submit(1)
	a := h.started()
	ctx := t.Context()
	if err := h.queue.Quarantine(ctx, "titan", f.uuids[0], "root", "fan is loud"); err != nil {
		t.Fatal(err)
	}
	h.end(a, 0) // what runs goes on
	if r := h.result(running); r.State != job.Succeeded || r.Attempt != 1 {
		t.Errorf("%+v", r)
	}
	if g := h.gpuIs("titan", 0, "quarantined"); !hasAll(g.Why, []string{"root", "fan is loud"}) {
		t.Errorf("why %q", g.Why)
	}
	d.detach()
	h.work("titan", f)
	h.gpuIs("titan", 0, "quarantined")
	ref := h.submit(1)
	if err := h.queue.Restore(ctx, "titan", "7", "root", ""); !errors.Is(err, queue.ErrNotFound) || !strings.Contains(err.Error(), `no GPU "7" (it has 0)`) {
		t.Errorf("GPU 7: %v", err)
	}
	if err := h.queue.Restore(ctx, "nowhere", "0", "root", ""); err == nil || !strings.Contains(err.Error(), "no worker of that name") {
		t.Errorf("machine nowhere: %v", err)
	}
	if s := h.state(ref); s != job.Queued {
		t.Errorf("a quarantined card was given: %s", s)
	}
	if err := h.queue.Restore(ctx, "titan", "0", "root", "new fan"); err != nil {
		t.Fatal(err)
	}
	h.end(h.started(), 0)
	h.result(ref)
	if err := h.queue.Restore(ctx, "titan", "0", "root", ""); !errors.Is(err, queue.ErrBadRequest) {
		t.Errorf("restored twice: %v", err)
	}
	h.told("titan", f.uuids[0], "by root: fan is loud", "") // whatever it is then
}

func TestCardThatChangesItsNameOrIsMissing(t *testing.T) {
	h, f := newHouse(t), newFake(t, 3)
	d := h.work("titan", f, "--restore-after", "1s")
	f.Set("count", "2")
	f.GPU(1).Set("uuid", "GPU-ffffffff-0000-4000-8000-000000000001")
	for _, i := range []int{1, 2} {
		h.sees("titan", "a card out of service", func(m queue.Machine) bool {
			return m.GPUs[i].State == "quarantined" || m.GPUs[i].State == "unreadable"
		})
	}
	d.says("gpu_quarantined", f.uuids[1])
	first, second := h.submit(1), h.submit(1)
	a := h.started()
	if a.gpus != f.uuids[0] {
		t.Errorf("the job was given %s, which is not there", a.gpus)
	}
	if s := h.state(second); s != job.Queued {
		t.Errorf("the second job is %s with one card left", s)
	}
	f.GPU(1).Set("uuid", f.uuids[1])
	f.Set("count", "3")
	b := h.started()
	if b.gpus == a.gpus {
		t.Error("one card was given twice")
	}
	h.end(a, 0)
	h.end(b, 0)
	h.result(first)
	h.result(second)
}

func TestNonsenseIsNotBelieved(t *testing.T) {
	h, f := newHouse(t), newFake(t, 2)
	f.GPU(0).Set("mem_used", "-5")
	f.GPU(0).Util(250)
	f.GPU(1).MemoryUsed(99 << 10) // more than there is
	d := h.work("titan", f)
	d.says("cannot be true", f.uuids[0])
	d.says("cannot be true", f.uuids[1])
	m := h.sees("titan", "its cards", func(m queue.Machine) bool { return len(m.GPUs) == 2 })
	for _, g := range m.GPUs {
		if g.MemoryFreeMB != nil && (*g.MemoryFreeMB < 0 || *g.MemoryFreeMB > g.MemoryTotalMB) {
			t.Errorf("free memory %d of %d MB", *g.MemoryFreeMB, g.MemoryTotalMB)
		}
		if g.UtilizationPercent != nil && *g.UtilizationPercent > 100 {
			t.Errorf("utilisation %v", *g.UtilizationPercent)
		}
	}
	f.GPU(0).Set("mem_used", "0")
	f.GPU(0).Util(0)
	f.GPU(1).MemoryUsed(0)
	first, second := h.submit(1), h.submit(1)
	a, b := h.started(), h.started()
	h.end(a, 0)
	h.end(b, 0)
	h.result(first)
	h.result(second)
	h.sees("titan", "both cards free", func(m queue.Machine) bool {
		return m.GPUs[0].Active == 0 && m.GPUs[1].Active == 0
	})
}

func TestUnknownGPUIDsNeverFit(t *testing.T) {
	h, f := newHouse(t), newFake(t, 1)
	h.work("titan", f)
	ref := h.submit(1, func(j *job.Job) { j.Requirements.GPUIDs = []string{"GPU-00000000-dead"} })
	h.sees("titan", "that it never fits, and what there is", func(m queue.Machine) bool {
		for _, why := range m.Never {
			if hasAll(why, []string{"GPU-00000000-dead", "it has 0"}) {
				return true
			}
		}
		return false
	})
	if s := h.state(ref); s != job.Queued {
		t.Errorf("state %s", s)
	}
}

// What the driver asks for (a reset, a card worn out) takes a card out of service, and its end brings the card back.
func TestWhatTheDriverAsksForQuarantines(t *testing.T) {
	h, f := newHouse(t), newFake(t, 3)
	d := h.work("titan", f, "--restore-after", "1s")
	ref := h.submit(1)
	a := h.started()
	sick := f.index(t, a.gpus)
	worn := (sick + 1) % 3
	f.GPU(sick).Set("recovery", "1")
	f.GPU(worn).Set("remap", "0 3 0 1")
	for i, why := range map[int]string{sick: "asks for a GPU reset", worn: "worn out"} {
		if g := h.gpuIs("titan", i, "quarantined"); !strings.Contains(g.Why, why) {
			t.Errorf("GPU %d: why %q, want %q", i, g.Why, why)
		}
	}
	b := h.started()
	if f.index(t, b.gpus) == worn || b.gpus == a.gpus {
		t.Errorf("the second attempt is on GPU %d", f.index(t, b.gpus))
	}
	h.end(b, 0)
	if r := h.result(ref); r.State != job.Succeeded || r.Attempts[0].Outcome != job.OutcomeGPUFault {
		t.Errorf("%s after %+v", r.State, r.Attempts)
	}
	f.GPU(sick).Set("recovery", "0")
	d.says("gpu_restored", f.uuids[sick])
	if g := h.gpuIs("titan", sick, "ready"); g.Why != "" {
		t.Errorf("why %q", g.Why)
	}
	h.gpuIs("titan", worn, "quarantined") // the spare rows do not grow again
}

// One card of a gang fails: the whole run ends and goes on with whole cards, and the others of the gang serve on.
func TestGangEndsWhenOneOfItsCardsFails(t *testing.T) {
	h, f := newHouse(t), newFake(t, 3)
	d := h.work("titan", f)
	ref := h.submit(2)
	a := h.started()
	first, _, _ := strings.Cut(a.gpus, ",")
	sick := f.index(t, first)
	f.XID(sick, 48)
	d.says("gpu_quarantined", first)
	b := h.started()
	if b.ref != a.ref || b.attempt != 2 || strings.Contains(b.gpus, first) || len(strings.Split(b.gpus, ",")) != 2 {
		t.Errorf("after %+v: %+v", a, b)
	}
	m := h.sees("titan", "the gang on two cards", func(m queue.Machine) bool {
		busy := 0
		for _, g := range m.GPUs {
			if len(g.Jobs) == 1 {
				busy++
			}
		}
		return busy == 2
	})
	for i, g := range m.GPUs {
		if (g.State == "quarantined") != (i == sick) {
			t.Errorf("GPU %d is %s", i, g.State)
		}
	}
	h.end(b, 0)
	if r := h.result(ref); r.State != job.Succeeded || len(r.Attempts) != 2 {
		t.Errorf("%s after %+v", r.State, r.Attempts)
	}
}

// An event that names no card is everybody's: all are tested, none is lost.
func TestEventThatNamesNoCardIsEverybodys(t *testing.T) {
	h, f := newHouse(t), newFake(t, 2)
	d := h.work("titan", f, "--restore-after", "1s")
	f.XID(-1, 79)
	for i := range 2 {
		d.says("gpu_quarantined", f.uuids[i])
	}
	for i := range 2 {
		d.says("gpu_restored", f.uuids[i])
	}
	ref := h.submit(2)
	h.end(h.started(), 0)
	h.result(ref)
}
