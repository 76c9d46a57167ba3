package shim

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"unsafe"

	"github.com/berthq/berth/runner/proc"
)

// init takes the process over when it was started as a shim.
func init() {
	if len(os.Args) < 2 || os.Args[0] != Arg0 {
		return
	}
	code := 0
	if os.Args[1] != ArgProbe {
		if err := main(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	syscall.Exit(code) // what is to be written has been; os.Exit would do what is meant for the rest of the binary
}

// main gets everything ready, waits for the order, starts the run, reports, and stays until the run is over.
func main() error {
	proc.CloseOnExec(3) // descriptor 3 is the lock of the run's folder
	proc.SetName(Arg0)
	s, err := newSupervisor()
	if err != nil {
		return err
	}
	if strings.HasPrefix(os.Args[1], ArgSpare) {
		_ = json.Unmarshal([]byte("{}"), &s.order) // so that the decoder is built before it is needed
		slim()
	}
	switch s.order, err = receive(); {
	case errors.Is(err, io.EOF):
		return s.retire()
	case err != nil:
		return err
	}
	if err := s.start(); err != nil {
		return report(refused(err))
	}
	reported := report(Report{State: &s.state})
	if err := s.settle(); err != nil {
		s.warn(err.Error())
	}
	if reported != nil {
		fmt.Fprintln(os.Stderr, "nobody listens to the report:", reported) // the worker died meanwhile; another adopts the run
	}
	slim()
	return s.supervise()
}

// receive reads the order up to its end, and takes the descriptors that come with its first bytes: the locks, which
// this process holds from then on and never touches.
func receive() (Order, error) {
	var order Order
	buf, oob := make([]byte, 64<<10), make([]byte, 4<<10)
	n, _, _, _, err := syscall.Recvmsg(0, buf, oob, syscall.MSG_CMSG_CLOEXEC)
	for errors.Is(err, syscall.EINTR) {
		n, _, _, _, err = syscall.Recvmsg(0, buf, oob, syscall.MSG_CMSG_CLOEXEC)
	}
	if err != nil {
		return order, os.NewSyscallError("recvmsg", err)
	}
	if n == 0 {
		return order, io.EOF
	}
	rest, err := io.ReadAll(os.Stdin)
	if err != nil {
		return order, err
	}
	if err := json.Unmarshal(append(buf[:n], rest...), &order); err != nil {
		return order, fmt.Errorf("half an order: %w", err) // the worker died while it gave it
	}
	return order, nil
}

// retitle changes what ps shows: os.Args lies where the kernel reads a process's arguments.
func retitle(title string) {
	room := unsafe.Slice(unsafe.StringData(os.Args[1]), len(os.Args[1]))
	copy(room, title+Title)
}

func refused(err error) Report {
	if r, ok := err.(refusal); ok { //nolint:errorlint // start returns it as it is
		return Report{Code: r.code, Reason: r.reason}
	}
	return Report{Reason: err.Error()}
}

func report(r Report) error {
	defer os.Stdin.Close()
	return json.NewEncoder(os.Stdin).Encode(r)
}
