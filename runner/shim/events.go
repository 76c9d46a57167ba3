package shim

import (
	"bufio"
	"encoding/binary"
	"os"
	"syscall"
	"time"
	"unsafe"
)

// Numbers that package syscall does not have, the same on all Linux architectures.
const (
	clockBoottime = 7
	timerAbstime  = 1
	sigBlock      = 0
	sigSetMask    = 2
	sigSetSize    = 8
)

// Signals are those a shim must survive: a closing terminal, a stopping service, a machine going down. The worker
// blocks them before it starts the shim, so that there is no moment in which they would kill it.
const Signals = uint64(1<<(syscall.SIGHUP-1) | 1<<(syscall.SIGINT-1) | 1<<(syscall.SIGQUIT-1) | 1<<(syscall.SIGTERM-1))

// alarm wakes the shim at a time on the boot clock, also after the machine has slept, whatever is done to the wall
// clock.
type alarm struct {
	fd int
	C  chan struct{}
}

func newAlarm() (*alarm, error) {
	fd, _, errno := syscall.Syscall(syscall.SYS_TIMERFD_CREATE, clockBoottime, syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("timerfd_create", errno)
	}
	a := &alarm{fd: int(fd), C: make(chan struct{}, 1)}
	f := os.NewFile(fd, "alarm")
	go func() {
		var ticks [8]byte
		for {
			if _, err := f.Read(ticks[:]); err != nil {
				return
			}
			poke(a.C)
		}
	}()
	return a, nil
}

// set arms the alarm; 0 disarms it. A time that has passed rings at once.
func (a *alarm) set(at time.Duration) {
	spec := [2]syscall.Timespec{{}, syscall.NsecToTimespec(int64(at))}
	_, _, _ = syscall.Syscall6(syscall.SYS_TIMERFD_SETTIME, uintptr(a.fd), timerAbstime, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
}

// signals returns a channel of the blocked signals that arrive.
func signals() (<-chan syscall.Signal, error) {
	mask := Signals
	fd, _, errno := syscall.Syscall6(syscall.SYS_SIGNALFD4, ^uintptr(0), uintptr(unsafe.Pointer(&mask)), sigSetSize,
		syscall.O_NONBLOCK|syscall.O_CLOEXEC, 0, 0)
	if errno != 0 {
		return nil, os.NewSyscallError("signalfd", errno)
	}
	f := os.NewFile(fd, "signals")
	c := make(chan syscall.Signal, 4)
	go func() {
		var info [128]byte // struct signalfd_siginfo
		for {
			if n, err := f.Read(info[:]); err != nil || n < 4 {
				return
			}
			c <- syscall.Signal(binary.NativeEndian.Uint32(info[:]))
		}
	}()
	return c, nil
}

// WithSignals runs f with the shim's signals blocked or let through on this thread. The caller has locked the
// goroutine to its thread; a process that f starts inherits the mask.
func WithSignals(blocked bool, f func() error) error {
	mask, old := Signals, uint64(0)
	how := uintptr(sigBlock)
	if !blocked {
		mask, how = 0, sigSetMask
	}
	_, _, errno := syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, how, uintptr(unsafe.Pointer(&mask)), uintptr(unsafe.Pointer(&old)), sigSetSize, 0, 0)
	if errno != 0 {
		return os.NewSyscallError("rt_sigprocmask", errno)
	}
	err := f()
	_, _, _ = syscall.RawSyscall6(syscall.SYS_RT_SIGPROCMASK, sigSetMask, uintptr(unsafe.Pointer(&old)), 0, sigSetSize, 0, 0)
	return err
}

// commands makes the control FIFO and returns the lines written to it. The shim keeps a writing end open itself, so
// that workers may come and go.
func commands(path string) (<-chan string, error) {
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		return nil, &os.PathError{Op: "mkfifo", Path: path, Err: err}
	}
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	c := make(chan string)
	go func() {
		lines := bufio.NewReaderSize(f, 4096)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			c <- line
		}
	}()
	return c, nil
}

func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
