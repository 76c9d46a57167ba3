// Package exit owns the exit codes of Berth's commands and the error that carries one.
//
// It never exits: a main does, once, with the code that [Of] reads from the error its command returned.
package exit

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/berthq/berth/job"
)

// The codes. Those from TimeLimit on are only used where a command waits for a job and answers with its fate.
const (
	OK          = 0
	Failed      = 1   // the command did not do what was asked; for a group under --wait: a task did not succeed
	Usage       = 2   // wrong flags or arguments
	Broker      = 3   // not reachable, or not allowed
	Spec        = 4   // the spec is invalid
	Refused     = 5   // quota, queue full, or no machine could ever run it
	NothingFree = 6   // --now, and no room
	TimeLimit   = 124 // time limit, deadline, expired
	System      = 125 // Berth failed, or the job is dead
	Interrupted = 130 // Ctrl-C: the job keeps its place
	OutOfMemory = 137
	Cancelled   = 143
)

// Error is an error with the code its command ends with and, where there is one, the likely fix.
type Error struct {
	Code int
	Err  error
	Hint string
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an Error from a sentence.
func Errorf(code int, format string, args ...any) *Error {
	return &Error{Code: code, Err: fmt.Errorf(format, args...)}
}

// With gives err a code; a code it already has stays.
func With(code int, err error) error {
	if err == nil {
		return nil
	}
	if e := (*Error)(nil); errors.As(err, &e) {
		return err
	}
	return &Error{Code: code, Err: err}
}

// Hinted adds the likely fix and returns the same error.
func (e *Error) Hinted(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// Silent ends a command with a code and no message: everything has been said.
type Silent int

func (s Silent) Error() string { return fmt.Sprintf("exit code %d", int(s)) }

// Of is the exit code of a command that returned err.
func Of(err error) int {
	var silent Silent
	var coded *Error
	switch {
	case err == nil:
		return OK
	case errors.As(err, &silent):
		return int(silent)
	case errors.As(err, &coded):
		return coded.Code
	case errors.Is(err, context.Canceled):
		return Interrupted
	}
	return Failed
}

// OfResult is the code of a command that waited for one job: the job's own where it ended by itself.
func OfResult(r job.Result) int {
	switch r.State {
	case job.Succeeded:
		return OK
	case job.Failed:
		return ofProcess(r.Exit)
	case job.TimedOut, job.Expired:
		return TimeLimit
	case job.OOMGPU, job.OOMHost:
		return OutOfMemory
	case job.Cancelled:
		return Cancelled
	}
	return System
}

// ofProcess reads how the process ended. A failed job without a process that said so was failed by the system.
func ofProcess(e *job.Exit) int {
	switch {
	case e == nil:
		return System
	case e.Signal != "":
		return 128 + signalNumber(e.Signal)
	case e.Code == 0:
		return System
	}
	return e.Code
}

// signals are the numbers of x86 and arm Linux, where workers run; the client may run anywhere.
var signals = map[string]int{"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "TRAP": 5, "ABRT": 6, "BUS": 7, "FPE": 8, "KILL": 9,
	"USR1": 10, "SEGV": 11, "USR2": 12, "PIPE": 13, "ALRM": 14, "TERM": 15, "STKFLT": 16, "CHLD": 17, "CONT": 18,
	"STOP": 19, "TSTP": 20, "TTIN": 21, "TTOU": 22, "URG": 23, "XCPU": 24, "XFSZ": 25, "VTALRM": 26, "PROF": 27,
	"WINCH": 28, "IO": 29, "PWR": 30, "SYS": 31}

func signalNumber(name string) int {
	return signals[strings.TrimPrefix(strings.ToUpper(name), "SIG")]
}
