// Package probe makes any program that imports it able to be its own NVML probe: started under the name [nvml.ProbeName], it
// answers questions about GPUs on two pipes and never reaches its main.
//
// Import it for its effect, in main packages and in tests that open the nvml source:
//
//	import _ "github.com/berthq/berth/telemetry/nvml/probe"
package probe
