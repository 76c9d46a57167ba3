package shim

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/runner/spool"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The shim is initialised before the heavy packages of its binary only as long as it needs none of them.
func TestStartsLight(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	deps := strings.Fields(string(out))
	for _, heavy := range []string{"net", "path/filepath", "os/exec", "regexp", "log/slog", "crypto/rand", "golang.org/x/sys/unix", "github.com/berthq/berth/job"} {
		if slices.Contains(deps, heavy) {
			t.Errorf("the shim imports %s", heavy)
		}
	}
	for _, d := range deps {
		if strings.Contains(d, ".") && !strings.HasPrefix(d, "github.com/berthq/berth/runner/") {
			t.Errorf("the shim imports %s", d)
		}
	}
}

// caught feeds a pipe to a catcher and returns the frames it made.
func caught(t *testing.T, feed func(w *os.File)) []spool.Frame {
	t.Helper()
	dir := t.TempDir()
	log, err := spool.Create(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		feed(w)
		w.Close()
	}()
	(&catcher{stream: spool.Stdout, pipe: r, log: log}).run()
	r.Close()
	if _, _, err := log.Close(); err != nil {
		t.Fatal(err)
	}
	reader := spool.NewReader(dir, 0)
	defer reader.Close()
	var frames []spool.Frame
	for {
		f, err := reader.Next(true)
		if errors.Is(err, io.EOF) {
			return frames
		}
		if err != nil {
			t.Fatal(err)
		}
		f.Data = bytes.Clone(f.Data)
		frames = append(frames, f)
	}
}

func TestCatchWholeLines(t *testing.T) {
	t.Parallel()
	var sent bytes.Buffer
	frames := caught(t, func(w *os.File) {
		for i := range 3000 {
			line := strings.Repeat("z", i%300) + "\n"
			sent.WriteString(line)
			for piece := range strings.SplitAfterSeq(line, "zzzzzzz") {
				_, _ = w.WriteString(piece)
			}
		}
	})
	var got bytes.Buffer
	for i, f := range frames {
		got.Write(f.Data)
		if whole := bytes.HasSuffix(f.Data, []byte{'\n'}); whole == f.Partial {
			t.Fatalf("frame %d of %d ends with %q and is partial: %v", i, len(frames), f.Data[len(f.Data)-1:], f.Partial)
		}
	}
	if !bytes.Equal(got.Bytes(), sent.Bytes()) {
		t.Errorf("%d bytes caught, %d sent", got.Len(), sent.Len())
	}
}

// A progress bar never ends its line. It is cut between two of its steps, not within one.
func TestCatchProgressBar(t *testing.T) {
	t.Parallel()
	const step = "\r 42%|████      | 42/100 [00:10<00:14]"
	frames := caught(t, func(w *os.File) { _, _ = w.WriteString(strings.Repeat(step, 10_000)) })
	var got strings.Builder
	for i, f := range frames {
		got.Write(f.Data)
		if full := len(f.Data) > spool.MaxData/2; full && i+1 < len(frames) && !bytes.HasSuffix(f.Data, []byte{'\r'}) {
			t.Errorf("frame %d is cut at %q", i, f.Data[len(f.Data)-20:])
		}
	}
	if got.String() != strings.Repeat(step, 10_000) {
		t.Errorf("%d bytes caught", got.Len())
	}
}

// The start of a line is shown after a moment, though its end is far.
func TestCatchSlowLine(t *testing.T) {
	t.Parallel()
	frames := caught(t, func(w *os.File) {
		_, _ = w.WriteString("whole\nloading ")
		time.Sleep(3 * patience)
		_, _ = w.WriteString("done\n")
	})
	var parts []string
	for _, f := range frames {
		parts = append(parts, string(f.Data))
	}
	if len(parts) != 3 || parts[1] != "loading " || !frames[1].Partial || parts[2] != "done\n" {
		t.Errorf("got %q", parts)
	}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, d := range []string{"/a", "/b"} {
		if err := os.Mkdir(dir+d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for name, mode := range map[string]os.FileMode{"/a/plain": 0o644, "/b/plain": 0o755, "/b/only": 0o755, "/here": 0o755, "/a/blocked": 0o644} {
		if err := os.WriteFile(dir+name, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"PATH=/nowhere", "PATH=" + dir + "/a:" + dir + "/b:"}
	for name, want := range map[string]string{
		"plain": dir + "/b/plain", "only": dir + "/b/only", "here": dir + "/" + "/here", "./here": dir + "/./here", "b/only": dir + "/b/only", dir + "/here": dir + "/here",
	} {
		got, err := resolve(name, dir, env)
		if err != nil || got != want {
			t.Errorf("%s is %q (%v), want %q", name, got, err, want)
		}
	}
	for name, code := range map[string]int{"gone": notFound, "./gone": notFound, "blocked": cannotExecute, "./a": cannotExecute, "here/x": notFound} {
		_, err := resolve(name, dir, env)
		if r, ok := err.(refusal); !ok || r.code != code { //nolint:errorlint // resolve returns it as it is
			t.Errorf("%s: %v, want code %d", name, err, code)
		}
	}
}

// What is not understood changes nothing: a newer worker may have said it.
func FuzzObey(f *testing.F) {
	for _, line := range []string{"extend 5", "limit -1", "stop cancelled 0 why", "stop", "", "extend x", "hello 1 2 3\n"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		s := &supervisor{plan: newPlan(Order{Grace: time.Second}, 1), warned: map[string]bool{}}
		before := *s.plan
		s.obey(line)
		verb, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if known := verb == "extend" || verb == "limit" || verb == "stop"; !known && *s.plan != before {
			t.Errorf("%q changed the plan", line)
		}
	})
}
