// Package job holds the words of Berth: what a user wants run (Spec), the message that carries it (Job), what a
// machine must have free for it (Requirements, Shape), the job's life so far (Record), and what came of it
// (Attempt, Run, Result).
//
// It owns names, JSON forms, defaults, parsing and validation. It never does I/O, never reads a clock and knows
// neither the broker nor a GPU library. Every message is versioned; fields a newer version added survive a
// read-modify-write by an older one (see Extra).
//
// The life of a job:
//
//	          submit                claim                    exit 0
//	(nothing) -----> queued ---------------> running ------------------> succeeded
//	                  | ^  \                  |   |
//	           hold   | |   \ cancel, expiry  |   | exit != 0, limit, out of memory, cancel
//	                  v |    \                |   v
//	                 held     \               |  failed timeout oom_gpu oom_host cancelled
//	                           v              |
//	            cancelled, expired            | interrupted, gpu_fault, machine_lost, or a retry:
//	                                          | epoch+1
//	                  queued <----------------'
//	                                          after system_attempts, or garbage: dead
package job
