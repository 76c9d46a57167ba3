package shim

import (
	"encoding/json"
	"fmt"
	"os"
	"syscall"

	"github.com/berthq/berth/runner/proc"
)

// ProbeArg instead of a folder makes the process end at once: a cgroup can be tried with it.
const ProbeArg = "--probe"

// init takes the process over when it was started as a shim: os.Args is Arg0, the run's folder, the run's id (for ps).
func init() {
	if len(os.Args) < 2 || os.Args[0] != Arg0 {
		return
	}
	code := 0
	if os.Args[1] != ProbeArg {
		if err := main(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	syscall.Exit(code) // what is to be written has been; os.Exit would do what is meant for the rest of the binary
}

// main starts the run it is ordered on stdin, reports on stdout, and stays until it is over.
func main(dir string) error {
	proc.CloseOnExec(3) // the locks are for the shim alone
	proc.SetName(Arg0)
	if err := os.Chdir(dir); err != nil {
		return report(Report{Reason: err.Error()})
	}
	var order Order
	if err := json.NewDecoder(os.Stdin).Decode(&order); err != nil {
		return fmt.Errorf("no order: %w", err) // the worker died while it gave it
	}
	os.Stdin.Close()
	s, err := start(order)
	if err != nil {
		return report(refused(err))
	}
	if err := report(Report{State: &s.state}); err != nil {
		fmt.Fprintln(os.Stderr, "nobody listens to the report:", err) // the worker died meanwhile; another adopts the run
	}
	s.order.Env = nil
	slim()
	return s.supervise()
}

func refused(err error) Report {
	if r, ok := err.(refusal); ok { //nolint:errorlint // start returns it as it is
		return Report{Code: r.code, Reason: r.reason}
	}
	return Report{Reason: err.Error()}
}

func report(r Report) error {
	defer os.Stdout.Close()
	return json.NewEncoder(os.Stdout).Encode(r)
}
