// Package config finds out how a command is to behave: flags before environment before file before default.
//
// It owns the names: one option has one name, written three ways (--max-util, BERTH_WORKER_MAX_UTIL, and the same key in
// a file of KEY=VALUE lines, which is a systemd EnvironmentFile). It remembers which layer each value came from, for
// --config-print and for errors. It never reads the process's environment: the caller hands it in.
//
//	default -> file -> environment -> flag -> checked value + where it came from
package config
