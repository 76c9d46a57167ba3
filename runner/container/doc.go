// Package container runs a job's command inside an image, through the Engine API of Docker (or what speaks it).
//
// It owns: the plan of one container ([Plan]), how GPUs are asked for ([GPUMethod]), the helper that stands for the
// container in the run's process tree ([Take]), and what leaves no container of a run behind ([Plan.After],
// [Engine.Strays]).
//
// It never decides when a run ends: the helper is the command of an ordinary shim, which has the log spool, the GPU
// locks, the time limit, the session's deadline and exit.json, as for a process. See docs/decisions/0060.
//
//	shim ---- helper (this binary again) ==== Engine API ==== container, labels berth.run, berth.store
//	  |         fetch, create, attach, start, wait               |
//	  |         signals pass on; inside.json says what it saw    |
//	  '- After: berth-container-end, when no process is left ----'  removes it, while the GPU locks are still held
package container
