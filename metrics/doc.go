// Package metrics is Berth in Prometheus' words: what waits, runs and ended, machines, slots and GPUs.
//
// It owns the names and labels of every metric (docs/metrics.md lists them), a bound on how many series there can be, and
// the handler that shows them. It never follows anything by itself: whoever makes a Registry says where machines, readings
// and lanes are read from, and a scrape reads them then and there; runs and jobs are told as they start and end.
//
// No label holds a job, a user or anything else that a program can make without end. Projects and lanes, which people
// make, are counted under "(other)" beyond a limit.
package metrics
