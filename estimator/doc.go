// Package estimator turns a job's declaration into what it needs of a machine: GPUs, memory per GPU, and the reason
// in words.
//
// It owns the order of sources (an explicit wish, then the engine's own arithmetic or a launcher's, then the
// autotuner rule), the memory computation from a model's config, and how a requirement grows after an
// out-of-memory. It does no I/O and reads no clock: configs and engine config files are handed in as bytes.
// Package model reads architectures, package launch reads command lines.
//
//	resources.gpus ----------------------------> explicit
//	engine: or its flags in argv --------------> vllm, sglang, tensorrt-llm     \
//	torchrun, accelerate, deepspeed in argv ---> the launcher                    > gpus, memory per GPU, why
//	model, parameters, steps, gpus: auto ------> autotuner (steps: pipeline)    /
//	nothing of these --------------------------> default: no GPU
//
//	memory per GPU:  explicit wish > computed from the config > rule by the model's name > 8000 MiB
package estimator
