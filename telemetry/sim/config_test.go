package sim_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/telemetry/sim"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]struct{ cards, mb int64 }{
		"4x24Gi": {4, 24576}, "1x80GiB": {1, 81920}, "8x16000": {8, 16000}, "2x1.5Gi": {2, 1536},
	} {
		c, err := sim.Parse(setting)
		if err != nil {
			t.Errorf("%s: %v", setting, err)
			continue
		}
		mb, _ := c.Devices[0].Memory.MB()
		if int64(c.Devices[0].Count) != want.cards || mb != want.mb {
			t.Errorf("%s: %d cards of %d MiB", setting, c.Devices[0].Count, mb)
		}
	}
	for _, setting := range []string{"", "4x", "x24Gi", "-1x24Gi", "4x24Zi", "99999999x1Gi", "4x0", "99999999999999999999x1Gi", "/nonexistent.yaml"} {
		if c, err := sim.Parse(setting); !errors.Is(err, sim.ErrConfig) {
			t.Errorf("%q: %+v, %v", setting, c, err)
		}
	}
}

func TestFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "machine.yaml")
	if err := os.WriteFile(path, []byte("devices: [{memory: 24Gi}]\ncontrol: now.txt\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := sim.Parse(path)
	if err != nil || c.Control != filepath.Join(filepath.Dir(path), "now.txt") {
		t.Errorf("%+v, %v", c, err)
	}
}

func TestMistakes(t *testing.T) {
	t.Parallel()
	for text, says := range map[string]string{
		"devices: [{memory: 24Gi, colour: red}]":                                      "colour",
		"devices: [{count: 2}]":                                                       "memory is missing",
		"devices: [{memory: 24Gi, missing: [smell]}]":                                 "smell",
		"devices: [{memory: auto}]":                                                   "memory is missing",
		"devices: [{memory: 24Gi, count: -1}]":                                        "count",
		"cpus_per_gpu: -1":                                                            "cpus_per_gpu",
		"processes: [{command: '('}]":                                                 "process 0",
		"processes: [{memory: 1Gi}]":                                                  "command",
		"processes: [{command: a, memory: lots}]":                                     "lots",
		"processes: [{command: a, memory: [{at: 2s, value: 1}, {at: 1s, value: 1}]}]": "after",
		"devices: [{memory: 1Gi}]\nforeign: [{gpu: 1}]":                               "there are 1",
		"devices: [{memory: 1Gi}]\nfaults: [{gpu: 0, kind: rust}]":                    "rust",
		"devices: [{memory: 1Gi}]\nfaults: [{gpu: 5, kind: xid}]":                     "GPU 5",
		"devices: [{memory: 1Gi, count: 9999}, {memory: 1Gi, count: 9999}]":           "at most",
		"- not\n- a mapping":                                                          "cannot unmarshal",
		"a: [":                                                                        "yaml",
	} {
		if _, err := sim.Decode([]byte(text)); !errors.Is(err, sim.ErrConfig) || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: want %q, got %v", text, says, err)
		}
	}
}

func TestCurve(t *testing.T) {
	t.Parallel()
	c := sim.Curve{{At: 10 * time.Second, Value: 100}, {At: 20 * time.Second, Value: 200}, {At: 21 * time.Second, Value: 0}}
	for age, want := range map[time.Duration]float64{
		0: 100, 10 * time.Second: 100, 15 * time.Second: 150, 20 * time.Second: 200, 20500 * time.Millisecond: 100, time.Hour: 0,
	} {
		if got, ok := c.At(age); !ok || got != want {
			t.Errorf("at %s: %g, want %g", age, got, want)
		}
	}
	if _, ok := (sim.Curve{}).At(0); ok {
		t.Error("an empty curve has no value")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte("devices: [{memory: 24Gi, count: 2}]\nforeign: [{gpu: 1, start: 1s, memory: 1Gi}]\nfaults: [{gpu: 0, kind: lost, at: 1s}]"))
	f.Add([]byte("processes: [{command: a, memory: [{at: 0s, value: 1Gi}, {at: 10s, value: 20Gi}], utilization: 95}]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := sim.Decode(data)
		if err != nil {
			return
		}
		c.Control = "" // a file name out of thin air
		s, err := sim.New(c, nil)
		if err != nil {
			t.Fatalf("decoded, but refused: %v", err)
		}
		defer s.Close()
		snap, err := s.Snapshot(t.Context())
		if err != nil || len(snap.Readings) != len(snap.Devices) {
			t.Fatalf("%d readings, %v", len(snap.Readings), err)
		}
	})
}
