package runner

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// afterLimit is how long what a run has outside of its processes may take to go.
const afterLimit = time.Minute

// after runs a run's last command when its shim, whose business it is, was killed.
func after(command []string) error {
	if len(command) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), afterLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = []string{}
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("what the run has outside of its processes may be left: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return nil
}
