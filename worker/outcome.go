package worker

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/runner"
)

// CauseGPUFault is the worker's own cause for ending a run: a device under it failed.
const CauseGPUFault runner.Cause = "gpu_fault"

// Ending is everything known about how an attempt ended.
type Ending struct {
	Cause    runner.Cause // why Berth itself ended the run; empty when it ended by itself
	Exit     job.Exit
	StartErr error // the command could not be started at all
	GPUs     int   // devices the run held

	// OOMKills is how often the kernel killed a process of the run's own cgroup for memory.
	OOMKills int
	// GPUFault is the fatal fault seen on a device of the run while it ran ("XID 79 on GPU 0: ..."), empty if none.
	GPUFault string
	// GPUAppFault is an application fault (XID 13, 31, 43, 45, 68, 109) on a device of the run, as evidence only.
	GPUAppFault string
	// PeakMemoryPercent is the fullest any device of the run was seen.
	PeakMemoryPercent *float64
	// Tail is the end of stdout and stderr, 64 KiB at most.
	Tail []byte
	// CancelledBy says who asked, for the reason.
	CancelledBy string
}

// Verdict is the outcome of an attempt with the reason in words and the line, counter or fault it rests on.
type Verdict struct {
	Outcome  job.Outcome
	Reason   string
	Evidence string
}

// Judge decides what an ending means. What Berth did itself comes first, then success, then evidence from strongest
// to weakest: a hardware fault, the kernel's counter, what the frameworks print, the bare signal or code. A code of
// 137 alone proves nothing: people, container engines and evictions send SIGKILL too.
func Judge(e Ending) Verdict {
	if v, ours := ownAction(e); ours {
		return v
	}
	if e.StartErr != nil {
		return Verdict{job.OutcomeFailed, "the command could not be started: " + e.StartErr.Error(), ""}
	}
	if e.Exit.Code == 0 && e.Exit.Signal == "" {
		return Verdict{Outcome: job.OutcomeSucceeded}
	}
	if e.GPUFault != "" {
		return Verdict{job.OutcomeGPUFault, "a GPU of the run failed", e.GPUFault}
	}
	if e.OOMKills > 0 {
		return Verdict{job.OutcomeOOMHost, "the kernel killed a process of the run: it used more host memory than it asked for",
			fmt.Sprintf("oom_kill %d in the run's cgroup", e.OOMKills)}
	}
	if v, ok := fromTail(e); ok {
		return v
	}
	return fromExit(e)
}

func ownAction(e Ending) (Verdict, bool) {
	switch e.Cause {
	case runner.Timeout:
		return Verdict{job.OutcomeTimeout, "ran into its time limit", ""}, true
	case runner.Cancelled:
		reason := "cancelled"
		if e.CancelledBy != "" {
			reason += " by " + e.CancelledBy
		}
		return Verdict{job.OutcomeCancelled, reason, ""}, true
	case runner.Drained:
		return Verdict{job.OutcomeInterrupted, "drained: the machine was asked to stop its runs", ""}, true
	case runner.Preempted:
		return Verdict{job.OutcomeInterrupted, "preempted: a job of higher priority needs the place", ""}, true
	case runner.SessionLost:
		return Verdict{job.OutcomeInterrupted, "claim_lost: the worker had no proof for too long that the job was still its own", ""}, true
	case runner.ShimLost:
		return Verdict{job.OutcomeInterrupted, "shim_lost: the run's supervisor was killed, its end is unknown; what was left of it was stopped", ""}, true
	case CauseReleased:
		return Verdict{job.OutcomeSucceeded, e.CancelledBy, ""}, true
	case CauseGPUFault:
		return Verdict{job.OutcomeGPUFault, "a GPU of the run failed; the run was stopped", e.GPUFault}, true
	}
	return Verdict{}, false
}

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
	{job.OutcomeFailed, "a GPU kernel failed", true, regexp.MustCompile(`unspecified launch failure|CUDA_ERROR_LAUNCH_FAILED|no kernel image is available`)},
	{job.OutcomeFailed, "the program saw no GPU", false,
		regexp.MustCompile(`no CUDA-capable device is detected|CUDA_ERROR_NO_DEVICE|Found no NVIDIA driver on your system|No CUDA GPUs are available`)},
	{job.OutcomeFailed, "the processes of the run lost touch with one another (NCCL)", true,
		regexp.MustCompile(`(?i)NCCL.*(timeout|timed out)|ncclSystemError|ncclRemoteError|ncclInternalError|Watchdog caught collective operation timeout`)},

	{job.OutcomeOOMHost, "the machine's memory was full", false, regexp.MustCompile(
		`DefaultCPUAllocator: (can't|not enough)|std::bad_alloc|^MemoryError\b|_ArrayMemoryError|Unable to allocate [0-9.]+ [KMGT]iB for an array` +
			`|DataLoader worker \(pid[^)]*\) is killed by signal: Killed|java\.lang\.OutOfMemoryError|Cannot allocate memory|fatal error: runtime: out of memory`)},

	{job.OutcomeFailed, "the disk was full", false, regexp.MustCompile(`No space left on device|Disk quota exceeded`)},
	{job.OutcomeFailed, "a Python module is missing", false, regexp.MustCompile(`ModuleNotFoundError: No module named|ImportError: `)},
	{job.OutcomeFailed, "a shared library is missing", false, regexp.MustCompile(`error while loading shared libraries|cannot open shared object file`)},
	{job.OutcomeFailed, "shared memory ran out (/dev/shm)", false, regexp.MustCompile(`insufficient shared memory \(shm\)|unable to (open|write to) (shared memory object|file) </torch_`)},
}

// fromTail looks for the first sign, in the order of signs; the evidence is the last line that shows it, since the
// last is what ended the run.
func fromTail(e Ending) (Verdict, bool) {
	lines := bytes.FieldsFunc(e.Tail, func(r rune) bool { return r == '\n' || r == '\r' })
	for _, s := range signs {
		if s.gpuOnly && e.GPUs == 0 {
			continue
		}
		for i := len(lines) - 1; i >= 0; i-- {
			if s.pattern.Match(lines[i]) {
				return Verdict{s.outcome, s.reason + strengthen(s, e), evidenceLine(lines[i])}, true
			}
		}
	}
	return Verdict{}, false
}

// strengthen adds what was measured where it bears the text out. A low peak says nothing: an allocation that failed was
// never seen, and one that stood for less than a sample may not have been.
func strengthen(s sign, e Ending) string {
	if s.outcome == job.OutcomeOOMGPU && e.PeakMemoryPercent != nil && *e.PeakMemoryPercent >= 90 {
		return fmt.Sprintf(" (seen up to %.0f %% full)", *e.PeakMemoryPercent)
	}
	return ""
}

const maxEvidence = 400 // bytes; the whole line is in the log

func evidenceLine(line []byte) string {
	s := strings.ToValidUTF8(strings.TrimSpace(string(line)), "\uFFFD")
	if len(s) > maxEvidence {
		s = strings.ToValidUTF8(s[:maxEvidence], "") + "…"
	}
	return s
}

func fromExit(e Ending) Verdict {
	v := Verdict{Outcome: job.OutcomeFailed, Evidence: e.GPUAppFault}
	switch {
	case e.Exit.Signal == "SIGKILL":
		v.Reason = "killed from outside (SIGKILL); Berth did not, and the run's memory counter shows no out-of-memory"
	case e.Exit.Signal == "SIGSEGV", e.Exit.Signal == "SIGBUS", e.Exit.Signal == "SIGILL", e.Exit.Signal == "SIGFPE", e.Exit.Signal == "SIGABRT":
		v.Reason = "the program crashed (" + e.Exit.Signal + ")"
	case e.Exit.Signal != "":
		v.Reason = "ended by " + e.Exit.Signal
	case e.Exit.Code == 126:
		v.Reason = "exit 126: the command is not executable"
	case e.Exit.Code == 127:
		v.Reason = "exit 127: the command was not found"
	case e.Exit.Code > 128 && e.Exit.Code < 128+65:
		v.Reason = fmt.Sprintf("exit %d: a process of the run ended by signal %d", e.Exit.Code, e.Exit.Code-128)
	default:
		v.Reason = fmt.Sprintf("exit %d", e.Exit.Code)
	}
	return v
}
