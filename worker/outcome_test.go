package worker

import (
	"errors"
	"strings"
	"testing"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/runner"
)

func exited(code int) job.Exit       { return job.Exit{Code: code} }
func signalled(name string) job.Exit { return job.Exit{Code: -1, Signal: name} }

// TestJudge holds what real programs print when they die, one row an ending.
func TestJudge(t *testing.T) {
	t.Parallel()
	full := 99.2
	for _, c := range []struct {
		name     string
		in       Ending
		want     job.Outcome
		reason   string // part of it
		evidence string // part of it
	}{
		{"success", Ending{Exit: exited(0)}, job.OutcomeSucceeded, "", ""},
		{"success though it once ran out", Ending{Exit: exited(0), GPUs: 1, Tail: []byte("CUDA out of memory, retrying with a smaller batch\ndone\n")}, job.OutcomeSucceeded, "", ""},
		{"torch", Ending{Exit: exited(1), GPUs: 1, PeakMemoryPercent: &full,
			Tail: []byte("Traceback (most recent call last):\n  File \"train.py\", line 7\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB.\n")},
			job.OutcomeOOMGPU, "99 % full", "Tried to allocate 20.00 GiB"},
		{"older torch", Ending{Exit: exited(1), GPUs: 1, Tail: []byte("torch.cuda.OutOfMemoryError: CUDA out of memory.")}, job.OutcomeOOMGPU, "full", "torch.cuda"},
		{"torch kernel launch", Ending{Exit: exited(1), GPUs: 1, Tail: []byte("RuntimeError: CUDA error: out of memory\nCompile with TORCH_USE_CUDA_DSA")}, job.OutcomeOOMGPU, "full", "CUDA error"},
		{"jax", Ending{Exit: exited(1), GPUs: 1, Tail: []byte("jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.")}, job.OutcomeOOMGPU, "", "8589934592"},
		{"grpc quota is not memory", Ending{Exit: exited(1), GPUs: 1, Tail: []byte("grpc: RESOURCE_EXHAUSTED: quota exceeded")}, job.OutcomeFailed, "exit 1", ""},
		{"tensorflow", Ending{Exit: exited(1), GPUs: 1, Tail: []byte("ResourceExhaustedError: {{function_node}} OOM when allocating tensor with shape[64,1024]")}, job.OutcomeOOMGPU, "", "shape"},
		{"cupy", Ending{Exit: exited(1), GPUs: 1, Tail: []byte("cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,000,000,000 bytes")}, job.OutcomeOOMGPU, "", "cupy"},
		{"cublas", Ending{Exit: exited(1), GPUs: 1, Tail: []byte("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`")}, job.OutcomeOOMGPU, "", "cublasCreate"},
		{"cudnn", Ending{Exit: exited(1), GPUs: 1, Tail: []byte("RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED")}, job.OutcomeOOMGPU, "", ""},
		{"driver api", Ending{Exit: exited(134), GPUs: 1, Tail: []byte("failed to allocate 22.5G: CUDA_ERROR_OUT_OF_MEMORY: out of memory")}, job.OutcomeOOMGPU, "", ""},
		{"c++ program", Ending{Exit: exited(2), GPUs: 1, Tail: []byte("ggml_cuda: cudaMalloc failed: out of memory")}, job.OutcomeOOMGPU, "", ""},
		{"vllm no room for its cache", Ending{Exit: exited(1), GPUs: 2, Tail: []byte("ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`")}, job.OutcomeOOMGPU, "", ""},
		{"vllm card in use", Ending{Exit: exited(1), GPUs: 1, Tail: []byte("ValueError: Free memory on device (9.1/79.1 GiB) on startup is less than desired GPU memory utilization (0.9, 71.2 GiB).")}, job.OutcomeOOMGPU, "", "9.1/79.1"},
		{"nccl out of memory", Ending{Exit: exited(1), GPUs: 4, Tail: []byte("NCCL WARN Cuda failure 'out of memory'")}, job.OutcomeOOMGPU, "", ""},
		{"opencl", Ending{Exit: exited(1), GPUs: 1, Tail: []byte("pyopencl.MemoryError: create_buffer failed: MEM_OBJECT_ALLOCATION_FAILURE")}, job.OutcomeOOMGPU, "", ""},
		{"GPU words on a CPU job", Ending{Exit: exited(1), Tail: []byte("AssertionError: expected 'CUDA out of memory' in log")}, job.OutcomeFailed, "exit 1", ""},
		{"kernel's counter", Ending{Exit: signalled("SIGKILL"), OOMKills: 1}, job.OutcomeOOMHost, "host memory", "oom_kill 1"},
		{"a child was killed, main exits 1", Ending{Exit: exited(1), OOMKills: 2, Tail: []byte("RuntimeError: DataLoader worker exited unexpectedly")}, job.OutcomeOOMHost, "", "oom_kill 2"},
		{"data loader without a counter", Ending{Exit: exited(1), Tail: []byte("RuntimeError: DataLoader worker (pid 4211) is killed by signal: Killed. ")}, job.OutcomeOOMHost, "", "4211"},
		{"numpy", Ending{Exit: exited(1), Tail: []byte("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 93.1 GiB for an array with shape (50000, 250000)")}, job.OutcomeOOMHost, "", "93.1"},
		{"python", Ending{Exit: exited(1), Tail: []byte("Traceback\nMemoryError\n")}, job.OutcomeOOMHost, "", "MemoryError"},
		{"torch on the host", Ending{Exit: exited(1), GPUs: 1, Tail: []byte("RuntimeError: [enforce fail at alloc_cpu.cpp:75] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 400000000000 bytes.")}, job.OutcomeOOMHost, "", ""},
		{"bad_alloc", Ending{Exit: signalled("SIGABRT"), Tail: []byte("terminate called after throwing an instance of 'std::bad_alloc'")}, job.OutcomeOOMHost, "", ""},
		{"java", Ending{Exit: exited(1), Tail: []byte("Exception in thread \"main\" java.lang.OutOfMemoryError: Java heap space")}, job.OutcomeOOMHost, "", ""},
		{"bare 137", Ending{Exit: exited(137)}, job.OutcomeFailed, "signal 9", ""},
		{"kill -9 from outside", Ending{Exit: signalled("SIGKILL")}, job.OutcomeFailed, "from outside", ""},
		{"segfault", Ending{Exit: signalled("SIGSEGV")}, job.OutcomeFailed, "crashed (SIGSEGV)", ""},
		{"bus error", Ending{Exit: signalled("SIGBUS")}, job.OutcomeFailed, "SIGBUS", ""},
		{"abort", Ending{Exit: signalled("SIGABRT")}, job.OutcomeFailed, "SIGABRT", ""},
		{"illegal access with its xid", Ending{Exit: exited(1), GPUs: 1, GPUAppFault: "XID 31", Tail: []byte("RuntimeError: CUDA error: an illegal memory access was encountered")}, job.OutcomeFailed, "outside its GPU memory", "illegal"},
		{"device assert", Ending{Exit: exited(1), GPUs: 1, Tail: []byte("RuntimeError: CUDA error: device-side assert triggered")}, job.OutcomeFailed, "assertion", ""},
		{"xid without words", Ending{Exit: exited(1), GPUs: 1, GPUAppFault: "XID 13 on GPU 0"}, job.OutcomeFailed, "exit 1", "XID 13"},
		{"fatal xid", Ending{Exit: signalled("SIGABRT"), GPUs: 1, GPUFault: "XID 79 on GPU 0"}, job.OutcomeGPUFault, "failed", "XID 79"},
		{"stopped for a fault", Ending{Cause: CauseGPUFault, Exit: signalled("SIGKILL"), GPUs: 1, GPUFault: "GPU 3 is lost"}, job.OutcomeGPUFault, "stopped", "lost"},
		{"ecc by its text", Ending{Exit: exited(1), GPUs: 1, Tail: []byte("RuntimeError: CUDA error: uncorrectable ECC error encountered")}, job.OutcomeGPUFault, "ECC", ""},
		{"nccl watchdog", Ending{Exit: signalled("SIGABRT"), GPUs: 8, Tail: []byte("[Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5)")}, job.OutcomeFailed, "NCCL", ""},
		{"no driver", Ending{Exit: exited(1), GPUs: 1, Tail: []byte("RuntimeError: Found no NVIDIA driver on your system.")}, job.OutcomeFailed, "no GPU", ""},
		{"disk full", Ending{Exit: exited(1), Tail: []byte("OSError: [Errno 28] No space left on device: 'ckpt.pt'")}, job.OutcomeFailed, "disk", "ckpt.pt"},
		{"missing module", Ending{Exit: exited(1), Tail: []byte("ModuleNotFoundError: No module named 'flash_attn'")}, job.OutcomeFailed, "module", "flash_attn"},
		{"missing library", Ending{Exit: exited(127), Tail: []byte("./a.out: error while loading shared libraries: libcudart.so.12")}, job.OutcomeFailed, "library", "libcudart"},
		{"shm", Ending{Exit: exited(1), GPUs: 1, Tail: []byte("RuntimeError: DataLoader worker (pid 9) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory. insufficient shared memory (shm)")}, job.OutcomeFailed, "/dev/shm", ""},
		{"not found", Ending{Exit: exited(127)}, job.OutcomeFailed, "not found", ""},
		{"not executable", Ending{Exit: exited(126)}, job.OutcomeFailed, "not executable", ""},
		{"plain failure", Ending{Exit: exited(3)}, job.OutcomeFailed, "exit 3", ""},
		{"not started", Ending{StartErr: errors.New("workdir /nowhere does not exist")}, job.OutcomeFailed, "/nowhere", ""},
		{"time limit beats the text it printed on TERM", Ending{Cause: runner.Timeout, Exit: signalled("SIGTERM"), GPUs: 1, Tail: []byte("CUDA out of memory")}, job.OutcomeTimeout, "limit", ""},
		{"cancel", Ending{Cause: runner.Cancelled, CancelledBy: "ann", Exit: signalled("SIGTERM")}, job.OutcomeCancelled, "by ann", ""},
		{"drain", Ending{Cause: runner.Drained, Exit: signalled("SIGTERM")}, job.OutcomeInterrupted, "drained", ""},
		{"session lost", Ending{Cause: runner.SessionLost, Exit: signalled("SIGKILL")}, job.OutcomeInterrupted, "claim_lost", ""},
		{"engine lost", Ending{Cause: runner.EngineLost, Exit: exited(125)}, job.OutcomeInterrupted, "engine_lost", ""},
		{"shim lost", Ending{Cause: runner.ShimLost}, job.OutcomeInterrupted, "shim_lost", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := Judge(c.in)
			if got.Outcome != c.want || !strings.Contains(got.Reason, c.reason) || !strings.Contains(got.Evidence, c.evidence) {
				t.Errorf("Judge = %+v\nwant %s, reason with %q, evidence with %q", got, c.want, c.reason, c.evidence)
			}
		})
	}
}

func TestJudgeKeepsEvidenceShortAndPrintable(t *testing.T) {
	t.Parallel()
	tail := append([]byte("CUDA out of memory \xff\xfe "), []byte(strings.Repeat("x", 70_000))...)
	v := Judge(Ending{Exit: exited(1), GPUs: 1, Tail: tail})
	if len(v.Evidence) > maxEvidence+8 || !strings.Contains(v.Evidence, "CUDA out of memory \uFFFD") {
		t.Errorf("evidence has %d bytes: %.60q", len(v.Evidence), v.Evidence)
	}
}
