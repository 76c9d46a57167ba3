// Package e2e drives the worker that people run: cmd/worker, built as it is, with its NVML path, against a real broker
// and a libnvidia-ml.so.1 that is a folder (telemetry/fakenvml), with jobs that are real processes.
//
// It owns tests and nothing else. What they show is what an operator sees: presence, records, results, the worker's own
// log. They never look into the worker.
//
// A test is a house: a broker, fake machines, workers, jobs. A job says over a pipe that it has started, with its
// process id, and ends when the test says so; the test writes that id into the fake's process list, so that the worker
// meets on the card the very process it started.
package e2e
