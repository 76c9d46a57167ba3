// Package day is a made-up day at a lab, for berth up --demo: machines with simulated GPUs, people who are roles, and what
// happens to their jobs, from a sweep to a card that falls off the bus.
//
// It owns the machines' simulated cards, the specs of the jobs, the order of the day and its words. What happens is not
// pretended: each machine is a worker, the jobs are processes under their shims, and everything people do is a command
// that anybody could type, run with the same code. Only the readings of the GPUs are written down here, and what
// goes wrong with them: a stranger's process, an XID, a lost card.
//
// It never says that it is real: jobs have the label demo, machines are called demo-…, GPUs Simulated …. Nothing that it
// starts outlives [Fleet.Run] and [Day.Run].
//
//	day begins -> scenes, each at its hour, several at once -> everything has ended -> a pause -> the next day
package day
