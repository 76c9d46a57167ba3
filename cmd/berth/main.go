// Command berth is the operator's: it starts a broker and a worker, shows the queue and acts on it.
package main

import (
	"context"
	"os"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/operator"
	"github.com/berthq/berth/runner/container"
	_ "github.com/berthq/berth/runner/shim" // `berth up` and `berth worker` run jobs: this binary is also their shim
)

func main() {
	container.Take() // a run in a container has this binary beside it
	env := cli.System()
	os.Exit(cli.Execute(context.Background(), operator.Root(env), env))
}
