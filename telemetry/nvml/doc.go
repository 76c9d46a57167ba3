// Package nvml reads GPUs through NVIDIA's management library, at arm's length.
//
// It owns the child process that loads the library, the words spoken with it, and the watch over it. It never calls
// the library in the process that asked: a function missing from the driver's library ends the process that calls
// it, a driver bug crashes it, and a sick card puts it to sleep where no signal reaches. All of that may happen to a
// probe; a worker with forty-hour runs must not notice more than missing readings.
//
// # The probe
//
// The same program again, started under another name (see package probe), one process for as long as the source is
// open. It is asked over a pipe and answers over another, one JSON object a line; a lost pipe ends it.
//
//	Open --start--> starting --hello--> answering <----------------+
//	                   |                    |  question             | answer
//	                   |                    v                       |
//	                   |                 asked ---------------------+
//	                   |                    | 2 s: suspect, 10 s: unreadable and killed
//	                   v                    v
//	                 ended  <------------ dying (a process in the driver's hands does not die: then no second
//	                   |                         one is started, and all stays unreadable until it does)
//	                   +---- 250 ms, doubled up to 30 s ----> starting
//
// Inside the probe each device is read on its own: one that does not return within 400 ms loses its reading, is not
// asked again until it has returned, and does not hold up the others.
//
// # What is asked
//
// Every function is looked up in the library once after its initialisation and not called when it is missing; one
// that a device does not support is not asked again for a minute. Memory comes from the second version of its
// function where there is one (the first counts the driver's reserve as used).
//
// Built without cgo the package is there, and Open answers telemetry.ErrNotBuilt.
package nvml
