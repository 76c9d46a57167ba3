// Command pages writes what a release holds beside the programs: pages FOLDER VERSION UNIX-TIME. Part of make release.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/berthq/berth/internal/release"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "pages:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 3 {
		return errors.New("usage: pages FOLDER VERSION UNIX-TIME")
	}
	made, err := strconv.ParseInt(args[2], 10, 64)
	if err != nil {
		return fmt.Errorf("the time: %w", err)
	}
	return release.Write(args[0], args[1], time.Unix(made, 0))
}
