package cli_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/spf13/cobra"
)

// fleet is a small command with everything that can go wrong in one.
func fleet(env cli.Env) *cobra.Command {
	root := &cobra.Command{Use: "berth", Short: "test"}
	cli.Verbs(root)
	cli.Reserve(root, cli.Reserved{Verbs: []string{"lease"}, Flags: []string{"demo"}, Short: "z"})
	cli.NewGlobals(root, env)
	show := &cobra.Command{Use: "show ID", Short: "show", Args: cli.Takes(1, 1, "an ID"), RunE: func(*cobra.Command, []string) error {
		return fmt.Errorf("show: %w", exit.Errorf(exit.Broker, "no broker at \x1b[31mnats://x").Hinted("start one: berth up"))
	}}
	show.Flags().Int("tasks", 3, "")
	quiet := &cobra.Command{Use: "code", RunE: func(*cobra.Command, []string) error { return exit.Silent(33) }}
	stop := &cobra.Command{Use: "stop", RunE: func(*cobra.Command, []string) error { return fmt.Errorf("waiting: %w", context.Canceled) }}
	plain := &cobra.Command{Use: "plain", Args: cli.Takes(0, 0, ""), RunE: func(*cobra.Command, []string) error { return errors.New("first\nsecond") }}
	root.AddCommand(show, quiet, stop, plain)
	return root
}

func run(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	env := cli.Env{Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}
	code = cli.Execute(context.Background(), fleet(env), env)
	return code, out.String(), errs.String()
}

func TestErrorsAreSentences(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args   string
		code   int
		stderr string
	}{
		{"shwo 7", 2, "berth: berth has no verb \"shwo\"\n  did you mean berth show?\n"},
		{"qqqqqq", 2, "berth: berth has no verb \"qqqqqq\"\n  see berth --help\n"},
		{"lease get", 2, "berth: berth lease is not in this version yet\n"},
		{"--demo", 2, "berth: berth --demo is not in this version yet\n"},
		{"-z", 2, "berth: berth -z is not in this version yet\n"},
		{"show --task 3 7", 2, "berth: berth show has no flag --task\n  did you mean --tasks?\n"},
		{"show -k", 2, "berth: berth show has no flag -k\n  see berth show --help\n"},
		{"show --tasks", 2, "berth: --tasks needs a value\n  see berth show --help\n"},
		{"show --tasks x 7", 2, "berth: --tasks \"x\": want a whole number\n"},
		{"show -o yaml 7", 2, "berth: --output \"yaml\": the forms are table, wide, json, jsonl, csv, name\n"},
		{"show", 2, "berth: berth show needs an ID\n  berth show ID [flags]\n"},
		{"show 7 8", 2, "berth: berth show takes an ID and no more, not \"8\"\n  berth show ID [flags]\n"},
		{"plain x", 2, "berth: berth plain takes no argument, not \"x\"\n  berth plain [flags]\n"},
		{"show 7", 3, "berth: show: no broker at \\x1b[31mnats://x\n  start one: berth up\n"},
		{"code", 33, ""},
		{"stop", 130, "berth: interrupted\n"},
		{"plain", 1, "berth: first\nsecond\n"},
	} {
		code, stdout, stderr := run(strings.Fields(c.args)...)
		if code != c.code || stderr != c.stderr || stdout != "" {
			t.Errorf("berth %s: exit %d, stdout %q, stderr %q\nwant exit %d, stderr %q", c.args, code, stdout, stderr, c.code, c.stderr)
		}
	}
}

func TestHelpKeepsReservedNamesOut(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{nil, {"--help"}} {
		code, stdout, stderr := run(args...)
		if code != 0 || stderr != "" || !strings.Contains(stdout, "show") {
			t.Errorf("berth %v: exit %d, stderr %q, stdout:\n%s", args, code, stderr, stdout)
		}
		if strings.Contains(stdout, "lease") || strings.Contains(stdout, "demo") {
			t.Errorf("help names what is not built:\n%s", stdout)
		}
	}
}

func TestGetenv(t *testing.T) {
	t.Parallel()
	env := cli.Env{Environ: []string{"A=1", "B=", "A=2", "broken"}}
	if got := env.Getenv("A"); got != "2" {
		t.Errorf("A = %q, want the last setting", got)
	}
	if _, found := env.LookupEnv("B"); !found {
		t.Error("an empty variable counts as unset")
	}
	if _, found := env.LookupEnv("C"); found {
		t.Error("C is set")
	}
}

func TestInterruptible(t *testing.T) {
	t.Parallel()
	given := make(chan chan<- os.Signal, 1)
	env := cli.Env{Notify: func(c chan<- os.Signal, _ ...os.Signal) { given <- c }}
	ctx, stop := env.Interruptible(context.Background())
	defer stop()
	(<-given) <- syscall.SIGINT
	<-ctx.Done()
	if !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("ctx ended with %v", ctx.Err())
	}
}

// A command is a value: it runs in a test as it does in a main.
func ExampleExecute() {
	env := cli.Env{Args: []string{"lease", "get"}, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stdout}
	fmt.Println(cli.Execute(context.Background(), fleet(env), env))
	// Output:
	// berth: berth lease is not in this version yet
	// 2
}
