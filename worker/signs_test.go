package worker

import (
	"strings"
	"testing"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/runner"
)

// realEndings are what programs wrote when they died, as they wrote it, several lines where they write several. Each is
// judged as a run of one GPU that ended with code (a negative one is a signal).
var realEndings = []struct {
	name     string
	code     int
	text     string
	want     job.Outcome
	reason   string
	evidence string
}{
	{"pytorch 2", 1, `Traceback (most recent call last):
  File "/w/train.py", line 88, in <module>
    loss.backward()
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 23.69 GiB of which 1.06 GiB is free. Including non-PyTorch memory, this process has 22.61 GiB memory in use. Of the allocated memory 21.93 GiB is allocated by PyTorch, and 386.30 MiB is reserved by PyTorch but unallocated.
`, job.OutcomeOOMGPU, "memory was full", "Tried to allocate 2.00 GiB"},
	{"pytorch 1", 1, `RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 7.80 GiB total capacity; 6.34 GiB already allocated; 17.31 MiB free; 6.40 GiB reserved in total by PyTorch)`,
		job.OutcomeOOMGPU, "memory was full", "7.80 GiB total"},
	{"pytorch on AMD", 1, `torch.OutOfMemoryError: HIP out of memory. Tried to allocate 16.00 GiB. GPU 0 has a total capacity of 63.98 GiB`, job.OutcomeOOMGPU, "", "HIP"},
	{"pytorch accelerate rank", 1, `[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.96 GiB.
E1121 06:00:00.000000 4242 site-packages/torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 0 (pid: 4300) of binary: /usr/bin/python
`, job.OutcomeOOMGPU, "", "[rank0]"},
	{"jax", 1, `jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.`, job.OutcomeOOMGPU, "", "17179869184"},
	{"jax allocator log", 134, `2026-01-31 08:00:00.000000: W external/xla/xla/tsl/framework/bfc_allocator.cc:501] Allocator (GPU_0_bfc) ran out of memory trying to allocate 16.00GiB (rounded to 17179869184)requested by op
2026-01-31 08:00:00.000001: E external/xla/xla/stream_executor/cuda/cuda_driver.cc:1017] failed to allocate 16.00GiB (17179869184 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory`,
		job.OutcomeOOMGPU, "", "CUDA_ERROR_OUT_OF_MEMORY"},
	{"jax without its plugin", 1, `RuntimeError: Unable to initialize backend 'cuda': FAILED_PRECONDITION: No visible GPU devices. (you may need to uninstall the failing plugin package, or set JAX_PLATFORMS=cpu to skip this backend.)`,
		job.OutcomeFailed, "saw no GPU", "backend 'cuda'"},
	{"tensorflow", 1, `tensorflow.python.framework.errors_impl.ResourceExhaustedError: {{function_node __wrapped__Conv2D_device_/job:localhost/replica:0/task:0/device:GPU:0}} OOM when allocating tensor with shape[256,64,224,224] and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc [Op:Conv2D]`,
		job.OutcomeOOMGPU, "", "shape[256"},
	{"cupy", 1, `cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 34,359,738,368 bytes (allocated so far: 1,024 bytes, limit set to: 25,300,000,000 bytes).`, job.OutcomeOOMGPU, "", "34,359,738,368"},
	{"cupy runtime", 1, `cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorMemoryAllocation: out of memory`, job.OutcomeOOMGPU, "", "cudaErrorMemoryAllocation"},
	{"cublas", 1, "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", job.OutcomeOOMGPU, "", "cublasCreate"},
	{"vllm cache", 1, "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.", job.OutcomeOOMGPU, "", "cache blocks"},
	{"vllm shared card", 1, `ValueError: Free memory on device (5.34/23.69 GiB) on startup is less than desired GPU memory utilization (0.9, 21.32 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.`, job.OutcomeOOMGPU, "", "5.34/23.69"},
	{"llama.cpp", 1, "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 8192.00 MiB on device 0: cudaMalloc failed: out of memory\nllama_model_load: error loading model: unable to allocate CUDA0 buffer", job.OutcomeOOMGPU, "", "cudaMalloc failed"},
	{"pyclesperanto", 1, `pyopencl._cl.MemoryError: clCreateBuffer failed: MEM_OBJECT_ALLOCATION_FAILURE`, job.OutcomeOOMGPU, "", "clCreateBuffer"},
	{"nccl memory", 1, `torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/NCCLUtils.hpp:268, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.20.5
Last error:
Cuda failure 2 'out of memory'`, job.OutcomeOOMGPU, "", "Cuda failure 2"},

	{"nccl watchdog", -6, `[rank3]:[E ProcessGroupNCCL.cpp:607] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1043, OpType=ALLREDUCE, NumelIn=4194304, NumelOut=4194304, Timeout(ms)=600000) ran for 600029 milliseconds before timing out.`,
		job.OutcomeFailed, "NCCL", "SeqNum=1043"},
	{"nccl remote", 1, `torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:2251, remote process exited or there was a network error, NCCL version 2.21.5
ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.`, job.OutcomeFailed, "NCCL", "ncclRemoteError"},
	{"rendezvous port", 1, `torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use`, job.OutcomeFailed, "port", "29500"},
	{"deepspeed child killed", 247, `[2026-01-31 08:00:00,000] [INFO] [launch.py:319:sigkill_handler] Killing subprocess 4711
[2026-01-31 08:00:00,001] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python', '-u', 'train.py', '--local_rank=0'] exits with return code = -9`, job.OutcomeFailed, "killed from outside", "return code = -9"},
	{"torchrun child killed", 1, `Root Cause (first observed failure):
[0]:
  exitcode  : -9 (pid: 3377)
  traceback : Signal 9 (SIGKILL) received by PID 3377`, job.OutcomeFailed, "killed from outside", "3377"},

	{"illegal access", 1, `RuntimeError: CUDA error: an illegal memory access was encountered
CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.`, job.OutcomeFailed, "outside its GPU memory", "illegal memory access"},
	{"device assert", 1, `/pytorch/aten/src/ATen/native/cuda/Indexing.cu:1422: indexSelectLargeIndex: block: [120,0,0], thread: [0,0,0] Assertion ` + "`srcIndex < srcSelectDimSize`" + ` failed.
RuntimeError: CUDA error: device-side assert triggered`, job.OutcomeFailed, "assertion", "device-side assert"},
	{"triton", 1, `triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 163840, Hardware limit: 101376. Reducing block sizes or ` + "`num_stages`" + ` may help.`, job.OutcomeFailed, "Triton", "163840"},
	{"wrong architecture", 1, `RuntimeError: CUDA error: no kernel image is available for execution on the device`, job.OutcomeFailed, "not built for this GPU", "no kernel image"},
	{"new card, old torch", 1, `NVIDIA H200 with CUDA capability sm_90 is not compatible with the current PyTorch installation.`, job.OutcomeFailed, "not built for this GPU", "sm_90"},
	{"old driver, torch", 1, `RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver by downloading and installing a new version`, job.OutcomeFailed, "driver", "11040"},
	{"old driver, runtime", 1, `cudaGetDeviceCount failed: CUDA driver version is insufficient for CUDA runtime version`, job.OutcomeFailed, "driver", "insufficient"},
	{"driver updated under it", 255, `Failed to initialize NVML: Driver/library version mismatch
NVML library version: 550.54`, job.OutcomeFailed, "driver", "mismatch"},
	{"803", 1, `RuntimeError: Unexpected error from cudaGetDeviceCount(). Error 803: system has unsupported display driver / cuda driver combination`, job.OutcomeFailed, "driver", "803"},
	{"no driver", 1, `RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver from http://www.nvidia.com/Download/index.aspx`, job.OutcomeFailed, "saw no GPU", "Found no NVIDIA"},
	{"cpu torch", 1, `AssertionError: Torch not compiled with CUDA enabled`, job.OutcomeFailed, "saw no GPU", "not compiled"},
	{"cuda:4 of one", 1, `RuntimeError: CUDA error: invalid device ordinal`, job.OutcomeFailed, "saw no GPU", "ordinal"},
	{"ecc", 1, `RuntimeError: CUDA error: uncorrectable ECC error encountered`, job.OutcomeGPUFault, "ECC", "uncorrectable"},
	{"bus", 1, `Unable to determine the device handle for GPU0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU`, job.OutcomeGPUFault, "lost", "3B:00.0"},

	{"numpy", 1, `numpy.core._exceptions._ArrayMemoryError: Unable to allocate 74.5 GiB for an array with shape (100000, 100000) and data type float64`, job.OutcomeOOMHost, "machine's memory", "74.5 GiB"},
	{"torch host", 1, `RuntimeError: [enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 400000000000 bytes. Error code 12 (Cannot allocate memory)`, job.OutcomeOOMHost, "machine's memory", "400000000000"},
	{"loader worker killed", 1, `RuntimeError: DataLoader worker (pid 90532) is killed by signal: Killed. `, job.OutcomeOOMHost, "machine's memory", "90532"},
	{"c++", -6, `terminate called after throwing an instance of 'std::bad_alloc'
  what():  std::bad_alloc`, job.OutcomeOOMHost, "machine's memory", "bad_alloc"},
	{"node", -6, `FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory`, job.OutcomeOOMHost, "machine's memory", "heap limit"},
	{"rust", -6, `memory allocation of 68719476736 bytes failed`, job.OutcomeOOMHost, "machine's memory", "68719476736"},
	{"kernel log in the output", 137, `Out of memory: Killed process 4321 (python) total-vm:91022336kB, anon-rss:64553000kB`, job.OutcomeOOMHost, "machine's memory", "4321"},

	{"disk full", 1, `OSError: [Errno 28] No space left on device: '/scratch/ckpt/model.pt'`, job.OutcomeFailed, "disk was full", "/scratch"},
	{"torch.save on a full disk", 1, `RuntimeError: [enforce fail at inline_container.cc:603] . unexpected pos 1342177280 vs 1342177168
RuntimeError: PytorchStreamWriter failed writing file data/312: file write failed`, job.OutcomeFailed, "disk was full", "data/312"},
	{"quota", 1, `cp: error writing '/home/ann/data.bin': Disk quota exceeded`, job.OutcomeFailed, "disk was full", "data.bin"},
	{"shm", 1, `ERROR: Unexpected bus error encountered in worker. This might be caused by insufficient shared memory (shm).
RuntimeError: DataLoader worker (pid 81) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.`, job.OutcomeFailed, "/dev/shm", "insufficient"},
	{"missing module", 1, `Traceback (most recent call last):
  File "/w/train.py", line 3, in <module>
    import flash_attn
ModuleNotFoundError: No module named 'flash_attn'`, job.OutcomeFailed, "module", "flash_attn"},
	{"missing library", 127, `./solver: error while loading shared libraries: libcudart.so.12: cannot open shared object file: No such file or directory`, job.OutcomeFailed, "shared library", "libcudart.so.12"},
	{"missing library, python", 1, `ImportError: libcudnn.so.9: cannot open shared object file: No such file or directory`, job.OutcomeFailed, "shared library", "libcudnn"},
	{"old glibc", 1, `/w/solver: /lib/x86_64-linux-gnu/libc.so.6: version ` + "`GLIBC_2.38'" + ` not found (required by /w/solver)`, job.OutcomeFailed, "shared library", "GLIBC_2.38"},
	{"missing interpreter", 126, `bash: ./run.sh: /usr/bin/python2: bad interpreter: No such file or directory`, job.OutcomeFailed, "interpreter", "python2"},
	{"env without python", 127, `/usr/bin/env: ‘python’: No such file or directory`, job.OutcomeFailed, "interpreter", "python"},
	{"exec format", 126, `bash: ./solver: cannot execute binary file: Exec format error`, job.OutcomeFailed, "not a program", "Exec format"},
	{"permission", 1, `PermissionError: [Errno 13] Permission denied: '/data/out/part-0.npz'`, job.OutcomeFailed, "permission", "part-0"},
	{"open files", 1, `OSError: [Errno 24] Too many open files: 'shard-1021.tar'`, job.OutcomeFailed, "ulimit", "shard-1021"},
	{"python segfault", -11, `Fatal Python error: Segmentation fault

Current thread 0x00007f1 (most recent call first):
  File "/w/ext.py", line 5 in <module>`, job.OutcomeFailed, "segmentation", "Fatal Python"},
	{"segfault under a shell", 139, `bash: line 1: 12345 Segmentation fault      (core dumped) ./solver`, job.OutcomeFailed, "segmentation", "core dumped"},
	{"silent segfault", -11, ``, job.OutcomeFailed, "SIGSEGV", ""},
	{"silent bus error", -7, ``, job.OutcomeFailed, "SIGBUS", ""},
	{"bus error under a shell", 135, `bash: line 1:  4242 Bus error               (core dumped) ./mapper data.bin`, job.OutcomeFailed, "bus error", "data.bin"},
	{"python traceback", 1, `Traceback (most recent call last):
  File "/w/train.py", line 12, in <module>
    main(cfg["lr"])
KeyError: 'lr'
`, job.OutcomeFailed, "exit 1", "KeyError: 'lr'"},
	{"plain exit", 33, "checkpoint is from a newer version\n", job.OutcomeFailed, "exit 33", "newer version"},
	{"killed from outside", -9, "", job.OutcomeFailed, "from outside", ""},
}

var signalNames = map[int]string{6: "SIGABRT", 7: "SIGBUS", 9: "SIGKILL", 11: "SIGSEGV"}

// TestRealEndings judges real last words, each with the line it rests on.
func TestRealEndings(t *testing.T) {
	t.Parallel()
	for _, c := range realEndings {
		exit := job.Exit{Code: c.code}
		if c.code < 0 {
			exit = job.Exit{Code: 128 - c.code, Signal: signalNames[-c.code]}
		}
		got := Judge(Ending{Exit: exit, GPUs: 1, Tail: []byte("epoch 1  loss 2.30\n" + c.text)})
		if got.Outcome != c.want || !strings.Contains(got.Reason, c.reason) || !strings.Contains(got.Evidence, c.evidence) {
			t.Errorf("%s: %+v\nwant %s, reason with %q, evidence with %q", c.name, got, c.want, c.reason, c.evidence)
		}
	}
	if len(realEndings) < 50 {
		t.Errorf("the table has shrunk to %d endings", len(realEndings))
	}
}

// TestOwnRules: the job's rules win over everything but success and what Berth itself did.
func TestOwnRules(t *testing.T) {
	t.Parallel()
	rules := []job.FailReason{
		{Match: `licence server`, Outcome: job.OutcomeTimeout, Reason: "no licence"},
		{Match: `(?i)cuda error`},
	}
	tail := []byte("CUDA error: out of memory\nlost the licence server at 10.0.0.7\nbye\n")
	for name, e := range map[string]Ending{
		"text":    {Exit: exited(1), GPUs: 1},
		"counter": {Exit: exited(137), OOMKills: 1},
		"fault":   {Exit: exited(1), GPUs: 1, GPUFault: "XID 79 on GPU 0"},
		"signal":  {Exit: signalled("SIGSEGV")},
	} {
		e.Rules, e.Tail = rules, tail
		want := Verdict{job.OutcomeTimeout, "no licence", "lost the licence server at 10.0.0.7"}
		if got := Judge(e); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	if got := Judge(Ending{Rules: rules[1:], Tail: tail, GPUs: 1, Exit: exited(1)}); got.Outcome != job.OutcomeFailed || !strings.Contains(got.Reason, "own rule") {
		t.Errorf("a rule without words: %+v", got)
	}
	if got := Judge(Ending{Rules: rules, Tail: tail, Exit: exited(0)}); got.Outcome != job.OutcomeSucceeded {
		t.Errorf("a success: %+v", got)
	}
	if got := Judge(Ending{Rules: rules, Tail: tail, Cause: runner.Cancelled}); got.Outcome != job.OutcomeCancelled {
		t.Errorf("a cancel: %+v", got)
	}
}

// TestOwnRuleInAResult: a rule reaches from the spec to the result, and the retry rule goes by it.
func TestOwnRuleInAResult(t *testing.T) {
	h := newHouse(t, "")
	h.work("alpha")
	spec := h.spec("err=solver diverged at step 7", "exit=1")
	spec.FailReasons = []job.FailReason{{Match: `diverged at step \d+`, Outcome: job.OutcomeOOMHost, Reason: "diverged"}}
	spec.Retry = &job.Retry{Retries: 3, NeverOn: []string{"oom_host"}}
	r := h.result(queue.JobRef(h.send(job.Job{Spec: spec})))
	if r.State != job.OOMHost || r.Reason != "diverged" || r.Evidence != "solver diverged at step 7" || r.Attempt != 1 {
		t.Errorf("%s %q %q after %d attempts", r.State, r.Reason, r.Evidence, r.Attempt)
	}
}
