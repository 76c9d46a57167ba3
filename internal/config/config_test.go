package config_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"go.uber.org/goleak"

	"github.com/berthq/berth/internal/config"
	"github.com/berthq/berth/job"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func workerFlags(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("worker", pflag.ContinueOnError)
	config.BindWorker(fs)
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return fs
}

func write(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWorkerDefaults(t *testing.T) {
	t.Parallel()
	w, _, err := config.LoadWorker(config.WorkerSources{Host: "gpu1", Environ: []string{"HOME=/home/ada"}})
	if err != nil {
		t.Fatal(err)
	}
	want := config.Worker{
		Name: "gpu1", Store: "/home/ada/.local/state/berth/worker", Slots: job.CountOf(1), GPUSource: "auto",
		ReserveMemory: job.MemoryOf(0), MaxUtil: 50, Weights: config.Weights{Memory: 0.6, Idle: 0.4}, Foreign: "avoid",
		ForeignIgnore: []string{"Xorg", "gnome-shell"}, Settle: job.Duration(5 * time.Second), Warmup: job.Duration(time.Minute),
		RestoreAfter: job.Duration(5 * time.Minute), ShrinkFor: job.Duration(10 * time.Minute), Python: []string{"python3"},
		Runner: "auto", Socket: "/var/run/docker.sock", ContainerGPUs: "auto",
		Placement: "score", Project: []string{}, LogCap: job.MemoryOf(1024), ClaimTTL: job.Duration(5 * time.Minute),
	}
	if diff := cmp.Diff(want, w, cmp.AllowUnexported(config.GPUSelection{}), cmp.Exporter(func(reflect.Type) bool { return true })); diff != "" {
		t.Error(diff)
	}
	w, _, err = config.LoadWorker(config.WorkerSources{Host: "gpu1", Root: true})
	if err != nil || w.Store != "/var/lib/berth/worker" {
		t.Errorf("store of the machine's worker: %q, %v", w.Store, err)
	}
}

// Flags beat the environment, that beats the file, that beats the default: each layer removed shows the next.
func TestLayers(t *testing.T) {
	t.Parallel()
	file := write(t, t.TempDir(), "worker.env", "# comment\n; another\n\nBERTH_WORKER_MAX_UTIL=30\nBERTH_SERVER=nats://b:4222\n")
	environ := []string{"HOME=/h", "BERTH_WORKER_MAX_UTIL=20", "BERTH_WORKER_SLOTS=", "BERTH_JOB_ID=7"}
	for _, c := range []struct {
		from  config.WorkerSources
		want  float64
		layer config.Layer
		where string
	}{
		{config.WorkerSources{Flags: workerFlags(t, "--max-util", "10"), Environ: environ, File: file}, 10, config.LayerFlag, "--max-util"},
		{config.WorkerSources{Flags: workerFlags(t), Environ: environ, File: file}, 20, config.LayerEnvironment, "BERTH_WORKER_MAX_UTIL"},
		{config.WorkerSources{Environ: []string{"HOME=/h"}, File: file}, 30, config.LayerFile, file + ":4"},
		{config.WorkerSources{Environ: []string{"HOME=/h"}}, 50, config.LayerDefault, ""},
	} {
		c.from.Host = "m"
		w, settings, err := config.LoadWorker(c.from)
		if err != nil {
			t.Fatal(err)
		}
		s, ok := settings.Get("max-util")
		if w.MaxUtil != c.want || !ok || s.Layer != c.layer || s.Where != c.where {
			t.Errorf("max-util is %v from %+v; want %v from %s %s", w.MaxUtil, s, c.want, c.layer, c.where)
		}
	}
}

// Every option can be given in each of the three ways under its one name.
func TestOneNameThreeWays(t *testing.T) {
	t.Parallel()
	values := map[string]string{
		"name": "m2", "store": "/s", "gpus": "0-1,GPU-abc", "slots": "auto", "gpu-source": "sim:4x24Gi", "reserve-memory": "512",
		"max-util": "40", "min-score": "0.25", "weights": "memory=1", "foreign": "block", "foreign-ignore": "Xwayland", "settle": "1s",
		"warmup": "2m", "placement": "pack", "label": "rack=a,pool=b", "project": "serving", "drain-timeout": "1h", "claim-ttl": "10m",
		"no-ranking": "true", "open-gpus": "true", "restore-after": "1m", "shrink-for": "5m", "python": "/opt/a/bin/python3,/opt/venv", "secrets": "/etc/berth/secrets", "users": "/etc/berth/users",
		"runner": "container", "container-socket": "/run/podman/podman.sock", "container-gpus": "hook",
		"log-cap": "2Gi", "max-processes": "500", "allow-root": "true", "metrics": "127.0.0.1:9464",
	}
	fs := workerFlags(t)
	n := 0
	fs.VisitAll(func(f *pflag.Flag) {
		n++
		if values[f.Name] == "" {
			t.Errorf("--%s is not tested here", f.Name)
		}
		if f.Usage == "" || f.Value.Type() == "" {
			t.Errorf("--%s has no usage or no placeholder", f.Name)
		}
	})
	if n != len(values) {
		t.Errorf("%d flags, %d tested", n, len(values))
	}
	var args, environ []string
	var file strings.Builder
	for name, value := range values {
		key := "BERTH_WORKER_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_"))
		args = append(args, "--"+name+"="+value)
		environ = append(environ, key+"="+value)
		file.WriteString(key + "='" + value + "'\n")
	}
	path := write(t, t.TempDir(), "worker.env", file.String())
	var loaded []config.Worker
	for _, from := range []config.WorkerSources{{Flags: workerFlags(t, args...)}, {Environ: environ}, {File: path}} {
		w, _, err := config.LoadWorker(from)
		if err != nil {
			t.Fatal(err)
		}
		loaded = append(loaded, w)
	}
	if !reflect.DeepEqual(loaded[0], loaded[1]) || !reflect.DeepEqual(loaded[0], loaded[2]) {
		t.Errorf("flags: %+v\nenvironment: %+v\nfile: %+v", loaded[0], loaded[1], loaded[2])
	}
	w := loaded[0]
	if !w.Slots.IsAuto() || w.Label["pool"] != "b" || w.Weights != (config.Weights{Memory: 1}) || w.DrainTimeout.Std() != time.Hour || w.Project[0] != "serving" {
		t.Errorf("%+v", w)
	}
	for index, want := range []bool{true, true, false} {
		if w.GPUs.Has(index, "GPU-x") != want {
			t.Errorf("GPU %d among %s: %v", index, w.GPUs, !want)
		}
	}
	if !w.GPUs.Has(7, "GPU-abc") || w.GPUs.All() {
		t.Errorf("selection %s", w.GPUs)
	}
}

func TestRepeatedFlags(t *testing.T) {
	t.Parallel()
	fs := workerFlags(t, "--label", "rack=a", "--label", "pool=b", "--project=x", "--project=y", "--slots", "2", "--slots", "3", "--foreign-ignore=")
	w, _, err := config.LoadWorker(config.WorkerSources{Flags: fs, Host: "m", Root: true})
	if err != nil || len(w.Label) != 2 || !cmp.Equal(w.Project, []string{"x", "y"}) || w.Slots != job.CountOf(3) {
		t.Errorf("%+v, %v", w, err)
	}
	if w.ForeignIgnore == nil || len(w.ForeignIgnore) != 0 {
		t.Errorf("--foreign-ignore= leaves %q", w.ForeignIgnore)
	}
}

func TestWorkerRefusals(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, c := range map[string]struct {
		args    []string
		environ []string
		file    string
		want    []string
	}{
		"several at once": {
			args: []string{"--slots=0", "--max-util", "120"}, environ: []string{"BERTH_WORKER_FOREIGN=blok"}, file: "BERTH_WORKER_MIN_SCORE=2\n",
			want: []string{"--slots: want 1 or more", "--max-util: 120: want a percentage", `BERTH_WORKER_FOREIGN: "blok": want ignore, avoid, block (did you mean block?)`, "worker.env:1: BERTH_WORKER_MIN_SCORE: 2: want 0 to 1"},
		},
		"not numbers": {
			args: []string{"--slots=x"}, environ: []string{"BERTH_WORKER_MAX_UTIL=half"}, file: "BERTH_WORKER_SETTLE=30\n",
			want: []string{"--slots: ", "BERTH_WORKER_MAX_UTIL: ", "worker.env:1: BERTH_WORKER_SETTLE: ", "has no unit"},
		},
		"nan":                   {args: []string{"--max-util=NaN", "--min-score=nan"}, want: []string{"--max-util", "--min-score"}},
		"unknown in the file":   {file: "\nBERTH_WORKER_SLOT=1\n", want: []string{"worker.env:2:1: unknown setting BERTH_WORKER_SLOT (did you mean BERTH_WORKER_SLOTS?)"}},
		"unknown in the world":  {environ: []string{"BERTH_WORKER_MAXUTIL=1"}, want: []string{"environment: unknown setting BERTH_WORKER_MAXUTIL (did you mean BERTH_WORKER_MAX_UTIL?)"}},
		"no equals":             {file: "BERTH_WORKER_SLOTS 1\n", want: []string{"worker.env:1:1: want KEY=VALUE"}},
		"twice":                 {file: "BERTH_WORKER_SLOTS=1\nBERTH_WORKER_SLOTS=2\n", want: []string{"worker.env:2:1: BERTH_WORKER_SLOTS is set in", ":1 already"}},
		"open quote":            {file: `BERTH_WORKER_NAME="gpu 1` + "\n", want: []string{"worker.env:1:19: BERTH_WORKER_NAME: the closing quote is missing"}},
		"text after the quote":  {file: `BERTH_WORKER_NAME="a" b` + "\n", want: []string{"text after the closing quote"}},
		"GPUs":                  {args: []string{"--gpus=0-x"}, want: []string{"--gpus: ", "want all, indexes"}},
		"weights":               {args: []string{"--weights=memory=0,idle=0"}, want: []string{"cannot both be 0"}},
		"other weights":         {args: []string{"--weights=cpu=1"}, want: []string{"--weights: cpu: want memory"}},
		"negative weight":       {args: []string{"--weights=memory=-1"}, want: []string{"is not a weight"}},
		"label without a value": {args: []string{"--label=rack"}, want: []string{"--label: ", "KEY=VALUE pairs"}},
		"project":               {args: []string{"--project=a.b"}, want: []string{"--project: ", "want 1 to 32"}},
		"placement":             {args: []string{"--placement=packed"}, want: []string{"did you mean pack?"}},
		"name":                  {args: []string{"--name=a\x1b[2J"}, want: []string{"--name: ", "is not a name"}},
		"reserve":               {args: []string{"--reserve-memory=auto"}, want: []string{"--reserve-memory: auto means nothing here"}},
		"claim ttl":             {args: []string{"--claim-ttl=0s"}, want: []string{"--claim-ttl: want a time"}},
		"no home":               {want: []string{"--store: there is no home folder"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := config.WorkerSources{Flags: workerFlags(t, c.args...), Environ: c.environ, Host: "m", Root: name != "no home"}
			if c.file != "" {
				from.File = write(t, filepath.Join(dir, strings.ReplaceAll(name, " ", "_")), "worker.env", c.file)
			}
			_, _, err := config.LoadWorker(from)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v\nwant %q", err, want)
				}
			}
		})
	}
	if _, _, err := config.LoadWorker(config.WorkerSources{File: filepath.Join(dir, "none.env"), Root: true}); err == nil {
		t.Error("a named file that is not there is no error")
	}
}

func TestConfigPrint(t *testing.T) {
	t.Parallel()
	_, settings, err := config.LoadWorker(config.WorkerSources{
		Flags: workerFlags(t, "--slots=2"), Environ: []string{"BERTH_WORKER_LABEL=rack=a b"}, Host: "m", Root: true})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := settings.Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"BERTH_WORKER_SLOTS ", " 2 ", "flag --slots", `"rack=a b"`, "environment BERTH_WORKER_LABEL", "  default\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, &out)
		}
	}
	if n := strings.Count(out.String(), "\n"); n != len(settings) || n < 15 {
		t.Errorf("%d lines for %d settings", n, len(settings))
	}
}

func TestClientFileIsPrivateAndReadsBack(t *testing.T) {
	t.Parallel()
	environ := []string{"XDG_CONFIG_HOME=" + t.TempDir()}
	path, err := config.ClientFile(environ, false)
	if err != nil {
		t.Fatal(err)
	}
	want := config.Client{Server: "nats://127.0.0.1:4222", Token: `a "strange" $token\`}
	for range 2 { // the second replaces the first
		if err := config.WriteClientFile(path, want); err != nil {
			t.Fatal(err)
		}
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want 0600", info.Mode(), err)
	}
	if names, err := os.ReadDir(filepath.Dir(path)); err != nil || len(names) != 1 {
		t.Errorf("the folder holds %v, %v", names, err)
	}
	got, settings, err := config.LoadClient(config.ClientSources{Environ: environ})
	if err != nil || got != want {
		t.Errorf("%+v, %v; want %+v", got, err, want)
	}
	if s, _ := settings.Get("token"); strings.Contains(s.Value, "strange") || s.Layer != config.LayerFile {
		t.Errorf("the token shows: %+v", s)
	}
	if got, err := config.ReadClientFile(path); err != nil || got != want {
		t.Errorf("read alone: %+v, %v", got, err)
	}
	if _, err := config.ReadClientFile(path + ".none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	if err := config.WriteClientFile(path, config.Client{Token: "a\nBERTH_SERVER=evil"}); err == nil {
		t.Error("a token with a line break was written")
	}
}

func TestClientSecretsStayWithTheirServer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "berth/client.env", "BERTH_SERVER=nats://own:4222\nBERTH_TOKEN=secret\n")
	write(t, dir, "nats/context/lab.json", `{"url": "nats://lab:4222", "creds": "/lab.creds", "color_scheme": "blue"}`)
	write(t, dir, "nats/context/pw.json", `{"url": "nats://lab:4222", "user": "u", "password": "p"}`)
	for name, c := range map[string]struct {
		environ []string
		args    []string
		want    config.Client
	}{
		"as written":             {want: config.Client{Server: "nats://own:4222", Token: "secret"}},
		"the same server":        {environ: []string{"BERTH_SERVER=nats://own:4222"}, want: config.Client{Server: "nats://own:4222", Token: "secret"}},
		"another server":         {environ: []string{"BERTH_SERVER=nats://other:4222"}, want: config.Client{Server: "nats://other:4222"}},
		"another, with a token":  {environ: []string{"BERTH_SERVER=nats://other:4222", "BERTH_TOKEN=t"}, want: config.Client{Server: "nats://other:4222", Token: "t"}},
		"a flag":                 {args: []string{"--server", "nats://flag:1"}, want: config.Client{Server: "nats://flag:1"}},
		"creds instead of token": {environ: []string{"BERTH_CREDS=/c"}, want: config.Client{Server: "nats://own:4222", Creds: "/c"}},
		"a context":              {args: []string{"--context", "lab"}, want: config.Client{Server: "nats://lab:4222", Creds: "/lab.creds", Context: "lab"}},
		"a context, other server": {environ: []string{"BERTH_CONTEXT=lab"}, args: []string{"--server", "nats://flag:1"},
			want: config.Client{Server: "nats://flag:1", Context: "lab"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, _, err := config.LoadClient(config.ClientSources{Environ: append([]string{"XDG_CONFIG_HOME=" + dir}, c.environ...), Flags: clientFlags(t, c.args...)})
			if err != nil || got != c.want {
				t.Errorf("%+v, %v; want %+v", got, err, c.want)
			}
		})
	}
	for context, want := range map[string]string{"pw": "not supported yet", "none": "nats context ls", "../x": "is not the name"} {
		_, _, err := config.LoadClient(config.ClientSources{Environ: []string{"XDG_CONFIG_HOME=" + dir}, Flags: clientFlags(t, "--context", context)})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "--context") {
			t.Errorf("context %s: %v, want %q", context, err, want)
		}
	}
}

func clientFlags(t *testing.T, args ...string) *pflag.FlagSet {
	t.Helper()
	fs := pflag.NewFlagSet("submit", pflag.ContinueOnError)
	for _, name := range []string{"server", "creds", "context"} {
		fs.String(name, "", "")
	}
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	return fs
}

func TestClientWithoutAnyFile(t *testing.T) {
	t.Parallel()
	got, _, err := config.LoadClient(config.ClientSources{Environ: []string{"HOME=" + t.TempDir()}})
	if err != nil || got != (config.Client{Server: config.DefaultServer}) {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := config.ClientFile(nil, false); err == nil {
		t.Error("a client file without a home")
	}
	if path, err := config.ClientFile(nil, true); err != nil || path != "/etc/berth/client.env" {
		t.Errorf("the machine's: %s, %v", path, err)
	}
	bad := write(t, t.TempDir(), "client.env", "BERTH_SERVR=x\n")
	if _, _, err := config.LoadClient(config.ClientSources{File: bad}); err == nil || !strings.Contains(err.Error(), "did you mean BERTH_SERVER?") {
		t.Errorf("a misspelt key: %v", err)
	}
}

// What is written for a service is read back as it was meant, and leaves the defaults to the program.
func TestKeyFileText(t *testing.T) {
	t.Parallel()
	_, from, err := config.LoadWorker(config.WorkerSources{Host: "m", Root: true, Flags: workerFlags(t, "--store", "state", "--label", "rack=a b,x=$y")})
	if err != nil {
		t.Fatal(err)
	}
	from.Absolute("/srv", "store", "users")
	text, err := config.KeyFileText("settings", from, config.Client{Server: "nats://b:4222", Token: "t\"$`\\"})
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text, "SLOTS") || strings.Contains(text, "USERS") {
		t.Errorf("defaults stand in\n%s", text)
	}
	file := write(t, t.TempDir(), "worker.env", text)
	w, _, err := config.LoadWorker(config.WorkerSources{Host: "m", Root: true, File: file})
	if err != nil || w.Store != "/srv/state" || w.Label["rack"] != "a b" || w.Label["x"] != "$y" {
		t.Errorf("store %q, labels %v, %v", w.Store, w.Label, err)
	}
	if _, err := config.KeyFileText("x", from, config.Client{Token: "a\nBERTH_WORKER_ALLOW_ROOT=true"}); err == nil {
		t.Error("a token with a line break was written")
	}
}
