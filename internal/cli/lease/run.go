package lease

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/exit"
	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/job"
)

// NewRun is `berth run`.
func NewRun(g *cli.Globals) *cobra.Command {
	var w *wish
	cmd := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARG...]",
		Short: "lease GPUs, run a command here on them, give them back",
		Long: "Wait for GPUs of this machine, then become the command: with the GPUs in CUDA_VISIBLE_DEVICES, on this terminal, under\n" +
			"this process's number. Signals reach it and its exit code is yours because nothing stands in between. The GPUs are given\n" +
			"back when the process ends, whatever ends it. {{.GPUIndex}} and {{.GPUUUID}} in the command are the GPUs.",
		Example: "  berth run -- python train.py\n  berth run -g 2 -m 20Gi --wait 10m -- torchrun --nproc-per-node 2 train.py\n" +
			"  berth run -- kct-krylov -p 0:{{.GPUIndex}} scan.json",
		Args: cli.Takes(1, -1, "a COMMAND"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := g.Env().Interruptible(cmd.Context())
			defer stop()
			return run(ctx, g, w, args)
		},
	}
	w = bindWish(cmd.Flags())
	cmd.Flags().SetInterspersed(false) // what follows the first word belongs to the command
	return cmd
}

// The exit codes of a command that cannot be run, as shells have them.
const (
	cannotExecute = 126
	notFound      = 127
)

// run becomes the command. The lease names this very process, and exec keeps its number and its start time: the
// worker sees the process end however it ends, and nobody has to be left to give the GPUs back.
func run(ctx context.Context, g *cli.Globals, w *wish, args []string) error {
	path, err := exec.LookPath(args[0])
	if err != nil && !errors.Is(err, exec.ErrDot) {
		return notRunnable(args[0], err)
	}
	w.pid = os.Getpid()
	if err := w.check(g.Env()); err != nil {
		return err
	}
	q, done, err := cli.Dial(ctx, g)
	if err != nil {
		return err
	}
	got, err := w.obtain(ctx, g, q)
	if err != nil {
		done()
		return err
	}
	argv, err := words(got).fill(args)
	if err == nil {
		err = ctx.Err() // the last moment at which Ctrl-C is ours
	}
	if err == nil {
		if g.Console().TTY || g.Verbose {
			g.Say("berth: lease %s, GPU %s of %s", got.ref(), got.indexes(), screen.Safe(got.Machine))
		}
		err = notRunnable(args[0], syscall.Exec(path, argv, environ(g.Env().Environ, got)))
	}
	defer done()
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	_, releaseErr := q.ReleaseLease(last, got.ref(), cli.Me(g.Env()).User, "the command did not start", false)
	return errors.Join(err, releaseErr)
}

// notRunnable gives what kept a command from starting the exit code a shell would give it.
func notRunnable(name string, err error) error {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return exit.Errorf(notFound, "%s: command not found", name)
	}
	return exit.Errorf(cannotExecute, "%s cannot be run: %w", name, err)
}

// words are what {{.Word}} in the command stands for.
type words grant

func (w words) fill(args []string) ([]string, error) {
	argv, err := job.Command(args).Render(map[string]string{
		"GPUUUID": grant(w).uuids(), "GPUIndex": grant(w).indexes(), "JobID": grant(w).ref().String(), "Attempt": "1",
	})
	if err != nil {
		return nil, exit.With(exit.Usage, err)
	}
	return argv, nil
}

// environ is the caller's environment with the GPUs in it, by UUID.
func environ(base []string, got grant) []string {
	set := map[string]string{
		"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": got.uuids(), "NVIDIA_VISIBLE_DEVICES": got.uuids(),
		"BERTH_JOB_ID": got.ref().String(), "BERTH_GPUS": got.uuids(), "BERTH_GPU_INDICES": got.indexes(),
	}
	var env []string
	for _, kv := range base {
		if name, _, _ := strings.Cut(kv, "="); set[name] == "" {
			env = append(env, kv)
		}
	}
	for name, value := range set {
		env = append(env, name+"="+value)
	}
	return env
}
