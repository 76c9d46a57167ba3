package job_test

import (
	"fmt"

	"github.com/berthq/berth/job"
)

func ExampleParseSpecs() {
	specs, err := job.ParseSpecs([]byte(`
name: reconstruct
command: [python, reconstruct.py, "{{.ArrayIndex}}"]
array: 1-150%8
resources: {gpus: 1, gpu_memory: 20Gi}
`), "scan.yaml")
	if err != nil {
		fmt.Println(err)
		return
	}
	tasks, err := job.Expand(specs[0])
	if err != nil {
		fmt.Println(err)
		return
	}
	last, _ := tasks.At(tasks.Count - 1)
	fmt.Println(specs[0].Name, specs[0].Resources.GPUMemory, tasks.Count, tasks.MaxConcurrent, last)
	// Output: reconstruct 20Gi 150 8 150
}

// Everything wrong with a file is said at once, with its place.
func ExampleParseSpecs_errors() {
	_, err := job.ParseSpecs([]byte(`name: reconstruct
comand: [python, reconstruct.py]
resources:
  gpus: 1
  gpu_memory: 20GiBi
`), "scan.yaml")
	fmt.Println(err)
	// Output:
	// scan.yaml:2:1: unknown field `comand` (did you mean `command`?)
	// scan.yaml:5:15: resources.gpu_memory: "20GiBi" is not a memory size: want for example 20Gi, 8000MB, 8000 (MiB) or auto
}

// Jobs that ask for nearly the same share a lane, and none is kept from a card that could hold it.
func ExampleShapeOf() {
	asked := job.Requirements{GPUs: 1, GPUMemoryMB: 24500, Why: "asked for"}
	shape := job.ShapeOf(asked)
	fmt.Println(shape.ID, shape.Requirements.GPUMemoryMB) // an RTX 4090 has 24564 MiB
	fmt.Println(job.BandOf(50))
	// Output:
	// g1m24-e26beb21852f 24564
	// 1
}
