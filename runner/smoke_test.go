package runner_test

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/berthq/berth/runner"
	"github.com/berthq/berth/runner/fakerun"
)

func TestSmoke(t *testing.T) {
	r, err := runner.New(runner.Options{StoreDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	t.Log(r.Isolation())
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	t0 := time.Now()
	h, err := r.Start(ctx, runner.Run{ID: "1.1", Command: fakerun.Command("print=hello", "err=oops", "env", "exit=3"), Env: fakerun.Env("A=b"), Dir: "/"})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(time.Since(t0))
	lr := h.Log(0)
	defer lr.Close()
	for {
		f, err := lr.Next(ctx)
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d %s %q", f.Offset, f.Stream, f.Data)
	}
	e, err := h.Wait(ctx)
	t.Logf("%+v %v", e, err)
	t.Log(h.Release())
}
