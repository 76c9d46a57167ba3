package telemetry_test

import (
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/telemetry"
)

// The program's own mistakes take no card out of service; everything else does, the unknown too.
func TestXIDsOfProgramsAndOfCards(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, xid := range []int{13, 31, 43, 45, 68, 109, 92, 154} {
		if f := telemetry.NewXID("GPU-a", xid, at); f.Fatal {
			t.Errorf("XID %d takes the card out: %s", xid, f)
		}
	}
	for _, xid := range []int{46, 48, 61, 62, 63, 64, 74, 78, 79, 81, 94, 95, 110, 119, 120, 121, 123, 140, 143, 1, 999} {
		f := telemetry.NewXID("GPU-a", xid, at)
		if !f.Fatal || f.Kind != telemetry.FaultXID || f.XID != xid || !f.At.Equal(at) {
			t.Errorf("XID %d: %+v", xid, f)
		}
	}
	if text := telemetry.NewXID("", 79, at).String(); !strings.Contains(text, "every GPU") || !strings.Contains(text, "XID 79, the GPU has fallen off the bus") {
		t.Errorf("%q", text)
	}
}

func TestAilments(t *testing.T) {
	t.Parallel()
	action := func(n int) *int { return &n }
	for _, c := range []struct {
		reading telemetry.Reading
		want    string // "": none
	}{
		{telemetry.Reading{}, ""},
		{telemetry.Reading{RecoveryAction: action(0), RemapPending: true}, ""}, // it waits for a reset that can wait
		{telemetry.Reading{RecoveryAction: action(1)}, "asks for a GPU reset"},
		{telemetry.Reading{RecoveryAction: action(2), RemapFailed: true}, "asks for a reboot"},
		{telemetry.Reading{RecoveryAction: action(99)}, "recovery action 99"},
		{telemetry.Reading{RemapFailed: true}, "worn out"},
	} {
		f := telemetry.Ailment(c.reading)
		if (f == nil) != (c.want == "") || f != nil && (!f.Fatal || !strings.Contains(f.Text, c.want)) {
			t.Errorf("%+v: %v, want %q", c.reading, f, c.want)
		}
	}
}
