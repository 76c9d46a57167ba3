package client_test

import (
	"context"
	"fmt"

	"github.com/berthq/berth/client"
	"github.com/berthq/berth/job"
)

// A job from submit to its result. In a program c comes from
// client.Connect(ctx, client.Options{Server: …, Token: …, User: "pipeline"}), or with the options of
// client.FromEnv(os.Environ()).
func Example() {
	withSite(func(ctx context.Context, c *client.Client) error {
		spec := job.Spec{
			Name: "segment", Command: job.Command{"sh", "-c", `echo '{"dice": 0.93}' > "$BERTH_RESULT_FILE"`},
			Workdir:   "/", // of the machine that runs it
			Resources: job.Resources{GPUs: job.CountOf(1)}, IdempotencyKey: "scan-17",
		}
		receipt, err := c.Submit(ctx, spec)
		if err != nil {
			return err
		}
		again, err := c.Submit(ctx, spec) // a program that crashed here, and was started again
		if err != nil {
			return err
		}
		result, err := c.Wait(ctx, client.Job(receipt.Number))
		if err != nil {
			return err
		}
		fmt.Println("the same job:", again.Number == receipt.Number, again.Duplicate)
		fmt.Println(result.Name, result.State, "on GPU", result.GPUInfo.DeviceIDs, "of", result.Machine, string(result.Output))
		return nil
	})
	// Output:
	// the same job: true true
	// segment succeeded on GPU [0] of gpu07 {"dice":0.93}
}

// A reader that is started again goes on behind the last result it has worked on.
func ExampleClient_Results() {
	withSite(func(ctx context.Context, c *client.Client) error {
		for _, word := range []string{"true", "false", "true"} {
			receipt, err := c.Submit(ctx, job.Spec{Name: word, Command: job.Command{word}, Workdir: "/"})
			if err != nil {
				return err
			}
			if _, err := c.Wait(ctx, client.Job(receipt.Number)); err != nil {
				return err
			}
		}
		var seen uint64 // kept where the work is kept
		for r, err := range c.Results(ctx, client.ResultQuery{Project: "lab", Follow: true}) {
			if err != nil {
				return err
			}
			fmt.Println("first:", r.Value.Number, r.Value.State)
			seen = r.Seq
			break
		}
		for r, err := range c.Results(ctx, client.ResultQuery{Project: "lab", From: seen + 1}) {
			if err != nil {
				return err
			}
			fmt.Println("later:", r.Value.Number, r.Value.State)
		}
		return nil
	})
	// Output:
	// first: 1 succeeded
	// later: 2 failed
	// later: 3 succeeded
}

// Who did what: here this program, which cancels its job.
func ExampleClient_Events() {
	withSite(func(ctx context.Context, c *client.Client) error {
		receipt, err := c.Submit(ctx, job.Spec{Command: job.Command{"sleep", "600"}, Workdir: "/"})
		if err != nil {
			return err
		}
		if _, err := c.Cancel(ctx, client.Job(receipt.Number), "wrong data"); err != nil {
			return err
		}
		result, err := c.Wait(ctx, client.Job(receipt.Number))
		if err != nil {
			return err
		}
		for e, err := range c.Events(ctx, client.EventQuery{Kind: "cancel", Follow: true}) {
			if err != nil {
				return err
			}
			fmt.Println(e.Value.By, e.Value.Kind, e.Value.Job, e.Value.Text)
			break
		}
		fmt.Println(result.State)
		return nil
	})
	// Output:
	// pipeline cancel 1 wrong data
	// cancelled
}
