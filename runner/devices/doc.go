// Package devices closes the GPUs that a run was not given: whatever CUDA_VISIBLE_DEVICES says inside it, the kernel
// refuses to open their device files.
//
// It owns one small program in the kernel per run, on the run's control group (version 2), which lives and dies with
// the group. It never makes groups and never picks GPUs. Where the machine does not offer it (no v2 group, no
// CAP_BPF, a kernel before 4.15) a run goes without, and `worker check` says so.
//
//	/dev/nvidia0 … /dev/nvidia247   character devices 195:0 … 195:247: only those of the run
//	everything else                 as it was: nvidiactl, nvidia-uvm, nvidia-caps, disks, terminals
package devices
