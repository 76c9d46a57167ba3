package gpuslots

import (
	"testing"

	"github.com/berthq/berth/telemetry"
)

func TestMatchModel(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		want, name string
		match      bool
	}{
		{"A100", "NVIDIA A100-SXM4-80GB", true},
		{"a100", "NVIDIA A100-SXM4-80GB", true},
		{"A100-80GB", "NVIDIA A100-SXM4-80GB", true},
		{"A100-40GB", "NVIDIA A100-SXM4-80GB", false},
		{"A10", "NVIDIA A100-SXM4-80GB", false},
		{"A100", "NVIDIA A10", false},
		{"L4", "NVIDIA L40S", false},
		{"RTX 4090", "NVIDIA GeForce RTX 4090", true},
		{"rtx4090", "NVIDIA GeForce RTX 4090", true},
		{"RTX 4090", "NVIDIA GeForce RTX 4080", false},
		{"NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB", true},
		{"", "NVIDIA A10", false},
		{"--", "NVIDIA A10", false},
		{"A100", "", false},
	} {
		if got := matchModel(tc.want, tc.name); got != tc.match {
			t.Errorf("%q, %q: got %v", tc.want, tc.name, got)
		}
	}
}

func TestMatchID(t *testing.T) {
	t.Parallel()
	second := 1
	card := telemetry.Device{UUID: "GPU-0123abcd-aaaa", Index: 3}
	part := telemetry.Device{UUID: "MIG-0123abcd-bbbb", Index: 3, Instance: &second}
	for _, tc := range []struct {
		id         string
		card, part bool
	}{
		{"3", true, false},
		{"3.1", false, true},
		{"GPU-0123abcd-aaaa", true, false},
		{"GPU-0123abcd", true, false},
		{"GPU-0123", false, false}, // too short to be sure
		{"MIG-0123abcd-bbbb", false, true},
		{"", false, false},
		{"03", false, false},
	} {
		if got := matchID(tc.id, card); got != tc.card {
			t.Errorf("%q, GPU: got %v", tc.id, got)
		}
		if got := matchID(tc.id, part); got != tc.part {
			t.Errorf("%q, MIG device: got %v", tc.id, got)
		}
	}
}

func TestCapability(t *testing.T) {
	t.Parallel()
	order := []string{"3.5", "7", "7.5", "8.0", "8.9", "9.0", "10.0", "12.1"}
	for i := range order {
		a, ok := parseCapability(order[i])
		if !ok {
			t.Errorf("%s is not understood", order[i])
		}
		for j := range order {
			b, _ := parseCapability(order[j])
			if a.less(b) != (i < j) {
				t.Errorf("%s < %s: %v", order[i], order[j], a.less(b))
			}
		}
	}
	for _, s := range []string{"", "new", "8.", "-1.0", "8.0.1", "1e3"} {
		if c, ok := parseCapability(s); ok {
			t.Errorf("%q was understood as %v", s, c)
		}
	}
}
