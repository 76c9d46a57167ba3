// Package shim is the small process that stands between a worker and a run: the same binary, started again.
//
// It owns one run from its exec to its exit code. It is the run's parent and the parent of its orphans; it holds the
// log pipes and the GPU lock files; it enforces the time limit and the worker's session; and it does all that whether
// or not a worker is there. It never guesses: what it did not see with its own eyes it does not write. It knows neither
// the broker nor a GPU.
//
// # Life
//
//	                  order on stdin                     the command ends
//	(exec) starting ----------------> running --------------------------------------.
//	          |                         |                                           v
//	          | cannot start            | stop, time limit, session over      lingering 200 ms
//	          v                         v                                           |
//	   report, exit                 signal to all                                   v
//	                                    | grace                              signal to the rest
//	                                    v                                           | 2 s at most
//	                                 kill all <-------------------------------------'
//	                                    |  no descendant is left (or 30 s: survivors are named)
//	                                    v
//	                          logs drained, exit.json, exit
//
// # Start-up
//
// The package takes the process over in its init function when the process was started as "berth-shim", and imports
// only packages that are initialised early: a shim must not wait for, or carry, a whole broker. Go initialises packages
// in the order of their import paths once their imports are ready, so a dependency on net or on anything below
// golang.org would pull the heavy packages in first. The control channel is therefore a FIFO, and the few system calls
// that package syscall lacks are made here. TestStartsLight keeps watch.
//
// # Files, in the run's folder
//
//	lock         held (flock) as long as the shim lives
//	run.json     what the worker knows of the run; the worker writes it
//	state.json   who runs: pids with start times, boot, times
//	control      FIFO; one command a line: "extend <boottime ns>", "stop <cause> <grace ns> <why>", "limit <ns>"
//	log-… tail-… the output (package spool)
//	shim.log     the shim's own words; empty unless something went wrong
//	job/         what the job may see: result.json, stop-reason
//	exit.json    how it ended; written last, by rename
package shim
