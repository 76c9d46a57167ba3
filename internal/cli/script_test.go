package cli_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/submit"
)

// The binary under test is this one: scripts run it under the names of the commands.
func TestMain(m *testing.M) {
	testscript.Main(leakChecked{m}, map[string]func(){
		"submit": program(submit.Root),
	})
}

func program(root func(cli.Env) *cobra.Command) func() {
	return func() {
		env := cli.System()
		os.Exit(cli.Execute(context.Background(), root(env), env))
	}
}

// leakChecked fails the package when a test leaves a goroutine behind.
type leakChecked struct{ m *testing.M }

func (l leakChecked) Run() int {
	code := l.m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Fprintln(os.Stderr, "goleak:", err)
		return 1
	}
	return code
}

// TestScripts types what a user types: testdata/script/*.txt.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:   "testdata/script",
		Setup: setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits,
		},
	})
}

func setup(env *testscript.Env) error {
	env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "config"))
	env.Setenv("USER", "ada")
	return nil
}

// exits CODE PROGRAM [ARG...]: the program ends with that code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG...]")
	}
	err := ts.Exec(args[1], args[2:]...)
	if got := codeOf(err); fmt.Sprint(got) != args[0] {
		ts.Fatalf("%s ended with %d, want %s (%v)", args[1], got, args[0], err)
	}
}

func codeOf(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := err.(interface{ ExitCode() int }); ok {
		return e.ExitCode()
	}
	return -1
}
