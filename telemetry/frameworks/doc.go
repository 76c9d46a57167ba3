// Package frameworks finds out which Python frameworks really see which GPUs: PyTorch, CuPy, TensorFlow, JAX and
// pyclesperanto. NVML seeing a card says little about them: a build without CUDA, a driver too old for the build or a
// missing library all show only when the framework itself is asked.
//
// It owns the asking: each framework in a process of its own, with a time limit, its process group killed at the end
// whatever it did, so that one that hangs or crashes costs its answer and nothing else. It never imports anything into
// the worker, never allocates on a GPU where the framework can look without, and never decides what a framework that
// sees too little means; [Missing] puts that into sentences and gpuslots does the rest.
//
//	Probe --survey--> installed? --no--> absent from the report
//	                      |
//	                     yes --known from before, and saw every GPU--> from the store
//	                      |
//	                      +--asked in a process--> saw these GPUs | an error: crashed, hung, could not be imported
//
// JAX is asked only by name: importing it starts dozens of threads, and its look at the GPUs makes a context of some
// hundred MiB on each.
//
// Only an answer that names every GPU is kept for the next start. One that falls short is usually being repaired (a
// driver service not up yet, a package about to be replaced), and asking again costs seconds.
package frameworks
