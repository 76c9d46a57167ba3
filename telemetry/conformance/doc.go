// Package conformance is the one suite that every telemetry.Source passes: NVML on a fake library and on a real card,
// nvidia-smi on a fake script, the simulated machine. Tests use it.
//
// It owns what the interface promises beyond its signatures. It knows no source: what a machine can be made to do
// comes in as functions, and what it cannot be made to do is left out aloud.
package conformance
