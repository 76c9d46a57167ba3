package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/job"
)

// Execute runs a command and gives its exit code. What went wrong is said once, here, on standard error.
func Execute(ctx context.Context, root *cobra.Command, env Env) int {
	root.SetArgs(env.Args)
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetFlagErrorFunc(flagError)
	_, err := root.ExecuteContextC(ctx)
	tell(env, root.Name(), err)
	return exit.Of(err)
}

func tell(env Env, program string, err error) {
	var silent exit.Silent
	if err == nil || errors.As(err, &silent) {
		return
	}
	text := err.Error()
	if errors.Is(err, context.Canceled) && exit.Of(err) == exit.Interrupted {
		text = "interrupted"
	}
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		if i == 0 && !isLocated(err) {
			line = program + ": " + line
		}
		fmt.Fprintln(env.Stderr, screen.Safe(line))
	}
	var e *exit.Error
	if errors.As(err, &e) && e.Hint != "" {
		fmt.Fprintln(env.Stderr, "  "+screen.Safe(e.Hint))
	}
}

// isLocated reports whether err's lines begin with "file:line:column:", as editors want them.
func isLocated(err error) bool {
	problems := job.Problems(err)
	return len(problems) > 0 && problems[0].File != ""
}

// flagError says what pflag found in an operator's words.
func flagError(cmd *cobra.Command, err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		return err
	}
	var unknown *pflag.NotExistError
	var noValue *pflag.ValueRequiredError
	var bad *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		return unknownFlag(cmd, unknown)
	case errors.As(err, &noValue):
		return exit.Errorf(exit.Usage, "%s needs a value", dashed(noValue.GetSpecifiedName())).Hinted("see %s --help", cmd.CommandPath())
	case errors.As(err, &bad):
		return exit.Errorf(exit.Usage, "--%s %q: %w", bad.GetFlag().Name, bad.GetValue(), plainly(bad.Unwrap()))
	}
	return exit.With(exit.Usage, err)
}

// plainly says a parser's complaint in an operator's words.
func plainly(err error) error {
	if number := (*strconv.NumError)(nil); errors.As(err, &number) {
		return errors.New("want a whole number")
	}
	return err
}

func unknownFlag(cmd *cobra.Command, unknown *pflag.NotExistError) error {
	name := unknown.GetSpecifiedName()
	if isReserved(cmd, reservedFlags, name) {
		return notYet(cmd, dashed(name))
	}
	e := exit.Errorf(exit.Usage, "%s has no flag %s", cmd.CommandPath(), dashed(name))
	if near, ok := job.Nearest(name, flagNames(cmd)); ok && len(name) > 1 {
		return e.Hinted("did you mean --%s?", near)
	}
	return e.Hinted("see %s --help", cmd.CommandPath())
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

func flagNames(cmd *cobra.Command) []string {
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return names
}

// Verbs makes cmd a command that only holds others: alone it prints its help, an unknown verb is refused with the
// nearest one.
func Verbs(cmd *cobra.Command) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return UnknownVerb(cmd, args[0])
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
}

// UnknownVerb is the error for a word that is no verb of cmd.
func UnknownVerb(cmd *cobra.Command, verb string) error {
	if isReserved(cmd, reservedVerbs, verb) {
		return notYet(cmd, verb)
	}
	e := exit.Errorf(exit.Usage, "%s has no verb %q", cmd.CommandPath(), verb)
	var known []string
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			known = append(known, c.Name())
		}
	}
	if near, ok := job.Nearest(verb, known); ok {
		return e.Hinted("did you mean %s %s?", cmd.CommandPath(), near)
	}
	return e.Hinted("see %s --help", cmd.CommandPath())
}

// Takes checks the number of arguments: names says what they are ("ID"), most < 0 allows any number.
func Takes(least, most int, names string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return exit.Errorf(exit.Usage, "%s needs %s", cmd.CommandPath(), names).Hinted("%s", cmd.UseLine())
		case most == 0 && len(args) > 0:
			return exit.Errorf(exit.Usage, "%s takes no argument, not %q", cmd.CommandPath(), args[0]).Hinted("%s", cmd.UseLine())
		case most >= 0 && len(args) > most:
			return exit.Errorf(exit.Usage, "%s takes %s and no more, not %q", cmd.CommandPath(), names, args[most]).Hinted("%s", cmd.UseLine())
		}
		return nil
	}
}
