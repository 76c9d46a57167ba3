// Package demo runs a whole Berth for half a minute: a broker in a temporary folder, a worker, the specs of examples/,
// one job followed live, its result and its efficiency report.
//
// It owns the order of the show and its words. It does nothing of its own: every step is a command that a person could
// type, run with the same code, and is printed as such. Nothing it starts or writes outlives it.
//
//	temporary folder -> berth up -> ready -> submit hello, gpu, array -> submit --follow training -> results -> drain
package demo
