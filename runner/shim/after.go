package shim

import (
	"os"
	"syscall"
)

// tidy runs the order's last command, which takes away what the run has outside of its processes. The devices' locks
// are held until it has ended; it bounds its own time.
func (s *supervisor) tidy() {
	if len(s.order.After) == 0 {
		return
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		s.warn("what the run has outside of its processes may be left: " + err.Error())
		return
	}
	defer null.Close()
	pid, err := syscall.ForkExec(s.order.After[0], s.order.After, &syscall.ProcAttr{Files: []uintptr{null.Fd(), 2, 2}})
	if err != nil {
		s.warn("what the run has outside of its processes may be left: " + err.Error())
		return
	}
	status := await(pid)
	if status.Exited() && status.ExitStatus() != 0 || status.Signaled() {
		s.warn("what the run has outside of its processes may be left: " + lastLine(LogFile))
	}
}

// await waits for a child. Its status is lost when reap, which waits for everything, was first.
func await(pid int) (status syscall.WaitStatus) {
	for {
		switch _, err := syscall.Wait4(pid, &status, 0, nil); err {
		case syscall.EINTR:
		default:
			return status
		}
	}
}

// lastLine is the end of a file, one line at most.
func lastLine(path string) string {
	b, _ := os.ReadFile(path) // unreadable: nothing to add
	end := len(b)
	for end > 0 && b[end-1] == '\n' {
		end--
	}
	begin := end
	for begin > 0 && b[begin-1] != '\n' && end-begin < 1000 {
		begin--
	}
	return string(b[begin:end])
}
