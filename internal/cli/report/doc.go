// Package report draws the efficiency report of one run: what of the GPUs, memory and CPUs it asked for it used.
//
// It owns the picture only: figures come from the job's Result and its series, advice is what the worker wrote into
// the Result. It never fetches, never guesses: a gauge nobody measured has no line.
package report
