package submit

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
)

// Root is the program submit.
func Root(env cli.Env) *cobra.Command {
	cmd := command()
	cmd.Version = cli.Version()
	build(cmd, cli.NewGlobals(cmd, env))
	return cmd
}

// New is `berth submit`: the same, under the global flags of its parent.
func New(g *cli.Globals) *cobra.Command {
	cmd := command()
	build(cmd, g)
	return cmd
}

func command() *cobra.Command {
	return &cobra.Command{
		Use:   "submit [flags] (-- COMMAND [ARG...] | -f SPEC | SCRIPT [ARG...])",
		Short: "queue a job, or many",
		Long: "Queue a job: a command after --, or the jobs of spec files. It runs in the folder it was submitted from, with the\n" +
			"PATH and Python environment of the caller, as soon as a machine has what it asks for. A script may say its flags\n" +
			"itself, in lines of #BERTH (or #SBATCH) at its head; those typed have the last word. Its text is part of the job:\n" +
			"what you change in it afterwards is for the next one.",
		Args: cobra.ArbitraryArgs,
		Example: "  submit -- python train.py --epochs 3\n" +
			"  submit -g 2 -m 20Gi -t 12h --follow -- torchrun --nproc_per_node 2 train.py\n" +
			"  submit -a 1-150 -g 1 -- ./reconstruct.sh            # $BERTH_ARRAY_INDEX tells the tasks apart\n" +
			"  submit -f job.yaml --dry-run\n" +
			"  submit -t 2h job.sh                                 # with #BERTH -g 2 -m 20Gi at its head",
	}
}

func build(cmd *cobra.Command, g *cli.Globals) {
	f := bind(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, stop := g.Env().Interruptible(cmd.Context())
		defer stop()
		return run(ctx, g, f, args, cmd.ArgsLenAtDash())
	}
	cmd.AddCommand(newValidate(g), newSchema(g), newInit(g))
}

func run(ctx context.Context, g *cli.Globals, f *flags, args []string, dash int) error {
	script, err := f.openScript(g.Env(), args, dash)
	if err != nil {
		return err
	}
	if script != nil {
		args, dash = script.command, 0
		for _, what := range script.unknown {
			g.Say("berth: left out, it means nothing here: %s", what)
		}
	}
	if err := f.check(); err != nil {
		return err
	}
	jobs, err := f.prepare(g.Env(), args, dash)
	if err != nil {
		return err
	}
	if f.follow && (len(jobs) > 1) {
		return exit.Errorf(exit.Usage, "--follow shows one job, here are %d", len(jobs)).Hinted("--wait waits for all of them")
	}
	all, err := newFamily(jobs)
	if err != nil {
		return err
	}
	if f.dryRun {
		return showDry(ctx, g, jobs)
	}
	return send(ctx, g, f, all)
}

// check finds flags that contradict each other.
func (f *flags) check() error {
	switch {
	case f.dryRun && (f.wait || f.follow):
		return exit.Errorf(exit.Usage, "--dry-run sends nothing, so there is nothing to wait for")
	case f.given("slots") && f.share == "exclusive":
		return exit.Errorf(exit.Usage, "--slots shares a GPU, --share exclusive does not").Hinted("--share shared --slots %d", f.slots)
	}
	if err := f.checkWhen(); err != nil {
		return err
	}
	return f.checkMany()
}

func newValidate(g *cli.Globals) *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use:     "validate -f SPEC",
		Short:   "check job specs, send nothing",
		Example: "  submit validate -f job.yaml",
		Args:    cli.Takes(0, 0, ""),
		RunE: func(*cobra.Command, []string) error {
			if len(f.files) == 0 {
				return exit.Errorf(exit.Usage, "validate what?").Hinted("submit validate -f SPEC.yaml")
			}
			jobs, err := f.prepare(g.Env(), nil, -1)
			if err != nil {
				return err
			}
			for _, p := range jobs {
				g.Say("%s: %s", p.file, fmt.Sprintf("ok, asks for %s", whole(p.job)))
			}
			return nil
		},
	}
	f.set = cmd.Flags()
	f.set.StringArrayVarP(&f.files, "file", "f", nil, "job spec `FILE`, YAML or JSON; - is standard input")
	return cmd
}
