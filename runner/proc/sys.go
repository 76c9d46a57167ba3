package proc

import (
	"bytes"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// Numbers that package syscall does not have. They are the same on every architecture since Linux 5.3.
const (
	sysPidfdOpen       = 434
	sysPidfdSendSignal = 424
	sysCloseRange      = 436

	clockBoottime     = 7
	closeRangeCloexec = 4

	prSetName           = 15
	prSetChildSubreaper = 36
)

// Boottime is the time since boot, sleep included. No clock step changes it, and two processes agree on it.
func Boottime() time.Duration {
	var ts syscall.Timespec
	// The call cannot fail with these arguments on any kernel Go supports.
	_, _, _ = syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockBoottime, uintptr(unsafe.Pointer(&ts)), 0)
	return time.Duration(ts.Nano())
}

// BootID tells one boot of the machine from the next.
func BootID() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(b))
}

// PIDSpace names the pid namespace this process lives in: pids mean something only among those of one.
func PIDSpace() string {
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return name
}

// Open returns a descriptor of the process (a pidfd) that becomes readable when it ends. It succeeds on a zombie too:
// look at [Alive] after opening, never before.
func Open(pid int) (*os.File, error) {
	fd, _, errno := syscall.Syscall(sysPidfdOpen, uintptr(pid), syscall.O_NONBLOCK, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("pidfd_open", errno)
	}
	return os.NewFile(fd, "pidfd"), nil
}

// Signal sends a signal to the process that has that pid since start, and to no other.
func Signal(pid int, start uint64, signal syscall.Signal) error {
	f, err := Open(pid)
	if err != nil {
		return err
	}
	defer f.Close()
	if s, err := Read(pid); err != nil || s.Start != start {
		return syscall.ESRCH
	}
	_, _, errno := syscall.Syscall6(sysPidfdSendSignal, f.Fd(), uintptr(signal), 0, 0, 0, 0)
	if errno != 0 {
		return os.NewSyscallError("pidfd_send_signal", errno)
	}
	return nil
}

// BecomeSubreaper makes this process the parent of every orphan below it.
func BecomeSubreaper() error {
	_, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, prSetChildSubreaper, 1, 0)
	if errno != 0 {
		return os.NewSyscallError("prctl(PR_SET_CHILD_SUBREAPER)", errno)
	}
	return nil
}

// SetName sets what ps shows as the command of the calling thread; on the main thread, of the process.
func SetName(name string) {
	var b [16]byte
	copy(b[:15], name)
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, prSetName, uintptr(unsafe.Pointer(&b)), 0) // cosmetic
}

// CloseOnExec marks every descriptor from first on, so that no program started later inherits one by accident.
func CloseOnExec(first int) {
	_, _, errno := syscall.RawSyscall(sysCloseRange, uintptr(first), uintptr(^uint32(0)), closeRangeCloexec)
	if errno == 0 {
		return
	}
	for fd := first; fd < 1024; fd++ { // before Linux 5.11
		syscall.CloseOnExec(fd)
	}
}
