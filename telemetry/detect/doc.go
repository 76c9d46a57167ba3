// Package detect chooses what reads the GPUs of this machine.
//
// It owns the setting --gpu-source and the order in which "auto" tries: NVML, then nvidia-smi, then none with a
// warning. It never reads a gauge. Whoever imports it can be started as an NVML probe (telemetry/nvml/probe).
//
//	auto | nvml | nvidia-smi | sim:4x24Gi | sim:FILE.yaml | none
package detect
