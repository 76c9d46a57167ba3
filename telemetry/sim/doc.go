// Package sim is GPUs that are not there, read from processes that are.
//
// It owns the simulated cards of a machine: who they are (UUIDs that are the same after a restart), what their gauges
// show, who else is on them and what goes wrong with them. It never starts a process and never decides who may use a
// card: who holds which is handed in, and the readings come from those processes as they really run. Their share of
// a CPU is the card's utilisation, their resident memory is its used memory; temperature and power follow, slowly, as
// they do on a card.
//
// # Settings
//
// "4x24Gi" is four cards of 24 GiB. A YAML file says more:
//
//	seed: rack-7                # names the cards; the machine's name when absent
//	cpus_per_gpu: 2             # CPUs that make 100 % utilisation; default 1
//	devices:
//	  - {name: NVIDIA H100, memory: 80Gi, capability: "9.0", count: 2}
//	  - {memory: 24Gi, missing: [power_w, temperature_c]}   # gauges this card does not have
//	processes:                  # by command line, the first that matches; a curve follows the age of the process
//	  - {command: train.py, memory: [{at: 0s, value: 1Gi}, {at: 10s, value: 20Gi}], utilization: 95}
//	foreign:                    # somebody else's, from the start of the source
//	  - {gpu: 1, start: 30s, end: 90s, memory: 12Gi, utilization: 80, user: eve, command: jupyter}
//	faults:
//	  - {at: 60s, gpu: 0, kind: xid, xid: 79}
//	  - {at: 61s, gpu: 0, kind: lost, for: 30s}     # also: hang, recovery, ecc
//	control: now.txt            # lines appended to it happen at once
//
// Lines of the control file: "0 xid 79", "0 lost on", "0 lost off", "0 hang on", "0 recovery 1", "0 ecc 2",
// "1 foreign 5000001 12288 80 eve jupyter", "1 foreign 5000001 off", "all hang on".
// Faults and lines take effect with the next reading.
package sim
