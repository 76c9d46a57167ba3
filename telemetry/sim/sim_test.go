package sim_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/berthq/berth/telemetry"
	"github.com/berthq/berth/telemetry/conformance"
	"github.com/berthq/berth/telemetry/sim"
)

// The test program is also the process that holds a card: it burns a CPU, or holds memory, until its pipe ends.
func TestMain(m *testing.M) {
	switch os.Getenv("SIM_TEST_CHILD") {
	case "burn":
		go func() { _, _ = os.Stdin.Read(make([]byte, 1)); os.Exit(0) }()
		for sum := sha256.Sum256(nil); ; sum = sha256.Sum256(sum[:]) {
			runtime.KeepAlive(sum)
		}
	case "hold":
		held := bytes.Repeat([]byte{1}, 300<<20)
		_, _ = os.Stdin.Read(held[:1])
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func child(t *testing.T, does string) int {
	t.Helper()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "SIM_TEST_CHILD="+does)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { in.Close(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

// clock is a time that the test moves.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

type holders struct {
	mu   sync.Mutex
	held map[string][]int
}

func (h *holders) set(uuid string, pids ...int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.held == nil {
		h.held = map[string][]int{}
	}
	h.held[uuid] = pids
}

func (h *holders) get() map[string][]int {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := map[string][]int{}
	for k, v := range h.held {
		out[k] = v
	}
	return out
}

func decode(t *testing.T, text string) sim.Config {
	t.Helper()
	c, err := sim.Decode([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func open(t *testing.T, c sim.Config, held func() map[string][]int) *sim.Source {
	t.Helper()
	s, err := sim.New(c, held)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func take(t *testing.T, s *sim.Source) telemetry.Snapshot {
	t.Helper()
	snap, err := s.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return snap
}

func TestConformance(t *testing.T) {
	t.Parallel()
	conformance.Run(t, func(t *testing.T) *conformance.Machine {
		control := filepath.Join(t.TempDir(), "control")
		say := func(format string, args ...any) {
			f, err := os.OpenFile(control, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			fmt.Fprintf(f, format+"\n", args...)
		}
		onOff := map[bool]string{true: "on", false: "off"}
		var held holders
		var devices []telemetry.Device
		config := decode(t, `devices: [{memory: 24Gi}, {memory: 80Gi}]`)
		config.Control = control
		began := time.Now()
		config.Now = func() time.Time { return began.Add(10 * time.Since(began)) } // ten seconds of silence take one
		return &conformance.Machine{
			Open: func() (telemetry.Source, error) {
				s, err := sim.New(config, held.get)
				if err == nil {
					devices, err = s.Devices(t.Context())
				}
				return s, err
			},
			Hold: func(gpu, pid int, _ int64) { held.set(devices[gpu].UUID, pid) },
			Lose: func(gpu int, on bool) { say("%d lost %s", gpu, onOff[on]) },
			XID:  func(gpu, xid int) { say("%d xid %d", gpu, xid) },
			Hang: func(on bool) { say("all hang %s", onOff[on]) },
			Bare: func(gpu int) { config.Devices[gpu].Missing = []string{"power_w"} },
		}
	})
}

func TestCardsKeepTheirNames(t *testing.T) {
	t.Parallel()
	uuids := func(setting, seed string) []string {
		c, err := sim.Parse(setting)
		if err != nil {
			t.Fatal(err)
		}
		c.Seed = seed
		list, err := open(t, c, nil).Devices(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, d := range list {
			out = append(out, d.UUID)
		}
		return out
	}
	first, again, other := uuids("4x24Gi", "rack-7"), uuids("8x80Gi", "rack-7"), uuids("4x24Gi", "rack-8")
	for i := range first {
		if first[i] != again[i] {
			t.Errorf("card %d is %s, then %s", i, first[i], again[i])
		}
		if first[i] == other[i] {
			t.Errorf("card %d of two machines has one name", i)
		}
	}
}

// Utilisation is the holder's share of a CPU, and temperature and power follow it slowly.
func TestBusyProcess(t *testing.T) {
	t.Parallel()
	var held holders
	s := open(t, decode(t, `devices: [{memory: 24Gi, count: 2}]`), held.get)
	idle := take(t, s)
	pid := child(t, "burn")
	held.set(idle.Devices[0].UUID, pid)
	deadline := time.Now().Add(time.Minute)
	for {
		snap := take(t, s)
		r := snap.Readings[0]
		if len(r.Processes) == 1 && *r.UtilizationPercent > 10 && *r.PowerW > *idle.Readings[0].PowerW && *r.TemperatureC > *idle.Readings[0].TemperatureC {
			if *r.Processes[0].UtilizationPercent != *r.UtilizationPercent || r.Processes[0].PID != pid {
				t.Errorf("%+v", r.Processes)
			}
			if *snap.Readings[1].UtilizationPercent != 0 {
				t.Errorf("the other card: %g %%", *snap.Readings[1].UtilizationPercent)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("a burning process does not show: %+v", r)
		}
		<-time.After(20 * time.Millisecond)
	}
	held.set(idle.Devices[0].UUID)
	if r := take(t, s).Readings[0]; *r.UtilizationPercent != 0 || len(r.Processes) != 0 || *r.MemoryUsedMB != 0 {
		t.Errorf("after the release: %+v", r)
	}
}

// Used memory is the holder's resident memory, on every card it holds.
func TestMemoryOfProcess(t *testing.T) {
	t.Parallel()
	var held holders
	s := open(t, decode(t, `devices: [{memory: 24Gi, count: 2}, {memory: 100Mi}]`), held.get)
	snap := take(t, s)
	pid := child(t, "hold")
	for _, d := range snap.Devices {
		held.set(d.UUID, pid, pid, 1<<30)
	}
	deadline := time.Now().Add(time.Minute)
	for {
		snap = take(t, s)
		if *snap.Readings[0].MemoryUsedMB >= 300 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("300 MiB do not show: %+v", snap.Readings[0])
		}
		<-time.After(20 * time.Millisecond)
	}
	for i, r := range snap.Readings {
		if *r.MemoryUsedMB+*r.MemoryFreeMB != *r.MemoryTotalMB || len(r.Processes) != 1 || *r.Processes[0].MemoryMB < 300 {
			t.Errorf("card %d: %d used, %d free of %d; %+v", i, *r.MemoryUsedMB, *r.MemoryFreeMB, *r.MemoryTotalMB, r.Processes)
		}
	}
	if full := snap.Readings[2]; *full.MemoryUsedMB != 100 || *full.MemoryFreeMB != 0 {
		t.Errorf("a card cannot hold more than it has: %d of 100", *full.MemoryUsedMB)
	}
}

func TestScriptedProcess(t *testing.T) {
	t.Parallel()
	var held holders
	s := open(t, decode(t, `
devices: [{memory: 24Gi}]
processes:
  - {command: no such program, memory: 1Gi}
  - {command: 'exe$', memory: 5Gi, utilization: 40}
`), held.get)
	held.set(take(t, s).Devices[0].UUID, child(t, "hold"))
	if r := take(t, s).Readings[0]; *r.MemoryUsedMB != 5120 || *r.UtilizationPercent != 40 {
		t.Errorf("%d MiB, %g %%", *r.MemoryUsedMB, *r.UtilizationPercent)
	}
}

func TestForeignAndFaultsByTheClock(t *testing.T) {
	t.Parallel()
	c := newClock()
	config := decode(t, `
devices: [{memory: 24Gi, count: 2}]
foreign:
  - {gpu: 1, start: 30s, end: 90s, memory: 12Gi, utilization: 80, user: eve, command: jupyter lab}
faults:
  - {at: 60s, gpu: 0, kind: xid, xid: 79}
  - {at: 60s, gpu: 0, kind: lost, for: 30s}
  - {at: 100s, gpu: 0, kind: hang, for: 20s}
  - {at: 130s, gpu: 1, kind: recovery}
  - {at: 130s, gpu: 0, kind: ecc, errors: 3}
`)
	config.Now = c.Now
	s := open(t, config, nil)
	fault := func(r telemetry.Reading) telemetry.FaultKind {
		if r.Fault == nil {
			return ""
		}
		return r.Fault.Kind
	}
	for _, step := range []struct {
		at      time.Duration
		foreign int
		fault   [2]telemetry.FaultKind
		silent  bool
	}{
		{at: 0}, {at: 29 * time.Second},
		{at: 30 * time.Second, foreign: 1},
		{at: 60 * time.Second, foreign: 1, fault: [2]telemetry.FaultKind{telemetry.FaultLost}, silent: true},
		{at: 90 * time.Second},
		{at: 100 * time.Second, silent: true},
		{at: 110 * time.Second, fault: [2]telemetry.FaultKind{telemetry.FaultUnreadable}, silent: true},
		{at: 120 * time.Second},
		{at: 130 * time.Second, fault: [2]telemetry.FaultKind{"", telemetry.FaultRecovery}},
	} {
		c.add(step.at - c.Now().Sub(newClock().now))
		snap := take(t, s)
		if n := len(snap.Readings[1].Processes); n != step.foreign {
			t.Errorf("at %s: %d foreign processes", step.at, n)
		}
		if step.foreign == 1 {
			p := snap.Readings[1].Processes[0]
			if p.User != "eve" || p.Command != "jupyter lab" || *p.MemoryMB != 12288 || *snap.Readings[1].UtilizationPercent != 80 {
				t.Errorf("%+v", p)
			}
		}
		if got := [2]telemetry.FaultKind{fault(snap.Readings[0]), fault(snap.Readings[1])}; got != step.fault {
			t.Errorf("at %s: faults %v, want %v", step.at, got, step.fault)
		}
		if silent := snap.Readings[0].MemoryFreeMB == nil; silent != step.silent {
			t.Errorf("at %s: silent %t", step.at, silent)
		}
	}
	if f := <-s.Faults(); f.XID != 79 || len(s.Faults()) != 0 {
		t.Errorf("the XID: %+v, and %d more", f, len(s.Faults()))
	}
	if errors := take(t, s).Readings[0].ECCUncorrected; *errors != 3 {
		t.Errorf("%d memory errors", *errors)
	}
}

func TestTemperatureAndPowerAreSmooth(t *testing.T) {
	t.Parallel()
	c := newClock()
	config := decode(t, `
devices: [{memory: 24Gi, idle_w: 50, max_w: 350}]
foreign: [{gpu: 0, start: 10s, end: 310s, memory: 1Gi, utilization: 100}]
`)
	config.Now = c.Now
	s := open(t, config, nil)
	var temperature, power, energy []float64
	for range 600 {
		r := take(t, s).Readings[0]
		temperature, power, energy = append(temperature, *r.TemperatureC), append(power, *r.PowerW), append(energy, *r.EnergyJoules)
		c.add(time.Second)
	}
	for i := 1; i < len(temperature); i++ {
		if step := temperature[i] - temperature[i-1]; step > 3 || step < -3 {
			t.Errorf("second %d: %g to %g degrees", i, temperature[i-1], temperature[i])
		}
		if energy[i] < energy[i-1] {
			t.Errorf("second %d: the energy counter goes back", i)
		}
	}
	if temperature[300] < 75 || power[300] < 345 || temperature[599] > 34 || power[599] > 51 {
		t.Errorf("loaded: %g degrees, %g W; idle again: %g, %g", temperature[300], power[300], temperature[599], power[599])
	}
	if total := energy[599]; total < 300*350*0.97+300*50*0.97 || total > 300*350*1.03+300*50*1.03 {
		t.Errorf("energy %g J", total)
	}
}

func TestControlFileNotUnderstood(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "control")
	if err := os.WriteFile(path, []byte("0 lost on\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := decode(t, `devices: [{memory: 24Gi}]`)
	config.Control = path
	var log bytes.Buffer
	config.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s := open(t, config, nil)
	if r := take(t, s).Readings[0]; r.Fault != nil {
		t.Error("lines from before the start are for another run")
	}
	text := "0 lost on\n# a remark\n\n9 lost on\n0 xid many\n0 foreign 1 2\n0 fly away\nnonsense\n0 foreign 77 2048 50 eve train -x\n0 los"
	if err := os.WriteFile(path, []byte("0 lost off\n"+text), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := take(t, s).Readings[0]; r.Fault == nil {
		t.Error("the first appended line counts")
	}
	if n := strings.Count(log.String(), "not understood"); n != 5 {
		t.Errorf("%d warnings, want 5:\n%s", n, log.String())
	}
	if err := os.WriteFile(path, []byte("0 lost off\n"), 0o600); err != nil { // shorter: begun anew
		t.Fatal(err)
	}
	r := take(t, s).Readings[0]
	if r.Fault != nil || len(r.Processes) != 1 || r.Processes[0].Command != "train -x" || *r.MemoryUsedMB != 2048 {
		t.Errorf("%+v", r)
	}
}
