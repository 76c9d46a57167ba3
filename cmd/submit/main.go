// Command submit queues jobs. It links neither a broker nor a GPU library.
package main

import (
	"context"
	"os"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/submit"
)

func main() {
	env := cli.System()
	os.Exit(cli.Execute(context.Background(), submit.Root(env), env))
}
