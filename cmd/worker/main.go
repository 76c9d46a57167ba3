// Command worker runs jobs on this machine.
package main

import (
	"context"
	"os"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/worker"
	_ "github.com/berthq/berth/runner/shim" // this binary is also the shim that holds a run
)

func main() {
	env := cli.System()
	os.Exit(cli.Execute(context.Background(), worker.Root(env), env))
}
