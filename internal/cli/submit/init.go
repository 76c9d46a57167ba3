package submit

import (
	"embed"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/job"
)

// templates are the specs that submit init writes, one for each kind.
//
//go:embed templates/*.yaml
var templates embed.FS

// kinds of spec to start from.
var kinds = []string{"train", "docker", "llm", "array"}

func newInit(g *cli.Globals) *cobra.Command {
	var force bool
	cmd := &cobra.Command{
		Use:   "init train|docker|llm|array [FILE]",
		Short: "write a job spec to start from, with comments",
		Long: "Write a commented job spec: a training run, a command in an image, a sweep over how a language model is served, or\n" +
			"one command for many inputs. FILE is KIND.yaml in this folder unless named; - is standard output.",
		Example: "  submit init train\n  submit init llm sweep.yaml\n  submit init array - | less",
		Args:    cli.Takes(1, 2, "a kind, "+strings.Join(kinds, ", ")+", and a FILE"),
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return kinds, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveDefault
		},
		RunE: func(_ *cobra.Command, args []string) error {
			file := args[0] + ".yaml"
			if len(args) == 2 {
				file = args[1]
			}
			return writeTemplate(g, args[0], file, force)
		},
	}
	cmd.Flags().BoolVar(&force, "force", false, "write over a FILE that is there")
	return cmd
}

func writeTemplate(g *cli.Globals, kind, file string, force bool) error {
	if !slices.Contains(kinds, kind) {
		e := exit.Errorf(exit.Usage, "there is no spec %q to start from: the kinds are %s", kind, strings.Join(kinds, ", "))
		if near, ok := job.Nearest(kind, kinds); ok {
			return e.Hinted("did you mean submit init %s?", near)
		}
		return e
	}
	text, err := templates.ReadFile("templates/" + kind + ".yaml")
	if err != nil {
		return fmt.Errorf("the spec for %s is not in this program: %w", kind, err)
	}
	// The comments name the file that they stand in.
	text = []byte(strings.ReplaceAll(string(text), "-f "+kind+".yaml", "-f "+shellWord(file)))
	if file == "-" {
		_, err := g.Out().Write(text)
		return err
	}
	mode := os.O_CREATE | os.O_WRONLY | os.O_EXCL
	if force {
		mode = os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	}
	path := absolute(g.Env().Dir, file)
	out, err := os.OpenFile(path, mode, 0o666) //nolint:gosec // a spec is no secret: the umask decides
	if errors.Is(err, os.ErrExist) {
		return exit.Errorf(exit.Usage, "%s is there already", file).Hinted("name another file behind %s, or write over it: --force", kind)
	}
	if err != nil {
		return exit.Errorf(exit.Failed, "write the spec: %w", err)
	}
	_, err = out.Write(text)
	if err = errors.Join(err, out.Close()); err != nil {
		return exit.Errorf(exit.Failed, "write %s: %w", file, err)
	}
	g.Say("%s written; submit validate -f %s checks it, submit -f %s queues it", file, shellWord(file), shellWord(file))
	return nil
}

// shellWord is a word as one types it.
func shellWord(s string) string {
	if strings.ContainsAny(s, " \t\n'\"$`\\*?[]{}()<>|&;!#~") {
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	return s
}
