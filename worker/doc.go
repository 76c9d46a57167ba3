// Package worker is the one loop that joins the house: it takes jobs off the queue when this machine has room, runs
// them on the GPUs it gave them, watches, and brings back the result.
//
// It owns the order of things (attempt.go reads from top to bottom), the policy of what to ask for (pick.go), what an
// ending means (outcome.go), what follows (retry.go), and the start and stop of everything a worker is made of
// (worker.go). It never talks JetStream itself, starts a process itself or asks a GPU itself: queue, runner and
// telemetry do.
//
// The life of a worker:
//
//	      store, source, session
//	start ----------------------> adopt ----> serve ----------------------> stop
//	                              (what a     (take jobs while there is      |
//	                           predecessor     room; ends with claimCtx)     |
//	                              left)                                      |
//	                                             claimCtx ended: drain  <----+----> detach: claimCtx ended
//	                                             wait for the runs;                 with ErrDetach:
//	                                             workCtx ended: stop them           leave them to their shims
//
// Two contexts, two promises: claimCtx ends "take no more", workCtx ends "stop what runs".
package worker
