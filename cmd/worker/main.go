// Command worker runs jobs on this machine.
package main

import (
	"context"
	"os"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/worker"
	"github.com/berthq/berth/runner/container"
	_ "github.com/berthq/berth/runner/shim" // this binary is also the shim that holds a run
)

func main() {
	container.Take() // a run in a container has this binary beside it
	env := cli.System()
	os.Exit(cli.Execute(context.Background(), worker.Root(env), env))
}
