package day

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// simulated is one machine of the day and the cards that it has.
type simulated struct {
	name    string
	devices string
	args    []string // further ones of its worker
}

// fleet are the machines; each name says what they are.
var fleet = []simulated{
	{"demo-a100", `{name: Simulated A100 40GB, memory: 40Gi, capability: "8.0", count: 4, idle_w: 52, max_w: 400}`, nil},
	{"demo-h100", `{name: Simulated H100 80GB, memory: 80Gi, capability: "9.0", count: 2, idle_w: 70, max_w: 700}`, nil},
	{"demo-l4", `{name: Simulated L4 24GB, memory: 24Gi, capability: "8.9", count: 4, idle_w: 16, max_w: 72}`, nil},
	// Under somebody's desk: only its owners' project is served, and they do not always ask.
	{"demo-desk", `{name: Simulated RTX 4090 24GB, memory: 24Gi, capability: "8.9", idle_w: 20, max_w: 450}`, []string{"--project", "robotics"}},
}

// curves are what the processes of the day show on their cards, by a word of their command lines. The day's jobs sleep;
// only what is said here is not so.
const curves = `processes:
  - command: made-up training
    memory: [{at: 0s, value: 2Gi}, {at: 4s, value: 17Gi}, {at: 60s, value: 19Gi}]
    utilization: [{at: 0s, value: 10}, {at: 3s, value: 92}, {at: 8s, value: 85}, {at: 12s, value: 96}, {at: 30s, value: 88}, {at: 60s, value: 97}]
  - command: made-up pretraining
    memory: [{at: 0s, value: 4Gi}, {at: 6s, value: 36Gi}]
    utilization: [{at: 0s, value: 20}, {at: 5s, value: 97}, {at: 20s, value: 91}, {at: 22s, value: 40}, {at: 25s, value: 96}]
  - command: made-up finetune
    memory: [{at: 0s, value: 2Gi}, {at: 1s, value: 11.8Gi}]
    utilization: [{at: 0s, value: 15}, {at: 3s, value: 88}]
  - command: made-up benchmark
    memory: [{at: 0s, value: 1Gi}, {at: 2s, value: 9Gi}]
    utilization: [{at: 0s, value: 20}, {at: 2s, value: 71}]
  - command: made-up reconstruction
    memory: 3Gi
    utilization: 55
`

// write puts a machine's description into dir, and its control file, which begins empty. It returns the description's path.
func (m simulated) write(dir string) (string, error) {
	path := filepath.Join(dir, m.name+".yaml")
	text := fmt.Sprintf("seed: %s\ndevices:\n  - %s\ncontrol: %s\n%s", m.name, m.devices, filepath.Base(control(dir, m.name)), curves)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return "", fmt.Errorf("the simulated machine %s: %w", m.name, err)
	}
	if err := os.WriteFile(control(dir, m.name), nil, 0o600); err != nil {
		return "", fmt.Errorf("the simulated machine %s: %w", m.name, err)
	}
	return path, nil
}

func control(dir, machine string) string { return filepath.Join(dir, machine+".control") }

// happen makes something happen to a machine's cards with their next reading: a line as package sim knows them.
func happen(dir, machine, format string, args ...any) error {
	f, err := os.OpenFile(control(dir, machine), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return fmt.Errorf("the cards of %s: %w", machine, err)
	}
	_, err = f.WriteString(strings.TrimSpace(fmt.Sprintf(format, args...)) + "\n")
	if closed := f.Close(); err == nil {
		err = closed
	}
	return err
}
