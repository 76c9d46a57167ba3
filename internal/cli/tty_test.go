package cli_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"

	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"
)

// tty WIDTH CODE PROGRAM [ARG...]: the program runs on a terminal of that width and ends with that code; what is on the
// screen then is the script's stdout.
func onTerminal(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: tty WIDTH CODE PROGRAM [ARG...]")
	}
	width, err := strconv.ParseUint(args[0], 10, 16)
	ts.Check(err)
	path, err := lookPath(ts, args[2])
	ts.Check(err)
	master, slave, err := terminal(uint16(width))
	ts.Check(err)
	cmd := exec.Command(path, args[3:]...)
	cmd.Dir, cmd.Env = ts.MkAbs("."), append(environ(ts), "TERM=xterm")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	ts.Check(errors.Join(err, slave.Close()))
	screen, err := io.ReadAll(master) // ends with EIO, when nobody has the terminal open any more
	if err != nil && !errors.Is(err, syscall.EIO) {
		ts.Fatalf("%v", err)
	}
	ts.Check(master.Close())
	_, err = ts.Stdout().Write([]byte(strings.ReplaceAll(string(screen), "\r\n", "\n")))
	ts.Check(err)
	if got := codeOf(cmd.Wait()); strconv.Itoa(got) != args[1] {
		ts.Fatalf("%s ended with %d, want %s\n%s", args[2], got, args[1], screen)
	}
}

// lookPath finds a program as the script would.
func lookPath(ts *testscript.TestScript, program string) (string, error) {
	for dir := range strings.SplitSeq(ts.Getenv("PATH"), ":") {
		if info, err := os.Stat(dir + "/" + program); err == nil && info.Mode().IsRegular() {
			return dir + "/" + program, nil
		}
	}
	return "", fmt.Errorf("%s: not found", program)
}

func terminal(width uint16) (master, slave *os.File, err error) {
	master, err = os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, master.Close())
		}
	}()
	fd := int(master.Fd())
	if err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		return nil, nil, err
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		return nil, nil, err
	}
	if err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 40, Col: width}); err != nil {
		return nil, nil, err
	}
	slave, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	return master, slave, err
}
