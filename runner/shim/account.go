package shim

import (
	"os"
	"runtime"
	"slices"
	"syscall"
	"unsafe"
)

// Account is as whom the command runs.
type Account struct {
	Name   string            `json:"name"`
	UID    uint32            `json:"uid"`
	GID    uint32            `json:"gid"`
	Groups []uint32          `json:"groups,omitempty"`
	Home   string            `json:"home,omitempty"`
	Umask  *int              `json:"umask,omitempty"`
	Limits map[string]uint64 `json:"limits,omitempty"` // by ulimit's names; bytes where ulimit counts bytes
}

// limitNumbers are the kernel's numbers of limits, the same on the architectures Go knows beside MIPS.
var limitNumbers = map[string]int{"stack": 3, "core": 4, "nproc": 6, "nofile": 7, "memlock": 8}

// IsLimit reports whether an account may have that limit.
func IsLimit(name string) bool { return limitNumbers[name] != 0 }

// LimitNames lists them.
func LimitNames() []string {
	var names []string
	for name := range limitNumbers {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (a *Account) credential() *syscall.Credential {
	if a == nil {
		return nil
	}
	return &syscall.Credential{Uid: a.UID, Gid: a.GID, Groups: a.Groups}
}

// prepare sets what a child inherits, and returns what sets it back. A limit above what the machine allows is left at
// that.
func (a *Account) prepare() (restore func()) {
	if a == nil {
		return func() {}
	}
	var back []func()
	if a.Umask != nil {
		before := syscall.Umask(*a.Umask)
		back = append(back, func() { syscall.Umask(before) })
	}
	for name, value := range a.Limits {
		var before syscall.Rlimit
		if syscall.Getrlimit(limitNumbers[name], &before) != nil {
			continue
		}
		now := syscall.Rlimit{Cur: min(value, before.Max), Max: before.Max}
		if syscall.Setrlimit(limitNumbers[name], &now) == nil {
			back = append(back, func() { _ = syscall.Setrlimit(limitNumbers[name], &before) }) // it was that before
		}
	}
	return func() {
		for _, f := range back {
			f()
		}
	}
}

// seal makes the limits hard for the command that was just started: it may lower them, not raise them. The kernel lets
// only a process with CAP_SYS_RESOURCE do that to somebody else's; without it the limits stay soft.
func (a *Account) seal(pid int) {
	if a == nil {
		return
	}
	for name, value := range a.Limits {
		var now syscall.Rlimit
		_, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), uintptr(limitNumbers[name]), 0, uintptr(unsafe.Pointer(&now)), 0, 0)
		if errno != 0 || now.Max <= value {
			continue
		}
		now = syscall.Rlimit{Cur: min(now.Cur, value), Max: value}
		_, _, _ = syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), uintptr(limitNumbers[name]), uintptr(unsafe.Pointer(&now)), 0, 0, 0)
	}
}

// look runs f with the account's rights to files, on this thread alone.
func (a *Account) look(f func() error) error {
	if a == nil {
		return f()
	}
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, and the rights with it
		groups := append([]uint32{a.GID}, a.Groups...)
		_, _, errno := syscall.RawSyscall(syscall.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(&groups[0])), 0)
		if errno != 0 {
			err = os.NewSyscallError("setgroups", errno)
			return
		}
		_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSGID, uintptr(a.GID), 0, 0)
		_, _, _ = syscall.RawSyscall(syscall.SYS_SETFSUID, uintptr(a.UID), 0, 0)
		err = f()
	}()
	<-done
	return err
}

// own gives the log pipes to the account: a program that opens /dev/stdout anew needs it.
func (a *Account) own(files [2]*os.File) {
	if a == nil {
		return
	}
	for _, f := range files {
		_ = f.Chown(int(a.UID), int(a.GID)) // only such programs would miss it
	}
}

// mayExecute asks the kernel for the rights of whoever asks now.
func mayExecute(path string) error {
	const atFdcwd, atEaccess = -100, 0x200
	return syscall.Faccessat(atFdcwd, path, accessExecute, atEaccess)
}
