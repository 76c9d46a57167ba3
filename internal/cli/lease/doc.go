// Package lease is `berth lease` and `berth run`: GPUs held by a person or a script, out of the one queue and the one
// pool that jobs use.
//
// It owns what these verbs say and print, which machine is "here", and what the words of a release mean. It decides
// nothing about GPUs: a lease is a job of kind lease, and the worker of its machine holds it.
//
//	get --submit--> waiting --given--> held --release, expiry, its process ends, cancel, fault--> ended
//	                   |
//	                   '--- Ctrl-C, --wait is over: withdrawn
package lease
