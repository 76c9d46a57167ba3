// Package smi reads GPUs by starting nvidia-smi, for machines where the NVML library cannot be used.
//
// It owns the command line, the time it may take and the reading of what it prints. It never keeps a second
// nvidia-smi running beside one that hangs, and it never believes a figure it cannot read: that gauge is absent.
//
// It is the fallback, and a dear one: each reading starts a process that loads the driver's library anew (a tenth of
// a second of CPU on a good day). It also knows less than NVML: no XIDs, no energy counter, no utilisation per
// process, no MIG devices.
//
//	        answers                5 s               15 s
//	ok ----------------> ok ------------> suspect ----------> unreadable (killed; the next one only when it is gone)
package smi
