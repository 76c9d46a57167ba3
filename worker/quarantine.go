package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/telemetry"
)

// quarantineFile keeps the GPUs that an operator took out of service: a restart of the worker is no restore.
const quarantineFile = "quarantined.json"

// quarantineGPU takes a GPU out of service because somebody says so, until somebody says otherwise.
func (w *Worker) quarantineGPU(name, by, reason string) (string, error) {
	d, err := w.gpuNamed(name)
	if err != nil {
		return "", err
	}
	why := "by " + by
	if reason != "" {
		why += ": " + reason
	}
	if err := w.sick.order(d.UUID, why, w.keepOrders); err != nil {
		return "", err
	}
	if err := w.pool.Quarantine(d.UUID, why); err != nil {
		return "", err
	}
	w.log.Warn("gpu_quarantined", "gpu", d.UUID, "index", d.Index, "by", by, "reason", reason)
	w.healthChanged()
	return d.UUID, nil
}

// restoreGPU puts a GPU back into service. What its own reading shows to be wrong still keeps work away from it.
func (w *Worker) restoreGPU(name, by, reason string) (string, error) {
	d, err := w.gpuNamed(name)
	if err != nil {
		return "", err
	}
	known, err := w.sick.lift(d.UUID, w.keepOrders)
	if err != nil {
		return "", err
	}
	if !known {
		return "", fmt.Errorf("%w: GPU %s of %s is not quarantined", queue.ErrBadRequest, d.Key(), w.cfg.Machine)
	}
	if err := w.pool.Unquarantine(d.UUID); err != nil {
		return "", err
	}
	w.log.Info("gpu_restored", "gpu", d.UUID, "index", d.Index, "by", by, "reason", reason)
	w.healthChanged()
	return d.UUID, nil
}

// probeGPU tests a GPU that a fault took out of service now, not after its time of quiet.
func (w *Worker) probeGPU(name, by, reason string) (string, error) {
	d, err := w.gpuNamed(name)
	if err != nil {
		return "", err
	}
	if w.sick.hasten(d.UUID) {
		w.log.Info("gpu_probe_asked", "gpu", d.UUID, "index", d.Index, "by", by, "reason", reason)
		select {
		case w.probeNow <- struct{}{}:
		default: // it is asked for already
		}
	}
	return d.UUID, nil
}

// acquit asks for a test of the GPUs that a job has met its faults on, once it has shown that it meets them wherever it
// goes: a poison job must not walk through the fleet and leave dark machines behind.
func (w *Worker) acquit(a *attempt, rec job.Record) {
	if rec.State != job.Dead {
		return
	}
	ctx, cancel := context.WithTimeout(w.background, 10*time.Second)
	defer cancel()
	for _, x := range rec.Attempts {
		if x.Outcome != job.OutcomeGPUFault || max(x.Round, 1) != max(rec.Round, 1) {
			continue
		}
		for _, uuid := range x.Devices {
			err := w.cfg.Queue.Probe(ctx, x.Machine, uuid, "worker", fmt.Sprintf("job %s met a fault on every GPU it was given", a.claim.Ref()))
			if err != nil {
				a.log.Warn("gpu_not_probed", "gpu", uuid, "on", x.Machine, "err", err) // it is, after its time of quiet
			}
		}
	}
}

// uuidPrefix is the least of a UUID that names a GPU: "GPU-" and eight characters.
const uuidPrefix = len("GPU-") + 8

// gpuNamed finds a GPU of this worker by UUID, the beginning of one, or index.
func (w *Worker) gpuNamed(name string) (telemetry.Device, error) {
	var found []telemetry.Device
	for _, d := range w.devices {
		if name == d.UUID || name == d.Key() {
			return d, nil
		}
		if len(name) >= uuidPrefix && strings.HasPrefix(d.UUID, name) {
			found = append(found, d)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return telemetry.Device{}, fmt.Errorf("%w: %s has no GPU %q (it has %s)", queue.ErrNotFound, w.cfg.Machine, name, w.gpuNames())
	}
	return telemetry.Device{}, fmt.Errorf("%w: %q is the beginning of %d GPUs of %s", queue.ErrBadRequest, name, len(found), w.cfg.Machine)
}

func (w *Worker) gpuNames() string {
	if len(w.devices) == 0 {
		return "none"
	}
	return strings.Join(keys(w.devices), ", ")
}

// resumeOrders takes the GPUs out of service that an operator had taken out before the worker was restarted.
func (w *Worker) resumeOrders() {
	orders, err := w.store.quarantined()
	if err != nil {
		w.log.Error("quarantine_not_read", "err", err, "consequence", "GPUs that were quarantined by hand are in service")
		return
	}
	for uuid, why := range orders {
		if !slices.ContainsFunc(w.devices, func(d telemetry.Device) bool { return d.UUID == uuid }) {
			continue // gone, or not given to this worker any more; it stays on file
		}
		if err := w.pool.Quarantine(uuid, why); err != nil {
			w.log.Error("quarantine_failed", "gpu", uuid, "err", err)
		}
		w.log.Warn("gpu_quarantined", "gpu", uuid, "why", why)
	}
	w.sick.resume(orders)
}

func (w *Worker) keepOrders(orders map[string]string) error { return w.store.keepQuarantined(orders) }

func (s *Store) quarantined() (map[string]string, error) {
	data, err := os.ReadFile(filepath.Join(s.dir, quarantineFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var orders map[string]string
	if err := json.Unmarshal(data, &orders); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(s.dir, quarantineFile), err)
	}
	return orders, nil
}

// keepQuarantined writes them by rename: a reader never sees half a file.
func (s *Store) keepQuarantined(orders map[string]string) error {
	data, err := json.Marshal(orders)
	if err != nil {
		return err
	}
	path := filepath.Join(s.dir, quarantineFile)
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		return fmt.Errorf("keep the quarantine over a restart: %w", err)
	}
	return os.Rename(path+".new", path)
}
