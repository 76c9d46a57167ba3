package checkup_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/checkup"
	"github.com/berthq/berth/internal/cli/exit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestClock(t *testing.T) {
	t.Parallel()
	for apart, want := range map[time.Duration]checkup.Verdict{
		0: checkup.Works, time.Second: checkup.Works, -time.Minute: checkup.Half, time.Hour: checkup.Half,
	} {
		if f := checkup.Clock("clock", "this machine's clock", apart); f.Verdict != want || (f.Do == "") != (want == checkup.Works) {
			t.Errorf("%s apart: %+v, want %s", apart, f, want)
		}
	}
}

func report(all []checkup.Finding, out *bytes.Buffer, args ...string) error {
	env := cli.Env{Stdin: &bytes.Buffer{}, Stdout: out, Stderr: os.Stderr, Args: args}
	cmd := &cobra.Command{Use: "x"}
	g := cli.NewGlobals(cmd, env)
	cmd.RunE = func(*cobra.Command, []string) error { return checkup.Report(g, all) }
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	return cmd.ExecuteContext(context.Background())
}

func TestReport(t *testing.T) {
	t.Parallel()
	all := []checkup.Finding{{What: "broker", Verdict: checkup.Works, Found: "answers"}, checkup.Bad("GPU 0", checkup.Half, "dirty\x1b[2J", "kill 7")}
	var out bytes.Buffer
	if err := report(all, &out); err != nil {
		t.Errorf("a warning is no failure: %v", err)
	}
	want := "ok       broker  answers\nwarning  GPU 0   dirty\\x1b[2J\n                 -> kill 7\n"
	if out.String() != want {
		t.Errorf("got\n%s, want\n%s", out.String(), want)
	}
	out.Reset()
	err := report(append(all, checkup.Bad("store", checkup.Fails, "is full", "")), &out, "-o", "name")
	var silent exit.Silent
	if !errors.As(err, &silent) || exit.Of(err) != exit.Failed || out.String() != "broker\nGPU-0\nstore\n" {
		t.Errorf("%v, %q", err, out.String())
	}
}

// What an examination finds, and what to do about it.
func ExampleReport() {
	var out bytes.Buffer
	_ = report([]checkup.Finding{checkup.Bad("clock", checkup.Half, "is 3m apart from the broker's", "use NTP")}, &out)
	_, _ = out.WriteTo(os.Stdout)
	// Output:
	// warning  clock  is 3m apart from the broker's
	//                 -> use NTP
}
