package smi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"github.com/berthq/berth/telemetry"
)

// notStartedError: there is no program to start.
type notStartedError struct{ err error }

func (e *notStartedError) Error() string {
	return fmt.Sprintf("nvidia-smi cannot be started: %v: no NVIDIA driver is installed here, or it is not in PATH", e.err)
}

func (e *notStartedError) Unwrap() error { return e.err }

var errSilent = errors.New("nvidia-smi did not answer")

// maxOutput is many times what eight GPUs with a hundred processes print.
const maxOutput = 16 << 20

// run starts nvidia-smi and returns what it printed, also when it failed. When ctx ends, its whole group is killed.
func (s *Source) run(ctx context.Context, args ...string) ([]byte, error) {
	var out limited
	cmd := exec.CommandContext(ctx, s.opts.Path, args...)
	cmd.Env = append(append(os.Environ(), "LC_ALL=C"), s.opts.Env...)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second
	if err := cmd.Start(); err != nil && ctx.Err() == nil {
		return nil, &notStartedError{err}
	}
	err := cmd.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w within %s and was killed", errSilent, s.opts.Unreadable)
	case err != nil:
		return out.Bytes(), fmt.Errorf("nvidia-smi failed (%w): %s", err, firstLine(out.Bytes()))
	}
	return out.Bytes(), nil
}

// lostCard is how nvidia-smi gives up over one card: it says nothing of the others then.
var lostCard = regexp.MustCompile(`(?i)device handle for GPU\s*([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])\s*:\s*(GPU is lost|Unknown Error)`)

// read is one report. When a card is lost, the others are asked for by name.
func (s *Source) read(ctx context.Context) (telemetry.Snapshot, error) {
	out, err := s.run(ctx, "-q", "-x")
	match := lostCard.FindSubmatch(out)
	if match == nil || err == nil {
		return s.understand(out, err)
	}
	gone, others := s.split(string(match[1]))
	if gone == nil {
		return telemetry.Snapshot{}, err
	}
	snap := telemetry.Snapshot{At: s.opts.Now(), Health: telemetry.HealthOK}
	if len(others) > 0 {
		out, err = s.run(ctx, "-q", "-x", "-i", strings.Join(others, ","))
		if snap, err = s.understand(out, err); err != nil {
			return snap, err
		}
	}
	return s.withLost(snap, *gone), nil
}

func (s *Source) understand(out []byte, failed error) (telemetry.Snapshot, error) {
	r, err := parseReport(out)
	if failed != nil && err != nil {
		return telemetry.Snapshot{}, failed
	}
	if errors.Is(err, errNoReport) && len(bytes.TrimSpace(out)) > 0 {
		err = fmt.Errorf("%w: %s", err, firstLine(out))
	}
	if err != nil {
		return telemetry.Snapshot{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	snap := r.snapshot(s.caps, s.opts.Now())
	for i := range snap.Devices { // asked for some of them, nvidia-smi counts those
		for _, known := range s.devices {
			if known.UUID == snap.Devices[i].UUID {
				snap.Devices[i].Index = known.Index
			}
		}
	}
	return snap, nil
}

// split tells a card named by its place on the bus from the others, by what was known before.
func (s *Source) split(busID string) (gone *telemetry.Device, others []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range s.devices {
		if sameBus(d.PCIBusID, busID) {
			gone = &d
		} else {
			others = append(others, d.UUID)
		}
	}
	return gone, others
}

// sameBus: the domain is written with four digits or eight.
func sameBus(a, b string) bool {
	short := func(id string) string {
		domain, rest, _ := strings.Cut(strings.ToLower(id), ":")
		return strings.TrimLeft(domain, "0") + ":" + rest
	}
	return short(a) == short(b)
}

// withLost puts a lost card in its place.
func (s *Source) withLost(snap telemetry.Snapshot, gone telemetry.Device) telemetry.Snapshot {
	at := 0
	for at < len(snap.Devices) && snap.Devices[at].Index < gone.Index {
		at++
	}
	reading := telemetry.Reading{UUID: gone.UUID, Err: lostText, Fault: lost(gone.UUID, snap.At)}
	snap.Devices = append(snap.Devices[:at:at], append([]telemetry.Device{gone}, snap.Devices[at:]...)...)
	snap.Readings = append(snap.Readings[:at:at], append([]telemetry.Reading{reading}, snap.Readings[at:]...)...)
	return snap
}

func firstLine(out []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(clean(out))), "\n")
	return line[:min(len(line), 300)]
}

// limited keeps the first maxOutput bytes.
type limited struct{ bytes.Buffer }

func (l *limited) Write(b []byte) (int, error) {
	if room := maxOutput - l.Len(); room > 0 {
		l.Buffer.Write(b[:min(room, len(b))])
	}
	return len(b), nil
}
