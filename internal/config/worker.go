package config

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/berthq/berth/job"
)

// WorkerPrefix begins the worker's keys in the environment and in files.
const WorkerPrefix = "BERTH_WORKER_"

// Worker is how a worker is to behave.
type Worker struct {
	Name          string       `env:"NAME" value:"MACHINE" usage:"this machine's name in the fleet (default the host's)"`
	Store         string       `env:"STORE" value:"DIR" usage:"folder for the state of its runs"`
	GPUs          GPUSelection `env:"GPUS" envDefault:"all" value:"LIST" usage:"GPUs it gives out: all, 0-3, or UUIDs"`
	Slots         job.Count    `env:"SLOTS" envDefault:"1" value:"N" usage:"runs that may share one GPU, or auto (CPUs per GPU)"`
	GPUSource     string       `env:"GPU_SOURCE" envDefault:"auto" value:"SOURCE" usage:"auto, nvml, nvidia-smi, none, or simulated: sim:4x24Gi"`
	ReserveMemory job.Memory   `env:"RESERVE_MEMORY" envDefault:"0" value:"SIZE" usage:"memory kept free on each GPU"`
	MaxUtil       float64      `env:"MAX_UTIL" envDefault:"50" value:"PERCENT" usage:"most that foreign processes may use of a GPU that still gets jobs"`
	MinScore      float64      `env:"MIN_SCORE" envDefault:"0" value:"SCORE" usage:"pull no job for a place scoring less, 0 to 1"`
	Weights       Weights      `env:"WEIGHTS" envDefault:"memory=0.6,idle=0.4" value:"PAIRS" usage:"what free memory and idleness count in the score"`
	Foreign       string       `env:"FOREIGN" envDefault:"avoid" value:"POLICY" usage:"GPUs that other people's processes use: ignore, avoid or block"`
	ForeignIgnore []string     `env:"FOREIGN_IGNORE" envDefault:"Xorg,gnome-shell" value:"NAMES" usage:"processes that never count as foreign"`
	Settle        job.Duration `env:"SETTLE" envDefault:"5s" value:"TIME" usage:"how long a GPU must look free before it counts as free"`
	Warmup        job.Duration `env:"WARMUP" envDefault:"60s" value:"TIME" usage:"how long a new run's promised memory is kept for it"`
	Placement     string       `env:"PLACEMENT" envDefault:"score" value:"RULE" usage:"which fitting GPU first: score, pack, spread or bestfit"`
	NoRanking     bool         `env:"NO_RANKING" value:"bool" usage:"ask for every job alike, instead of best machine first"`
	RestoreAfter  job.Duration `env:"RESTORE_AFTER" envDefault:"5m" value:"TIME" usage:"how long a failed GPU must be quiet before it is tested and may come back"`
	ShrinkFor     job.Duration `env:"SHRINK_FOR" envDefault:"10m" value:"TIME" usage:"how long a GPU gives one slot less after a run found its memory full"`
	Python        []string     `env:"PYTHON" envDefault:"python3" value:"PATHS" usage:"interpreters or virtual environments asked which GPUs their frameworks see; none: not asked"`
	Users         string       `env:"USERS" value:"FILE" usage:"lines USER = ACCOUNT: as whom each user's jobs run, where the worker is root"`
	AllowRoot     bool         `env:"ALLOW_ROOT" value:"bool" usage:"a worker that is root and has no map of users runs everybody's jobs as root"`
	Secrets       string       `env:"SECRETS" value:"DIR" usage:"folder with a file (mode 0600) for each secret, and for each project a folder of its own"`
	Runner        string       `env:"RUNNER" envDefault:"auto" value:"KIND" usage:"process: jobs with an image do not run here; container: they must be able to; auto: if a container engine answers"`
	Socket        string       `env:"CONTAINER_SOCKET" envDefault:"/var/run/docker.sock" value:"PATH" usage:"socket of the container engine (Docker's API)"`
	ContainerGPUs string       `env:"CONTAINER_GPUS" envDefault:"auto" value:"METHOD" usage:"how the engine is asked for GPUs: cdi, hook (NVIDIA's, by UUID), or auto"`
	Label         Labels       `env:"LABEL" value:"K=V" usage:"label of this machine, for constraints; may be repeated"`
	Project       []string     `env:"PROJECT" value:"NAMES" usage:"serve only these projects; may be repeated"`
	LogCap        job.Memory   `env:"LOG_CAP" envDefault:"1Gi" value:"SIZE" usage:"output kept of one run, its head and its tail"`
	MaxProcesses  int          `env:"MAX_PROCESSES" value:"N" usage:"most processes of one run (default 16384 under cgroup v2, elsewhere no limit)"`
	OpenGPUs      bool         `env:"OPEN_GPUS" value:"bool" usage:"let a run open the device files of GPUs that it was not given"`
	DrainTimeout  job.Duration `env:"DRAIN_TIMEOUT" value:"TIME" usage:"stop what still runs after so long a drain (default: wait)"`
	Metrics       string       `env:"METRICS" value:"HOST:PORT" usage:"serve Prometheus metrics there, such as 127.0.0.1:9464 (default: nowhere)"`
	ClaimTTL      job.Duration `env:"CLAIM_TTL" envDefault:"5m" value:"TIME" usage:"how long a silent worker keeps its jobs"`
}

// WorkerSources are the layers a worker's settings come from.
type WorkerSources struct {
	Flags   *pflag.FlagSet // bound by BindWorker and parsed; nil: none
	Environ []string       // KEY=value
	// File of KEY=VALUE lines; it must exist. "": none. It may hold the client's settings too.
	File string
	// Host is the default name; Root says that the worker runs for the whole machine.
	Host string
	Root bool
}

// BindWorker adds a flag for every option.
func BindWorker(fs *pflag.FlagSet) { bind(fs, optionsOf(Worker{}, WorkerPrefix)) }

// LoadWorker gives the settings, and for each where it came from. All that is wrong is reported together.
func LoadWorker(from WorkerSources) (Worker, Settings, error) {
	options := optionsOf(Worker{}, WorkerPrefix)
	environ := environMap(from.Environ)
	if err := checkEnviron(from.Environ, keysOf(options)); err != nil {
		return Worker{}, nil, err
	}
	var file map[string]entry
	if from.File != "" {
		var err error
		known := append(keysOf(options), keysOf(optionsOf(Client{}, ClientPrefix))...)
		if file, err = readKeyFile(from.File, known); err != nil {
			return Worker{}, nil, err
		}
	}
	presets := map[string]string{
		WorkerPrefix + "NAME":  from.Host,
		WorkerPrefix + "STORE": defaultStore(environ, from.Root),
	}
	settings := layered(options, from.Flags, environ, file, presets)
	var w Worker
	if err := decode(settings, options, WorkerPrefix, &w); err != nil {
		return Worker{}, nil, err
	}
	w.ForeignIgnore, w.Project, w.Python = words(w.ForeignIgnore), words(w.Project), words(w.Python)
	if err := w.check(settings); err != nil {
		return Worker{}, nil, err
	}
	return w, settings, nil
}

// NoPython as the only interpreter: frameworks are not asked.
const NoPython = "none"

// words trims a list and drops what is blank; never nil, which elsewhere means the default.
func words(list []string) []string {
	kept := []string{}
	for _, s := range list {
		if s = strings.TrimSpace(s); s != "" {
			kept = append(kept, s)
		}
	}
	return kept
}

// checkEnviron refuses BERTH_WORKER_ variables nobody reads: a misspelt one would be silently without effect.
func checkEnviron(environ, known []string) error {
	var errs []error
	for _, kv := range environ {
		key, _, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(key, WorkerPrefix) {
			continue
		}
		if err := checkKey(key, known); err != nil {
			errs = append(errs, fmt.Errorf("environment: %w", err))
		}
	}
	return errors.Join(errs...)
}

// defaultStore is where systemd and the XDG rules put state; "" when there is no home.
func defaultStore(environ map[string]string, root bool) string {
	switch {
	case root:
		return "/var/lib/berth/worker"
	case filepath.IsAbs(environ["XDG_STATE_HOME"]):
		return filepath.Join(environ["XDG_STATE_HOME"], "berth", "worker")
	case filepath.IsAbs(environ["HOME"]):
		return filepath.Join(environ["HOME"], ".local", "state", "berth", "worker")
	}
	return ""
}

// The words of the options that are a choice.
var (
	foreignPolicies = []string{"ignore", "avoid", "block"}
	runners         = []string{"auto", "process", "container"}
	containerGPUs   = []string{"auto", "cdi", "hook"}
	placements      = []string{"score", "pack", "spread", "bestfit"}
)

func (w Worker) check(settings Settings) error {
	var errs []error
	bad := func(name string, wrong bool, format string, args ...any) {
		if s, ok := settings.Get(name); wrong && ok {
			errs = append(errs, s.wrap(fmt.Errorf(format, args...)))
		}
	}
	slots, exact := w.Slots.Value()
	bad("name", w.Name == "", "the machine has no name: give it one")
	bad("name", strings.ContainsFunc(w.Name, isControl) || len(w.Name) > job.MaxNameLength, "%q is not a name", clip(w.Name))
	bad("store", w.Store == "", "there is no home folder to keep the state in: name a folder")
	bad("slots", !w.Slots.IsAuto() && (!exact || slots < 1), "want 1 or more, or auto")
	bad("reserve-memory", w.ReserveMemory.IsAuto(), "auto means nothing here: give a size")
	logCap, exact := w.LogCap.MB()
	bad("log-cap", !exact || logCap < 1, "give a size of 1Mi or more")
	bad("max-processes", w.MaxProcesses < 0, "want 1 or more, or 0 for the default")
	bad("max-util", !(w.MaxUtil >= 0 && w.MaxUtil <= 100), "%v: want a percentage from 0 to 100", w.MaxUtil)
	bad("min-score", !(w.MinScore >= 0 && w.MinScore <= 1), "%v: want 0 to 1", w.MinScore)
	bad("foreign", !slices.Contains(foreignPolicies, w.Foreign), "%s", choice(w.Foreign, foreignPolicies))
	bad("placement", !slices.Contains(placements, w.Placement), "%s", choice(w.Placement, placements))
	bad("runner", !slices.Contains(runners, w.Runner), "%s", choice(w.Runner, runners))
	bad("container-gpus", !slices.Contains(containerGPUs, w.ContainerGPUs), "%s", choice(w.ContainerGPUs, containerGPUs))
	bad("container-socket", !filepath.IsAbs(w.Socket), "%q: want the path of a socket of this machine", clip(w.Socket))
	bad("restore-after", w.RestoreAfter <= 0, "want a time such as 5m")
	bad("python", len(w.Python) > 1 && slices.Contains(w.Python, NoPython), "none and an interpreter cannot both be meant")
	bad("claim-ttl", w.ClaimTTL <= 0, "want a time such as 5m")
	_, port, err := net.SplitHostPort(w.Metrics)
	bad("metrics", w.Metrics != "" && (err != nil || port == ""), "%q: want HOST:PORT such as 127.0.0.1:9464, or :9464 for every address", clip(w.Metrics))
	for _, p := range w.Project {
		bad("project", !job.ValidToken(p), "%q: want 1 to 32 of a-z, 0-9, _ and -", clip(p))
	}
	return errors.Join(errs...)
}

func isControl(r rune) bool { return r < ' ' || r == 0x7f }

// choice says what a word should have been.
func choice(word string, words []string) string {
	text := fmt.Sprintf("%q: want %s", clip(word), strings.Join(words, ", "))
	if near, ok := job.Nearest(word, words); ok {
		text += " (did you mean " + near + "?)"
	}
	return text
}

// FindWorkerFile is the file a worker reads when none is named: the user's, else the machine's, else none.
func FindWorkerFile(environ []string) string { return firstFile(environMap(environ), "worker.env") }

// firstFile finds a file of Berth's in the user's folder or the machine's.
func firstFile(environ map[string]string, name string) string {
	for _, dir := range configDirs(environ) {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path
		}
	}
	return ""
}

// configDirs are the folders of Berth's files, the user's first.
func configDirs(environ map[string]string) []string {
	if dir := userConfigDir(environ); dir != "" {
		return []string{dir, systemConfigDir}
	}
	return []string{systemConfigDir}
}

// systemConfigDir is the machine's.
const systemConfigDir = "/etc/berth"

func userConfigDir(environ map[string]string) string {
	switch {
	case filepath.IsAbs(environ["XDG_CONFIG_HOME"]):
		return filepath.Join(environ["XDG_CONFIG_HOME"], "berth")
	case filepath.IsAbs(environ["HOME"]):
		return filepath.Join(environ["HOME"], ".config", "berth")
	}
	return ""
}
