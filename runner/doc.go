// Package runner runs a command on devices, under a shim of its own.
//
// It owns a run from the command line to the exit: its environment, its process tree, its output, how it ended. A run
// belongs to its user, not to the worker: it goes on when the worker is restarted or killed, and the next worker
// adopts it. The package never decides what an exit means for the job, never picks devices and never talks to the
// broker.
//
// # Who does what
//
//	worker process (this package)              shim process (runner/shim), one a run
//	Start    makes the folder, starts a shim   starts the command: own session, own cgroup
//	Handle   asks it to stop, extends time     asks, waits, kills; enforces limit and session by itself
//	Log      reads the spool                   writes the spool
//	Wait     waits for the shim to end         writes exit.json, then ends
//	Adopt    finds the folders of before       does not care
//
// # States of a run, as a worker sees them
//
//	            Start                  the shim ends, exit.json is there
//	(nothing) --------> running -----------------------------------------> ended --Release--> (nothing)
//	    |                  |  the shim ends without exit.json (kill -9)      ^
//	    | StartError       '----> the tree is killed, cause shim_lost -------'
//	    v
//	(nothing left)
//
// # Promises
//
//   - [Handle.Wait] returns only after no process of the run is left, also no double-forked one; those that sit in the
//     kernel and cannot die are named in [Exit.Survivors].
//   - An exit is what the shim saw. When nobody saw it, the cause says shim_lost and the code is not to be believed.
//   - The log is read from any offset, by any worker, without a line lost or doubled.
//   - The time limit and the session's deadline hold while the worker is down, frozen or replaced, and whatever is done
//     to the clock.
package runner
