package sim

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	yaml "go.yaml.in/yaml/v3"

	"github.com/berthq/berth/job"
)

// Config describes the simulated machine.
type Config struct {
	Seed       string          `yaml:"seed"`
	CPUsPerGPU float64         `yaml:"cpus_per_gpu"`
	Devices    []DeviceConfig  `yaml:"devices"`
	Processes  []ProcessConfig `yaml:"processes"`
	Foreign    []ForeignConfig `yaml:"foreign"`
	Faults     []FaultConfig   `yaml:"faults"`
	Control    string          `yaml:"control"` // relative to the file it stands in

	Now    func() time.Time `yaml:"-"` // nil = time.Now
	Logger *slog.Logger     `yaml:"-"` // nil = silent
}

// DeviceConfig is one card, or several of a kind.
type DeviceConfig struct {
	Name       string     `yaml:"name"`
	Memory     job.Memory `yaml:"memory"`
	Capability string     `yaml:"capability"`
	Count      int        `yaml:"count"`
	IdleW      float64    `yaml:"idle_w"`
	MaxW       float64    `yaml:"max_w"`
	Missing    []string   `yaml:"missing"` // utilization_percent, temperature_c, power_w, energy_joules, processes
}

// ProcessConfig overrules what a process whose command line matches shows.
type ProcessConfig struct {
	Command     string `yaml:"command"` // regular expression
	Memory      Curve  `yaml:"memory"`  // MiB
	Utilization Curve  `yaml:"utilization"`

	match *regexp.Regexp
}

// ForeignConfig is a process that is nobody's here.
type ForeignConfig struct {
	GPU         int          `yaml:"gpu"`
	Start       job.Duration `yaml:"start"`
	End         job.Duration `yaml:"end"` // 0 = never
	Memory      job.Memory   `yaml:"memory"`
	Utilization float64      `yaml:"utilization"`
	PID         int          `yaml:"pid"` // default: one that no real process has
	User        string       `yaml:"user"`
	Command     string       `yaml:"command"`
}

// FaultConfig is something that goes wrong.
type FaultConfig struct {
	At     job.Duration `yaml:"at"`
	For    job.Duration `yaml:"for"` // 0 = for good; an XID and memory errors happen once
	GPU    int          `yaml:"gpu"`
	Kind   string       `yaml:"kind"`
	XID    int          `yaml:"xid"`
	Action int          `yaml:"action"`
	Errors int64        `yaml:"errors"`
}

// ErrConfig is what all mistakes in a setting or file are.
var ErrConfig = errors.New("simulated GPUs")

var shorthand = regexp.MustCompile(`^(\d+)x([0-9.]+[A-Za-z]*)$`)

// Parse reads what follows "sim:": "4x24Gi", or the path of a YAML file.
func Parse(setting string) (Config, error) {
	if m := shorthand.FindStringSubmatch(setting); m != nil {
		count, err := strconv.Atoi(m[1])
		memory, memErr := job.ParseMemory(m[2])
		if err := errors.Join(err, memErr); err != nil {
			return Config{}, fmt.Errorf("%w %q: %w", ErrConfig, setting, err)
		}
		c := Config{Devices: []DeviceConfig{{Memory: memory, Count: count}}}
		return c, c.check()
	}
	data, err := os.ReadFile(setting)
	if err != nil {
		return Config{}, fmt.Errorf("%w: %q is neither a number of cards such as 4x24Gi nor a file: %w", ErrConfig, setting, err)
	}
	c, err := Decode(data)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", setting, err)
	}
	if c.Control != "" && !filepath.IsAbs(c.Control) {
		c.Control = filepath.Join(filepath.Dir(setting), c.Control)
	}
	return c, nil
}

// Decode reads the YAML form; unknown fields are mistakes.
func Decode(data []byte) (Config, error) {
	var c Config
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return Config{}, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	return c, c.check()
}

var gauges = []string{"utilization_percent", "temperature_c", "power_w", "energy_joules", "processes"}

const maxDevices = 10_000

// check finds what cannot be, and fills in what was left out.
func (c *Config) check() error {
	if c.CPUsPerGPU == 0 {
		c.CPUsPerGPU = 1
	}
	if c.CPUsPerGPU < 0 {
		return fmt.Errorf("%w: cpus_per_gpu must be above 0", ErrConfig)
	}
	cards := 0
	for i := range c.Devices {
		if err := c.Devices[i].check(); err != nil {
			return fmt.Errorf("%w: device %d: %w", ErrConfig, i, err)
		}
		cards += c.Devices[i].Count
	}
	if cards > maxDevices {
		return fmt.Errorf("%w: %d cards: at most %d", ErrConfig, cards, maxDevices)
	}
	for i := range c.Processes {
		match, err := regexp.Compile(c.Processes[i].Command)
		if err != nil {
			return fmt.Errorf("%w: process %d: %w", ErrConfig, i, err)
		}
		if c.Processes[i].Command == "" {
			return fmt.Errorf("%w: process %d needs a command: a regular expression for its command line", ErrConfig, i)
		}
		c.Processes[i].match = match
	}
	for i, f := range c.Foreign {
		if f.GPU < 0 || f.GPU >= cards {
			return fmt.Errorf("%w: foreign process %d is on GPU %d: there are %d", ErrConfig, i, f.GPU, cards)
		}
		if f.PID == 0 {
			c.Foreign[i].PID = firstForeignPID + i
		}
	}
	for i, f := range c.Faults {
		if f.GPU < 0 || f.GPU >= cards {
			return fmt.Errorf("%w: fault %d is on GPU %d: there are %d", ErrConfig, i, f.GPU, cards)
		}
		if !slices.Contains([]string{"xid", "lost", "hang", "recovery", "ecc"}, f.Kind) {
			return fmt.Errorf("%w: fault %d: unknown kind %q: want xid, lost, hang, recovery or ecc", ErrConfig, i, f.Kind)
		}
	}
	return nil
}

// firstForeignPID is above Linux's largest possible pid.
const firstForeignPID = 5_000_000

func (d *DeviceConfig) check() error {
	if d.Count == 0 {
		d.Count = 1
	}
	if d.Count < 0 || d.Count > maxDevices {
		return fmt.Errorf("count %d: want 1 to %d", d.Count, maxDevices)
	}
	if mb, ok := d.Memory.MB(); !ok || mb <= 0 {
		return errors.New("memory is missing: say for example memory: 24Gi")
	}
	if d.Name == "" {
		d.Name = "Simulated GPU " + d.Memory.String()
	}
	if d.Capability == "" {
		d.Capability = "9.0"
	}
	if d.IdleW == 0 {
		d.IdleW = 55
	}
	if d.MaxW == 0 {
		d.MaxW = max(350, d.IdleW)
	}
	for _, g := range d.Missing {
		if !slices.Contains(gauges, g) {
			return fmt.Errorf("missing: unknown gauge %q: want %s", g, strings.Join(gauges, ", "))
		}
	}
	return nil
}
