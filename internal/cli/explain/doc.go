// Package explain says why a job waits: one word, a sentence with numbers, each machine and GPU, who is in front, when it
// may start and on what that rests, and what would let it start sooner.
//
// It decides from values alone ([Why] is pure) and never asks the broker by itself but in [Gather], which only reads. It
// changes nothing and knows no more than the fleet has announced: a worker's own word on its room comes from the worker.
//
//	Gather: job, machines, lane, project, recent runs -> Facts --Why--> Explanation
package explain
