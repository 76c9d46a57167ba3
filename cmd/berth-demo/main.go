// Command berth-demo shows a whole Berth in half a minute: `make demo`.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/demo"
	_ "github.com/berthq/berth/runner/shim" // the demonstration's worker runs jobs: this binary is also their shim
)

func main() {
	if err := demo.Run(context.Background(), cli.System()); err != nil {
		fmt.Fprintln(os.Stderr, "berth-demo:", err)
		os.Exit(1)
	}
}
