package consume_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/natsembed/natstest"
	"github.com/berthq/berth/queue"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "a-token-of-the-test"

// limit is for a program that should end by itself.
const limit = 2 * time.Minute

// results are one of each kind: a job, a task, one that failed, one that never ran, one of another project.
func results() []job.Result {
	seventeen := 17
	return []job.Result{
		{Number: 1840, Project: "lab", State: job.Succeeded, Exit: &job.Exit{}, Name: "train"},
		{Number: 1841, Project: "lab", State: job.Failed, Exit: &job.Exit{Code: 3}},
		{Number: 1842, Index: &seventeen, Project: "lab", State: job.Succeeded, Exit: &job.Exit{}, Name: "llama-sweep"},
		{Number: 1843, Project: "lab", State: job.Cancelled, Name: "never ran"},
		{Number: 1844, Project: "imaging", State: job.Succeeded, Exit: &job.Exit{}, Name: "größer"},
	}
}

// lines are what every program should print for them.
var lines = []string{
	"1\t1840\tsucceeded\t0\ttrain",
	"2\t1841\tfailed\t3\t",
	"3\t1842.17\tsucceeded\t0\tllama-sweep",
	"4\t1843\tcancelled\t-\tnever ran",
	"5\t1844\tsucceeded\t0\tgrößer",
}

// events are one about a job and one about a machine, and what every program should print for them.
func events() (all []queue.Event, lines []string) {
	return []queue.Event{
		{Kind: "cancel", Project: "lab", By: "ada", Job: "1843", Text: "wrong data"},
		{Kind: "drain", Project: "_", By: "bob", Machine: "gpu07"},
	}, []string{"1\tcancel\tlab\tada\t1843", "2\tdrain\t_\tbob\tgpu07"}
}

// broker has the results and events in their streams; middle is a time between the third result and the fourth.
func broker(t *testing.T) (url string, middle time.Time) {
	t.Helper()
	b := natstest.New(t, natstest.WithToken(token))
	js, err := jetstream.New(b.Connect())
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{
		Name: "BERTH_RESULTS", Subjects: []string{"berth.results.>"}, AllowDirect: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results() {
		data, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		subject := fmt.Sprintf("berth.results.%s.%d", r.Project, r.Number)
		if r.Index != nil {
			subject += fmt.Sprintf(".%d", *r.Index)
		}
		if _, err := js.Publish(t.Context(), subject, data); err != nil {
			t.Fatal(err)
		}
	}
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "BERTH_EVENTS", Subjects: []string{"berth.events.*.*"}, AllowDirect: true})
	if err != nil {
		t.Fatal(err)
	}
	done, _ := events()
	for _, e := range done {
		data, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := js.Publish(t.Context(), "berth.events."+e.Kind+"."+e.Project, data); err != nil {
			t.Fatal(err)
		}
	}
	fourth, err := stream.GetMsg(t.Context(), 4)
	if err != nil {
		t.Fatal(err)
	}
	return b.URL(), fourth.Time
}

// program is one way to read results: argv without options.
type program struct {
	argv []string
	dir  string
	url  string
}

func (p program) command(ctx context.Context, t *testing.T, options ...string) *exec.Cmd {
	t.Helper()
	argv := append(append([]string{}, p.argv...), options...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "BERTH_SERVER="+p.url, "BERTH_TOKEN="+token, "NATS_URL="+p.url, "NATS_TOKEN="+token,
		"XDG_CONFIG_HOME="+t.TempDir())
	return cmd
}

func (p program) run(t *testing.T, options ...string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := p.command(ctx, t, options...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(cmd.Args, " "), err, out, stderr.String())
	}
	return strings.Split(strings.TrimRight(string(out), "\n"), "\n")
}

// readsAll is what every program must do.
func readsAll(t *testing.T, p program, middle time.Time) {
	t.Helper()
	_, eventLines := events()
	for _, c := range []struct {
		name    string
		options []string
		want    []string
	}{
		{"everything", nil, lines},
		{"one project", []string{"--project", "imaging"}, lines[4:]},
		{"from a sequence", []string{"--from", "3"}, lines[2:]},
		{"from a time", []string{"--since", middle.Format(time.RFC3339Nano)}, lines[3:]},
		{"a project with nothing", []string{"--project", "nobody"}, []string{""}},
		{"a durable one begins", []string{"--durable", "mailer", "--from", "4"}, lines[3:]},
		{"and goes on where it stopped", []string{"--durable", "mailer"}, []string{""}},
		{"all events", []string{"--events"}, eventLines},
		{"events of one project", []string{"--events", "--project", "_"}, eventLines[1:]},
		{"events from a sequence", []string{"--events", "--from", "2"}, eventLines[1:]},
	} {
		got := p.run(t, append([]string{"--once"}, c.options...)...)
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s: printed\n%s\nwant\n%s", c.name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
	}
	p.resumes(t)
}

// resumes is killed in the middle: the next one under that name goes on behind what the first has acknowledged, which is
// what it printed, but for the last that may come twice.
func (p program) resumes(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	cmd := p.command(ctx, t, "--durable", "crashing")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	scan, seen := bufio.NewScanner(out), []string{}
	for len(seen) < len(lines) && scan.Scan() {
		seen = append(seen, scan.Text())
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	if strings.Join(seen, "\n") != strings.Join(lines, "\n") {
		t.Errorf("before it was killed: printed\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(lines, "\n"))
	}
	p.publish(t, job.Result{Number: 1845, Project: "lab", State: job.Succeeded, Exit: &job.Exit{}, Name: "later"})
	got := p.run(t, "--once", "--durable", "crashing")
	if last := got[len(got)-1]; last != "6\t1845\tsucceeded\t0\tlater" || len(got) > 2 || len(got) == 2 && got[0] != lines[4] {
		t.Errorf("after the crash: printed\n%s\nwant the sixth, and at most the fifth again", strings.Join(got, "\n"))
	}
}

func (p program) publish(t *testing.T, r job.Result) {
	t.Helper()
	nc, err := nats.Connect(p.url, nats.Token(token))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), fmt.Sprintf("berth.results.%s.%d", r.Project, r.Number), data); err != nil {
		t.Fatal(err)
	}
}

func TestGo(t *testing.T) {
	t.Parallel()
	url, middle := broker(t)
	bin := filepath.Join(t.TempDir(), "consume")
	if out, err := exec.Command("go", "build", "-o", bin, "./go").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	readsAll(t, program{argv: []string{bin}, url: url}, middle)
}

func TestJavaScript(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("js")); err != nil {
		t.Fatal(err)
	}
	node := findProgram(t, "node")
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	install := exec.CommandContext(ctx, findProgram(t, "npm"), "install", "--no-audit", "--no-fund", "--no-package-lock")
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		notRun(t, "npm could not install the client library (offline?): %v\n%s", err, out)
	}
	url, middle := broker(t)
	readsAll(t, program{argv: []string{node, "consume.mjs"}, dir: dir, url: url}, middle)
}

func TestPythonParses(t *testing.T) {
	t.Parallel()
	const parse = "import ast, sys; ast.parse(open(sys.argv[1]).read(), sys.argv[1])"
	out, err := exec.Command(findProgram(t, "python3"), "-c", parse, "python/consume.py").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestPython(t *testing.T) {
	t.Parallel()
	python := pythonWithClient(t)
	url, middle := broker(t)
	readsAll(t, program{argv: []string{python, "python/consume.py"}, url: url}, middle)
}

// pythonWithClient is a Python that has the client library: the machine's own, or that of a folder in the cache, which is
// made once where tests may take long.
func pythonWithClient(t *testing.T) string {
	t.Helper()
	own := findProgram(t, "python3")
	cache, err := os.UserCacheDir()
	if err != nil {
		notRun(t, "there is no cache folder: %v", err)
	}
	venv := filepath.Join(cache, "berth", "consume-python")
	kept := filepath.Join(venv, "bin", "python")
	for _, python := range []string{own, kept} {
		if exec.Command(python, "-c", "import nats").Run() == nil {
			return python
		}
	}
	if os.Getenv("BERTH_LONG") == "" {
		notRun(t, "python3 has no module nats: set BERTH_LONG=1 (make test-all) to install it once into %s", venv)
	}
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for _, argv := range [][]string{
		{own, "-m", "venv", venv},
		{kept, "-m", "pip", "install", "--quiet", "--retries", "0", "--requirement", "python/requirements.txt"},
	} {
		if out, err := exec.CommandContext(ctx, argv[0], argv[1:]...).CombinedOutput(); err != nil {
			notRun(t, "the client library could not be installed (offline?): %s: %v\n%s", strings.Join(argv, " "), err, out)
		}
	}
	return kept
}

// The commands of README.md, as they stand there.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	sh := findProgram(t, "sh")
	findProgram(t, "nats")
	url, _ := broker(t)
	want := map[string]string{
		"BERTH_EVENTS --all":     "cancel drain",
		"BERTH_EVENTS --start":   "drain",
		"RESULTS --all":          "1840 1841 1842 1843 1844",
		"RESULTS --since":        "1840 1841 1842 1843 1844",
		"RESULTS --start":        "1841 1842 1843 1844",
		"berth.results.lab.1840": "1840",
		"lab.1842.17":            "1842",
		"consumer add":           "",
		"consumer next":          "1840 1841 1842",
	}
	for _, command := range commands(t) {
		key := keyOf(want, command)
		if key == "" {
			t.Errorf("README.md has a command this test knows nothing of: %s", command)
			continue
		}
		if strings.HasPrefix(command, "nats sub") { // it would follow for ever
			command += fmt.Sprintf(" --count %d", len(strings.Fields(want[key])))
		}
		out := program{argv: []string{sh, "-c"}, url: url}.run(t, command)
		if got := numbers(out); got != want[key] {
			t.Errorf("%s\nshowed jobs %q, want %q:\n%s", command, got, want[key], strings.Join(out, "\n"))
		}
		delete(want, key)
	}
	for key := range want {
		t.Errorf("README.md has no command with %s", key)
	}
}

func keyOf(known map[string]string, command string) string {
	for key := range known {
		if strings.Contains(command, key) {
			return key
		}
	}
	return ""
}

// commands are the lines of README.md that call nats.
func commands(t *testing.T) []string {
	t.Helper()
	f, err := os.Open("README.md")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var out []string
	for scan := bufio.NewScanner(f); scan.Scan(); {
		if strings.HasPrefix(scan.Text(), "nats ") {
			out = append(out, scan.Text())
		}
	}
	return out
}

// numbers are the job numbers of the results, and the kinds of the events, among what was printed.
func numbers(printed []string) string {
	var out []string
	for _, l := range printed {
		var r job.Result
		var e queue.Event
		switch {
		case json.Unmarshal([]byte(l), &r) == nil && r.Number > 0:
			out = append(out, fmt.Sprint(r.Number))
		case json.Unmarshal([]byte(l), &e) == nil && e.Kind != "":
			out = append(out, e.Kind)
		}
	}
	return strings.Join(out, " ")
}

func findProgram(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		notRun(t, "there is no %s in PATH", name)
	}
	return path
}

// notRun skips, aloud.
func notRun(t *testing.T, format string, args ...any) {
	t.Helper()
	text := fmt.Sprintf("NOT RUN: %s: %s", t.Name(), fmt.Sprintf(format, args...))
	fmt.Fprintln(os.Stderr, text)
	t.Skip(text)
}
