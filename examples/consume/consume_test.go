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

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/natsembed/natstest"
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

// broker has the results in its stream; middle is a time between the third and the fourth.
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

func (p program) run(t *testing.T, options ...string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	argv := append(append([]string{}, p.argv...), options...)
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "BERTH_SERVER="+p.url, "BERTH_TOKEN="+token, "NATS_URL="+p.url, "NATS_TOKEN="+token,
		"XDG_CONFIG_HOME="+t.TempDir())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(argv, " "), err, out, stderr.String())
	}
	return strings.Split(strings.TrimRight(string(out), "\n"), "\n")
}

// readsAll is what every program must do.
func readsAll(t *testing.T, p program, middle time.Time) {
	t.Helper()
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
	} {
		got := p.run(t, append([]string{"--once"}, c.options...)...)
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%s: printed\n%s\nwant\n%s", c.name, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
		}
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

// The commands of README.md, as they stand there.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	sh := findProgram(t, "sh")
	findProgram(t, "nats")
	url, _ := broker(t)
	want := map[string]string{
		"--all":                  "1840 1841 1842 1843 1844",
		"--since":                "1840 1841 1842 1843 1844",
		"--start-sequence":       "1841 1842 1843 1844",
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

// numbers are the job numbers of the JSON lines among what was printed.
func numbers(printed []string) string {
	var out []string
	for _, l := range printed {
		var r job.Result
		if json.Unmarshal([]byte(l), &r) == nil && r.Number > 0 {
			out = append(out, fmt.Sprint(r.Number))
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
