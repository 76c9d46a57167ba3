// Package bench measures Berth against the bare path it is built on, both in one run, on one broker, turn by turn, so
// that a loaded machine loads both: what counts is the ratio.
//
//	go test -run '^$' -bench . ./bench            (make bench runs every package's)
//	BERTH_BENCH_STRICT=1 ...                      a missed target fails the benchmark
//
// README.md has the targets, and what was measured on which machine. There is nothing to import here.
//
// The bare path is what anybody would write with JetStream and the same shim in an afternoon, without a clerk, lanes,
// records, sessions, slots, telemetry, logs or recovery. It is the floor, not a competitor.
package bench
