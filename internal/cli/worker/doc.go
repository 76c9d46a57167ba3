// Package worker is the worker command: the daemon on a GPU machine, and its part of `berth up`.
//
// It owns the flags, how signals become the worker's two contexts, the first lines on screen and `worker check`. It
// never takes or runs a job itself: package worker of the house does.
//
//	first Ctrl-C   take no more, finish what runs (drain)
//	second Ctrl-C  stop what runs: TERM, grace, KILL
//	SIGTERM        take no more, leave what runs to its shims (detach); the next worker adopts it
package worker
