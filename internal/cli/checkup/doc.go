// Package checkup owns the form of an examination: what was looked at, how it is, what was found, what to type.
//
// It never looks at anything itself: `worker check` examines a machine, `berth doctor` the queue.
package checkup
