// Package launch reads the command lines that start models: which engine or launcher an argv runs and with which
// flags, also when it hides in `bash -lc "…"`, behind env, nohup or numactl, or in a `for` loop over sizes.
//
// It owns: shell words, the spellings of the programs it knows (vLLM, SGLang, TensorRT-LLM, torchrun, accelerate,
// deepspeed), and engines' own config files, whose bytes the caller hands in. It never runs anything, never reads a
// file or the environment, and never guesses a value it cannot read: an unset shell variable leaves the flag out.
//
//	argv -> simple commands -> program known? -> Line{Program, Verb, Model, Flags, Script}
//	                               no -> nothing
package launch
