// Package gpuslots decides who may use which GPU of this machine.
//
// It owns the [Pool]: the slots of every card, the memory promised on it, what is measured and what foreign
// processes take, the CPUs and the host memory counted beside them, and the lock files that keep two workers of one
// machine apart. It answers three different questions:
//
//	CanEver     could this machine run it when everything is free?   (exact numbers; no: NeverFits)
//	Room        could it start now, and how good would the place be?  (changes nothing)
//	TryAcquire  take the place: all the GPUs of a gang or none
//
// A no is a [*Refusal]: one word (the reasons of a waiting job) and a sentence with the numbers of every GPU.
//
// It never starts or ends a process, never reads a GPU (it is shown snapshots, see [Pool.Observe]) and never asks the
// broker. Scores, placement and the choice of a gang are pure functions of values and a time.
//
// # What a card has left
//
//	total - what the driver keeps - the operator's reserve
//	      - for each run on it: the larger of what it promised and what it is measured to use
//	      - everything else that is measured: foreign processes, contexts, leftovers
//
// A promise counts from the grant, before a byte of it is used, so a burst of slow starters cannot all pass. A shared
// run that promises nothing counts for its slots' share of the card during the warm-up, then by what it uses.
//
// # States of a card
//
//	          +--------- settling <-------- a run left, or a foreign process did
//	          v              ^
//	ready <-----> busy ------+              no slot free, or held exclusively
//	  ^  ^------> foreign                   a process that is not ours uses too much of it
//	  |  ^------> elsewhere                 another worker of this machine holds it
//	  |  ^------> dirty                     a process of an ended run still holds memory: Clean
//	  |  ^------> quarantined               Quarantine: a sick card, or an operator: Unquarantine
//	  +---------> unreadable                never read, no reading, a fault in the reading, the source hangs
//
// Runs on a card go on in every state; only new ones are refused.
//
// # Locks
//
// Each GPU has one file in LockDir, one record of it per slot. Whoever holds the kernel's lock (an open file
// description lock) on a record holds the slot; an exclusive run locks the whole file. The descriptor is inherited by the
// run's shim, so a crash of the worker frees nothing that is in use, and the next worker knows its own runs by the
// name in the record.
package gpuslots
