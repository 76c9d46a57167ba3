// Package fakenvml is a machine with NVIDIA GPUs that exists only as a folder. Tests use it.
//
// It owns a libnvidia-ml.so.1 of our own (testdata/fake_nvml.c, built with gcc on first use and kept in the user's
// cache folder), an nvidia-smi of our own (a shell script over the same folder), and the setters that change what
// both of them say while the program under test looks: a GPU gets busy, a process of the test allocates memory,
// an XID happens, a card is lost, the library hangs, crashes, or lacks a function.
//
// It never starts the program under test. Give that program Machine.Env, or nvml.Options.LibraryPath the
// Machine.Library, or smi.Options.Path the Machine.SMI.
//
//	m := fakenvml.New(t, 2)
//	cmd.Env = append(os.Environ(), m.Env()...)
//	m.GPU(0).Processes(fakenvml.Process{PID: cmd.Process.Pid, MemoryMB: 4096, SM: 80})
//	m.XID(0, 79)
//	m.GPU(0).Lose()
package fakenvml
