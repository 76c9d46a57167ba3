package demo_test

import (
	"bytes"
	"context"
	"os"
	"regexp"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/demo"
	_ "github.com/berthq/berth/runner/shim" // the demonstration's shims are this binary
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The demonstration ends by itself, well, and leaves nothing behind.
func TestRun(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	var out bytes.Buffer
	env := cli.Env{
		Stdin: bytes.NewReader(nil), Stdout: &out, Stderr: &out, Now: time.Now, Dir: "/", User: "ada", Host: "here",
		Environ: []string{"PATH=" + os.Getenv("PATH"), "BERTH_SERVER=nats://127.0.0.1:1", "BERTH_TOKEN=of-another"},
		Notify:  func(chan<- os.Signal, ...os.Signal) {},
	}
	if err := demo.Run(context.Background(), env); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{
		`NVML finds`, `(?m)^\$ berth up --gpu-source (nvml|sim:2x24Gi)$`, `(?m)^hello from .*, job 1$`, `GPU UUID: +GPU-`,
		`(?m)^3\.6 task 6: 36$`, `(?m)^epoch 12/12  loss`, `values, step 3 of 3 on GPU`, `job 5 training  succeeded`, `GPU \d .*mean \d+ %`,
		`"state":"succeeded"`, `"output":\{"epochs":12,"loss":0.1145\}`,
	} {
		if !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("nothing in it matches %s", want)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
	left, err := os.ReadDir(os.Getenv("TMPDIR"))
	if err != nil || len(left) > 0 {
		t.Errorf("left behind: %v %v", left, err)
	}
}
