package job

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestNearTo(t *testing.T) {
	t.Parallel()
	until := time.Date(2031, 5, 1, 12, 0, 0, 0, time.UTC)
	ran := Attempt{Machine: "m1", Devices: []string{"GPU-a", "GPU-b"}, Outcome: OutcomeSucceeded}
	with := func(change func(*Attempt)) Attempt { a := ran; change(&a); return a }
	both, one := []string{"GPU-a", "GPU-b", "GPU-c"}, []string{"GPU-b"}
	place := func(devices ...string) *Near {
		return &Near{Job: "7", Machine: "m1", Devices: devices, Until: &until}
	}
	for name, tc := range map[string]struct {
		last      Attempt
		needs     Requirements
		inService []string
		want      *Near
		narrow    Requirements // where something is preferred
	}{
		"its two GPUs":                  {ran, Requirements{GPUs: 2}, both, place("GPU-a", "GPU-b"), Requirements{GPUs: 2, Machine: "m1", GPUIDs: both[:2]}},
		"any of its two":                {ran, Requirements{GPUs: 1}, both, place("GPU-a", "GPU-b"), Requirements{GPUs: 1, Machine: "m1", GPUIDs: both[:2]}},
		"more than it had: the machine": {ran, Requirements{GPUs: 3}, both, place("GPU-a", "GPU-b"), Requirements{GPUs: 3, Machine: "m1"}},
		"one is out of service":         {ran, Requirements{GPUs: 1}, one, place("GPU-b"), Requirements{GPUs: 1, Machine: "m1", GPUIDs: one}},
		"one of two is out of service":  {ran, Requirements{GPUs: 2}, one, place("GPU-b"), Requirements{GPUs: 2, Machine: "m1"}},
		"the job is tied to it anyway":  {ran, Requirements{GPUs: 1, Machine: "m1"}, one, place("GPU-b"), Requirements{GPUs: 1, Machine: "m1", GPUIDs: one}},
		"it still runs":                 {with(func(a *Attempt) { a.Outcome = "" }), Requirements{GPUs: 1}, one, place("GPU-b"), Requirements{GPUs: 1, Machine: "m1", GPUIDs: one}},
		"it failed by itself":           {with(func(a *Attempt) { a.Outcome = OutcomeFailed }), Requirements{GPUs: 1}, one, place("GPU-b"), Requirements{GPUs: 1, Machine: "m1", GPUIDs: one}},

		"no run yet":              {Attempt{}, Requirements{GPUs: 1}, nil, nil, Requirements{}},
		"a run without a GPU":     {Attempt{Machine: "m1"}, Requirements{GPUs: 1}, both, nil, Requirements{}},
		"the machine is not here": {ran, Requirements{GPUs: 1}, nil, nil, Requirements{}},
		"it needs no GPU":         {ran, Requirements{}, both, nil, Requirements{}},
		"it names GPUs itself":    {ran, Requirements{GPUs: 1, GPUIDs: []string{"GPU-c"}}, both, nil, Requirements{}},
		"it names a machine":      {ran, Requirements{GPUs: 1, Machine: "m2"}, both, nil, Requirements{}},
		"the GPU failed under it": {with(func(a *Attempt) { a.Outcome = OutcomeGPUFault }), Requirements{GPUs: 1}, both, nil, Requirements{}},
		"the machine was lost":    {with(func(a *Attempt) { a.Outcome = OutcomeMachineLost }), Requirements{GPUs: 1}, both, nil, Requirements{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := NearTo("7", tc.last, tc.needs, tc.inService, until)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Fatalf("-want +got:\n%s", diff)
			}
			if got == nil {
				if diff := cmp.Diff(tc.needs, got.Narrow(tc.needs)); diff != "" || got.Waits() || got.Over(until) {
					t.Errorf("no place narrows: %s", diff)
				}
				return
			}
			if diff := cmp.Diff(tc.narrow, got.Narrow(tc.needs)); diff != "" {
				t.Errorf("narrow, -want +got:\n%s", diff)
			}
			if got.Over(until.Add(-time.Nanosecond)) || !got.Over(until) {
				t.Error("it does not wait until exactly then")
			}
			free := got.Anywhere()
			if diff := cmp.Diff(tc.needs, free.Narrow(tc.needs)); diff != "" || free.Waits() || free.Over(until) {
				t.Errorf("it is still bound to the place: %s", diff)
			}
			if !got.Waits() {
				t.Error("Anywhere changed the place it was asked of")
			}
		})
	}
}

func TestContradictionsOfSameGPUAs(t *testing.T) {
	t.Parallel()
	base := Spec{Command: Command{"true"}, SameGPUAs: "7", Resources: Resources{GPUs: CountOf(1)}}
	if err := Validate(base); err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*Spec){
		"asks for no GPU":      func(s *Spec) { s.Resources.GPUs = Count{} },
		"would all wait":       func(s *Spec) { s.Array = "1-3" },
		"names the GPUs":       func(s *Spec) { s.Resources.GPUIDs = []string{"0"} },
		"control character":    func(s *Spec) { s.SameGPUAs = "a\x1b" },
		"a lease names":        func(s *Spec) { s.Kind, s.Command, s.Lease = KindLease, nil, &Lease{} },
		"at most 200 are allo": func(s *Spec) { s.SameGPUAs = strings.Repeat("x", 201) },
	} {
		s := base
		change(&s)
		if err := Validate(s); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
}
