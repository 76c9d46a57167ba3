// Package proc reads what the kernel says of processes: who exists, since when, whose child, with which marks.
//
// It owns the small pieces of /proc and the few raw system calls that the shim and the worker share. It never
// decides anything and never kills: callers do. It imports the standard library's lightest packages only, because the
// shim is built on it and must start before the heavy packages of the same binary are initialised.
//
// A process is its pid and its start time (field 22 of /proc/<pid>/stat): the pid alone may be somebody else's by now.
package proc
