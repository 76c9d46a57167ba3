// Package cgroup gives each run a control group of its own where the machine offers one: a fence no descendant leaves,
// that can be killed as a whole and counts what was used.
//
// It owns the probe of what the machine offers, the groups' names and files, and the words for the level reached. It
// never starts or waits for processes of a run. Light imports only: the shim is built on it.
//
//	Full      v2 with the memory and pids controllers: limits, kill, counters
//	Hybrid    v2 without them, v1 beside it has them: a run that asks for a limit is put there too
//	Fence     v2 without them (no delegation): kill and CPU time
//	None      no writable v2 hierarchy: process group, subreaper and marks in the environment do the work
package cgroup
