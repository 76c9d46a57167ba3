package shim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
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

// main gets everything ready, waits for the order and for the word to start, starts the run, reports, and stays until the
// run is over.
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
	var worker inbox
	switch s.order, err = worker.order(); {
	case errors.Is(err, io.EOF):
		return s.retire()
	case err != nil:
		return err
	}
	if err := s.ready(); err != nil {
		return report(refused(err))
	}
	switch s.order.Deadline, err = worker.word(); {
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

// inbox is what the worker says, in two lines: the order, and [Go] when the run may start. Between them the worker makes
// sure of its right to the job. A worker that falls silent for good, having died or thought better of it, has said no.
type inbox struct {
	unread []byte
}

// order reads the order and takes the descriptors that come with its first bytes: the locks, which this process holds
// from then on and never touches. io.EOF: there is none.
func (in *inbox) order() (Order, error) {
	var order Order
	buf, oob := make([]byte, 64<<10), make([]byte, 4<<10)
	n, _, _, _, err := syscall.Recvmsg(0, buf, oob, syscall.MSG_CMSG_CLOEXEC)
	for errors.Is(err, syscall.EINTR) {
		n, _, _, _, err = syscall.Recvmsg(0, buf, oob, syscall.MSG_CMSG_CLOEXEC)
	}
	if err != nil {
		return order, os.NewSyscallError("recvmsg", err)
	}
	in.unread = buf[:n]
	line, err := in.line()
	if err != nil {
		return order, err
	}
	if err := json.Unmarshal(line, &order); err != nil {
		return order, fmt.Errorf("the order: %w", err)
	}
	return order, nil
}

// word waits for the word to start, which says how long the worker's session lasts by then. io.EOF: it will not come.
func (in *inbox) word() (deadline time.Duration, err error) {
	line, err := in.line()
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(strings.TrimPrefix(string(line), Go+" "), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the word to start: %w", err)
	}
	return time.Duration(n), nil
}

// line is the next one. io.EOF: the worker has closed its end before the end of a line.
func (in *inbox) line() ([]byte, error) {
	for {
		if line, rest, whole := bytes.Cut(in.unread, []byte{'\n'}); whole {
			in.unread = rest
			return line, nil
		}
		more := make([]byte, 64<<10)
		n, err := os.Stdin.Read(more)
		if err != nil {
			return nil, err
		}
		in.unread = append(in.unread, more[:n]...)
	}
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
