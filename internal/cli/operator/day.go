package operator

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/worker"
	"github.com/berthq/berth/queue"
)

//go:embed day.yaml
var dayMachine []byte

const (
	dayName    = "demo"
	dayPause   = 20 * time.Second // between two rounds of the day
	dayDrained = 8 * time.Second
)

// daySpecs are a day's jobs; their command lines carry the names by which the simulated cards know them.
var daySpecs = []struct {
	user, spec string
}{
	{"ada", `
name: train-segmentation
command: [bash, -c, 'for i in $(seq 1 12); do echo "day-train epoch $i of 12, loss 0.$((90 - i * 6))"; sleep 1; done']
project: vision
model: {id_or_path: unet-large}
resources: {gpus: 2, gpu_memory: 20Gi}`},
	{"ben", `
name: reconstruct
command: [bash, -c, 'echo "day-images slice $BERTH_ARRAY_INDEX"; sleep 2']
project: imaging
array: 1-24
resources: {gpus: 1, gpu_memory: 4Gi}`},
	{"cleo", `
name: throughput-sweep
command: [bash, -c, 'echo day-sweep batch {{.batch}} chunk {{.chunk}}; sleep 3; echo "{\"tokens_per_second\": $((900 + 75 * {{.batch}} - {{.batch}} * {{.batch}} + {{.chunk}} / 8))}" > "$BERTH_RESULT_FILE"']
project: serving
matrix: {batch: [1, 4, 8, 16, 32], chunk: [256, 512]}
resources: {gpus: 1, gpu_memory: 10Gi}`},
	{"cleo", `
name: finetune-too-big
command: [bash, -c, 'echo day-train attempt $BERTH_ATTEMPT; sleep 2; if [ "$BERTH_ATTEMPT" = 1 ]; then echo "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB" >&2; exit 1; fi; echo fits with the smaller batch']
project: serving
resources: {gpus: 1, gpu_memory: 16Gi}
retry: {retries: 1, on: [oom_gpu], backoff: {initial: 1s}}`},
	{"ada", `
name: "<b>markup</b> in a name"
command: [bash, -c, 'printf "\033[32mgreen\033[0m <script>not run</script>\n"; sleep 1']
project: vision`},
	{"ben", `
name: broken-config
command: [bash, -c, 'echo "config.yaml: no such file" >&2; exit 2']
project: imaging`},
}

// upDemo is berth up in a folder of its own, on simulated cards; nothing of it stays.
func upDemo(ctx context.Context, g *cli.Globals, f upFlags, settings *worker.Settings) (err error) {
	dir, err := os.MkdirTemp("", "berth-up-demo-")
	if err != nil {
		return fmt.Errorf("a folder for the demonstration: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	machine := filepath.Join(dir, "day.yaml")
	if err := os.WriteFile(machine, dayMachine, 0o600); err != nil {
		return err
	}
	env := g.Env()
	env.Environ = []string{}
	for _, kv := range g.Env().Environ {
		if !strings.HasPrefix(kv, "BERTH_") { // a Berth that this person uses already has no part in it
			env.Environ = append(env.Environ, kv)
		}
	}
	env.Environ = append(env.Environ, "XDG_CONFIG_HOME="+filepath.Join(dir, "config"), "XDG_STATE_HOME="+dir)
	w, _, err := settings.Load(env)
	if err != nil {
		return err
	}
	w.AllowRoot = true // its jobs are the day's, which this program brings
	w.Name, w.GPUSource, w.Store = dayName, "sim:"+machine, filepath.Join(dir, "worker")
	f.pages.demo = true
	return up(ctx, g.Within(env), f, stored{w, filepath.Join(dir, "broker")})
}

// playDay submits the day's jobs through the command submit, again and again, with a drain in between, until ctx ends.
func playDay(ctx context.Context, env cli.Env, q *queue.Queue, to queue.ConnectOptions) error {
	for ctx.Err() == nil {
		for _, d := range daySpecs {
			env.User = d.user
			if _, err := submitSpec(ctx, env, to, []byte(d.spec)); err != nil {
				return fmt.Errorf("a job of the day: %w", err)
			}
		}
		if err := untilQuiet(ctx, q); err != nil {
			return err
		}
		if err := q.Drain(ctx, dayName, "ops", "the made-up day: a look at the fans", 0); err != nil {
			return err
		}
		pause(ctx, dayDrained)
		if err := q.Undrain(ctx, dayName, "ops"); err != nil {
			return err
		}
		pause(ctx, dayPause)
	}
	return nil
}

// untilQuiet waits until nothing of the day waits or runs any more.
func untilQuiet(ctx context.Context, q *queue.Queue) error {
	for ctx.Err() == nil {
		pause(ctx, 2*time.Second)
		c, err := q.Counts(ctx)
		if err != nil {
			return err
		}
		if c.Queued == 0 && c.Running == 0 && c.Delayed == 0 {
			break
		}
	}
	return ctx.Err()
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}
