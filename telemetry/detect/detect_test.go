package detect_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/detect"
	"github.com/berthq/berth/telemetry/fakenvml"
	"github.com/berthq/berth/telemetry/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const nowhere = "/nonexistent"

// cgo is whether this test was built with it; without, NVML is not there and auto goes on to nvidia-smi.
var cgo = func() bool {
	_, err := detect.Detect(context.Background(), "nvml", detect.Options{Library: nowhere})
	return !errors.Is(err, telemetry.ErrNotBuilt)
}()

func TestSettings(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/two.yaml"
	if err := os.WriteFile(file, []byte("devices: [{memory: 24Gi, count: 2}]"), 0o600); err != nil {
		t.Fatal(err)
	}
	well, noDriver := fakenvml.New(t, 2), fakenvml.New(t, 2)
	noDriver.Set("init_ret", "9")
	first := "nvml"
	if !cgo {
		first = "nvidia-smi"
	}
	for _, c := range []struct {
		setting, library, smi string
		name                  string
		devices               int
		warns                 string
	}{
		{"auto", well.Library, well.SMI, first, 2, ""},
		{"", well.Library, well.SMI, first, 2, ""},
		{"auto", nowhere, well.SMI, "nvidia-smi", 2, "costs more"},
		{"auto", nowhere, nowhere, "none", 0, "cpu-only"},
		{"auto", noDriver.Library, noDriver.SMI, "none", 0, "cpu-only"},
		{"auto", fakenvml.New(t, 0).Library, nowhere, "none", 0, "cpu-only"},
		{"nvidia-smi", nowhere, well.SMI, "nvidia-smi", 2, ""},
		{"sim:4x24Gi", nowhere, nowhere, "sim", 4, ""},
		{"sim:" + file, nowhere, nowhere, "sim", 2, ""},
		{"none", well.Library, well.SMI, "none", 0, ""},
	} {
		t.Run(fmt.Sprintf("%s as %s", strings.ReplaceAll(c.setting, "/", "_"), c.name), func(t *testing.T) {
			t.Parallel()
			var log bytes.Buffer
			src, err := detect.Detect(t.Context(), c.setting, detect.Options{
				Library: c.library, SMI: c.smi, Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn})),
			})
			if err != nil {
				t.Fatal(err)
			}
			defer src.Close()
			list, err := src.Devices(t.Context())
			if err != nil || src.Name() != c.name || len(list) != c.devices {
				t.Errorf("%s with %d devices, %v", src.Name(), len(list), err)
			}
			if !strings.Contains(log.String(), c.warns) {
				t.Errorf("want a warning %q, got %q", c.warns, log.String())
			}
			snap, err := src.Snapshot(t.Context())
			if want := map[bool]telemetry.SourceHealth{true: telemetry.HealthNone, false: telemetry.HealthOK}[c.name == "none"]; err != nil || snap.Health != want {
				t.Errorf("health %q, %v", snap.Health, err)
			}
		})
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]error{
		"cuda": detect.ErrSetting, "sim": detect.ErrSetting, "sim:": detect.ErrSetting, "AUTO": detect.ErrSetting,
		"sim:lots": sim.ErrConfig, "nvml": nil, "nvidia-smi": nil,
	} {
		src, err := detect.Detect(t.Context(), setting, detect.Options{Library: nowhere, SMI: nowhere})
		if err == nil {
			_ = src.Close()
		}
		if err == nil || (want != nil && !errors.Is(err, want)) {
			t.Errorf("%q: %v", setting, err)
		}
	}
}

func ExampleDetect() {
	source, err := detect.Detect(context.Background(), "sim:2x24Gi", detect.Options{Seed: "docs"})
	if err != nil {
		panic(err)
	}
	defer source.Close()
	devices, err := source.Devices(context.Background())
	if err != nil {
		panic(err)
	}
	for _, d := range devices {
		fmt.Println(d.Index, d.Name)
	}
	// Output:
	// 0 Simulated GPU 24Gi
	// 1 Simulated GPU 24Gi
}
