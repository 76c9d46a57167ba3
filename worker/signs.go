package worker

import (
	"regexp"

	"github.com/berthq/berth/job"
)

// sign is a line a framework prints when it dies of something we can name.
type sign struct {
	outcome job.Outcome
	reason  string
	gpuOnly bool // means something only on a run that held a GPU
	pattern *regexp.Regexp
}

// signs are looked for in the tail, first match wins: hardware, GPU memory, other CUDA errors, host memory, the rest.
var signs = []sign{
	{job.OutcomeGPUFault, "a GPU of the run failed (uncorrectable ECC error)", true,
		regexp.MustCompile(`(?i)uncorrectable ECC error encountered|CUDA_ERROR_ECC_UNCORRECTABLE|cudaErrorECCUncorrectable`)},
	{job.OutcomeGPUFault, "a GPU of the run was lost", true,
		regexp.MustCompile(`GPU is lost|GPU has fallen off the bus|CUDA_ERROR_DEVICE_UNAVAILABLE|cudaErrorDevicesUnavailable|CUDA-capable device\(s\) is/are busy or unavailable`)},

	{job.OutcomeOOMGPU, "the GPU's memory was full", true, regexp.MustCompile(
		`CUDA out of memory|torch(\.cuda)?\.OutOfMemoryError|(CUDA|HIP) (runtime )?error:? (\(?2\)?:? ?)?out of memory|HIP out of memory` +
			`|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|cudaMalloc(Async|Managed|Host)? failed: out of memory` +
			`|RESOURCE_EXHAUSTED: Out of memory|OOM when allocating|CU(BLAS|DNN|SOLVER|SPARSE|FFT)_STATUS_ALLOC_FAILED|CUFFT_ALLOC_FAILED` +
			`|cupy\S*\.OutOfMemoryError|Cuda failure (2 )?'out of memory'|CL_MEM_OBJECT_ALLOCATION_FAILURE|MEM_OBJECT_ALLOCATION_FAILURE` +
			`|No available memory for the cache blocks|less than desired GPU memory utilization|thrust::.*bad_alloc.*cudaError`)},

	{job.OutcomeFailed, "the program reached outside its GPU memory", true,
		regexp.MustCompile(`illegal memory access|CUDA_ERROR_ILLEGAL_ADDRESS|misaligned address`)},
	{job.OutcomeFailed, "an assertion failed on the GPU", true, regexp.MustCompile(`device-side assert`)},
	{job.OutcomeFailed, "a GPU kernel wants more registers or shared memory than the GPU has (Triton)", true,
		regexp.MustCompile(`triton\.\S*\bOutOfResources: out of resource|CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES|too many resources requested for launch`)},
	{job.OutcomeFailed, "the program was not built for this GPU", true,
		regexp.MustCompile(`no kernel image is available|CUDA_ERROR_NO_BINARY_FOR_GPU|is not compatible with the current PyTorch installation|ptxas (fatal|error).*(sm_|Unsupported)`)},
	{job.OutcomeFailed, "a GPU kernel failed", true, regexp.MustCompile(`unspecified launch failure|CUDA_ERROR_LAUNCH_FAILED|CUDA error: an illegal instruction`)},
	{job.OutcomeFailed, "the GPU driver does not go with the program's CUDA", false, regexp.MustCompile(
		`CUDA driver version is insufficient for CUDA runtime version|(NVIDIA|CUDA) driver on your system is too old|Driver/library version mismatch` +
			`|CUDA_ERROR_SYSTEM_DRIVER_MISMATCH|CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE|unsupported display driver / cuda driver combination` +
			`|the provided PTX was compiled with an unsupported toolchain`)},
	{job.OutcomeFailed, "the program saw no GPU", false, regexp.MustCompile(
		`no CUDA-capable device is detected|CUDA_ERROR_NO_DEVICE|Found no NVIDIA driver on your system|No CUDA GPUs are available` +
			`|Torch not compiled with CUDA enabled|invalid device ordinal|cudaErrorNoDevice|Unable to initialize backend 'cuda'`)},
	{job.OutcomeFailed, "the processes of the run lost touch with one another (NCCL)", true,
		regexp.MustCompile(`(?i)NCCL.*(timeout|timed out)|ncclSystemError|ncclRemoteError|ncclInternalError|Watchdog caught collective operation timeout`)},

	{job.OutcomeFailed, "shared memory ran out (/dev/shm)", false, regexp.MustCompile(`insufficient shared memory \(shm\)|unable to (open|write to|resize) (shared memory object|file) </torch_`)},
	{job.OutcomeOOMHost, "the machine's memory was full", false, regexp.MustCompile(
		`DefaultCPUAllocator: (can't|not enough)|std::bad_alloc|^MemoryError\b|_ArrayMemoryError|Unable to allocate [0-9.]+ [KMGT]iB for an array` +
			`|DataLoader worker \(pid[^)]*\) is killed by signal: Killed|java\.lang\.OutOfMemoryError|Cannot allocate memory|fatal error: runtime: out of memory` +
			`|killed due to memory pressure|WorkerCrashedError.*OOM|ray\.exceptions\.OutOfMemoryError|memory allocation of \d+ bytes failed` +
			`|Killed process \d+ .*total-vm|slurmstepd: error: Detected \d+ oom.kill event|Allocation failed - JavaScript heap out of memory`)},

	{job.OutcomeFailed, "the disk was full", false, regexp.MustCompile(`No space left on device|Disk quota exceeded|PytorchStreamWriter failed writing file`)},
	{job.OutcomeFailed, "a shared library is missing", false, regexp.MustCompile(`error while loading shared libraries|cannot open shared object file|version .GLIBC\S*' not found`)},
	{job.OutcomeFailed, "a Python module is missing", false, regexp.MustCompile(`ModuleNotFoundError: No module named|ImportError: |No module named \S+`)},
	{job.OutcomeFailed, "the program's interpreter is missing", false, regexp.MustCompile(`bad interpreter: No such file|env: .*: No such file or directory`)},
	{job.OutcomeFailed, "the file is not a program this machine can run", false, regexp.MustCompile(`Exec format error|cannot execute binary file`)},
	{job.OutcomeFailed, "another process has the port", false, regexp.MustCompile(`EADDRINUSE|Address already in use`)},
	{job.OutcomeFailed, "too many files were open (ulimit -n)", false, regexp.MustCompile(`Too many open files`)},
	{job.OutcomeFailed, "a file may not be used (permission denied)", false, regexp.MustCompile(`Permission denied|PermissionError:`)},
	{job.OutcomeFailed, "a process of the run crashed (segmentation fault)", false, regexp.MustCompile(`Segmentation fault|Fatal Python error: Segmentation fault|Signal 11 \(SIGSEGV\)|exitcode +: -11\b`)},
	{job.OutcomeFailed, "a process of the run crashed (bus error: often a full /dev/shm or a truncated file)", false, regexp.MustCompile(`\bBus error|Fatal Python error: Bus error|Signal 7 \(SIGBUS\)`)},
	{job.OutcomeFailed, "a process of the run was killed from outside (SIGKILL)", false, regexp.MustCompile(`exits with return code = -9|Signal 9 \(SIGKILL\)|exitcode +: -9\b|^Killed$`)},
}

// fromRules looks for the first of the job's own rules that a line of the tail matches. They were checked at submit.
func fromRules(e Ending) (Verdict, bool) {
	lines := tailLines(e.Tail)
	for _, rule := range e.Rules {
		pattern, err := regexp.Compile(rule.Match)
		if err != nil {
			continue // of a newer version's syntax
		}
		for i := len(lines) - 1; i >= 0; i-- {
			if pattern.Match(lines[i]) {
				return ruled(rule, lines[i]), true
			}
		}
	}
	return Verdict{}, false
}

func ruled(rule job.FailReason, line []byte) Verdict {
	v := Verdict{rule.Outcome, rule.Reason, evidenceLine(line)}
	if v.Outcome == "" {
		v.Outcome = job.OutcomeFailed
	}
	if v.Reason == "" {
		v.Reason = "matched the job's own rule " + rule.Match
	}
	return v
}
