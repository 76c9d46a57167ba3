package e2e

import (
	"strings"
	"testing"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

func TestPoisonJobEndsDead(t *testing.T) {
	h, f := newHouse(t), newFake(t, 4)
	h.work("titan", f)
	ref := h.submit(1)
	hurt := map[string]bool{}
	for range 3 {
		s := h.started()
		hurt[s.gpus] = true
		f.XID(f.index(t, s.gpus), 79)
		h.gone(s.pid)
	}
	r := h.result(ref)
	if r.State != job.Dead || len(r.Attempts) != 3 || !strings.Contains(r.Evidence, "XID 79") {
		t.Errorf("%s after %d attempts, evidence %q", r.State, len(r.Attempts), r.Evidence)
	}
	if len(hurt) != 3 {
		t.Errorf("it was tried on %d cards, want 3", len(hurt))
	}
	h.sees("titan", "the cards it hurt tested at once and back", func(m queue.Machine) bool {
		for _, g := range m.GPUs {
			if g.State != "ready" {
				return false
			}
		}
		return true
	})
}

// A job that meets its faults on several machines has all of them tested, and none that an operator has taken out.
func TestPoisonJobOnTwoMachinesHasBothTestTheirCards(t *testing.T) {
	h := newHouse(t)
	fakes := map[string]*fake{"one": newFake(t, 2), "two": newFake(t, 2)}
	for name, f := range fakes {
		h.work(name, f)
	}
	if err := h.queue.Quarantine(t.Context(), "two", "1", "root", "fan is loud"); err != nil {
		t.Fatal(err)
	}
	ref := h.submit(1)
	for range 3 {
		s := h.started()
		for _, f := range fakes {
			for i, id := range f.uuids {
				if id == s.gpus {
					f.XID(i, 79)
				}
			}
		}
		h.gone(s.pid)
	}
	if r := h.result(ref); r.State != job.Dead {
		t.Errorf("%+v", r)
	}
	for name, out := range map[string]int{"one": -1, "two": 1} {
		h.sees(name, "what a fault took out back in service", func(m queue.Machine) bool {
			for i, g := range m.GPUs {
				if (g.State == "ready") == (i == out) {
					return false
				}
			}
			return true
		})
	}
}
