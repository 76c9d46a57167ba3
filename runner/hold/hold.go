package hold

import (
	"os"
	"strconv"
	"syscall"
	"unsafe"

	"github.com/berthq/berth/runner/proc"
	"github.com/berthq/berth/runner/shim"
)

const (
	self = "/proc/self/exe" // of whoever starts it: the same binary, even one that was replaced on disk
	mark = "berth-hold"
)

// Process is the one to watch: a pid and its start time (field 22 of /proc/<pid>/stat).
type Process struct {
	PID   int
	Start uint64
}

// Command is the argv that makes this binary hold a place until the process ends; nil: until it is told to stop.
func Command(until *Process) []string {
	if until == nil {
		return []string{self, mark}
	}
	return []string{self, mark, strconv.Itoa(until.PID), strconv.FormatUint(until.Start, 10)}
}

// init takes the process over when it was started as a holder.
func init() {
	if len(os.Args) < 2 || os.Args[0] != self || os.Args[1] != mark {
		return
	}
	proc.SetName(mark)
	shim.Slim()
	syscall.Exit(wait(os.Args[2:])) // os.Exit would do what is meant for the rest of the binary
}

func wait(args []string) (code int) {
	if len(args) == 0 {
		for {
			await(nil)
		}
	}
	if len(args) != 2 {
		return say(2, "want the pid and the start time of a process\n")
	}
	pid, err1 := strconv.Atoi(args[0])
	start, err2 := strconv.ParseUint(args[1], 10, 64)
	if err1 != nil || err2 != nil {
		return say(2, "not the pid and the start time of a process: "+args[0]+" "+args[1]+"\n")
	}
	f, err := proc.Open(pid)
	if err != nil && err.(*os.SyscallError).Err != syscall.ESRCH { //nolint:errorlint // proc.Open returns it as it is
		return say(1, "cannot watch process "+args[0]+": "+err.Error()+"\n")
	}
	if err == nil && proc.Alive(pid, start) {
		fd := pollFd{fd: int32(f.Fd()), events: pollIn}
		for fd.revents == 0 {
			await(&fd)
		}
	}
	return say(0, "process "+args[0]+" has ended\n")
}

func say(code int, text string) int {
	_, _ = os.Stdout.WriteString(text) // for the log of the lease; the code is what counts
	return code
}

// pollFd is the kernel's struct pollfd.
type pollFd struct {
	fd      int32
	events  int16
	revents int16
}

const pollIn = 1

// await sleeps until something happens to fd, or a signal comes.
func await(fd *pollFd) {
	n := uintptr(0)
	if fd != nil {
		n = 1
	}
	_, _, _ = syscall.Syscall6(syscall.SYS_PPOLL, uintptr(unsafe.Pointer(fd)), n, 0, 0, 0, 0) // EINTR: the caller asks again
}
