package shim

import (
	"bufio"
	"os"
	"os/signal"
	"syscall"
	"time"
	"unsafe"
)

// Numbers that package syscall does not have, the same on all Linux architectures.
const (
	clockBoottime = 7
	timerAbstime  = 1
)

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

// signals returns the signals to the shim itself that it must survive: a closing terminal, a stopping service, a machine
// going down.
func signals() <-chan os.Signal {
	c := make(chan os.Signal, 4)
	signal.Notify(c, syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM)
	return c
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
