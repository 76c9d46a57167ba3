package estimator

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/berthq/berth/estimator/launch"
)

// launcherWorld reads how many GPUs a training launch line starts processes for.
func launcherWorld(line launch.Line) (world, string, error) {
	s := newSettings(line.Flags, nil)
	var w world
	var note string
	var err error
	switch line.Program {
	case launch.Torchrun:
		w, note, err = torchrunWorld(s)
	case launch.Accelerate:
		w, note, err = accelerateWorld(s)
	case launch.DeepSpeed:
		w, note, err = deepspeedWorld(s)
	case launch.VLLM, launch.SGLang, launch.TensorRT:
		return world{}, "", fmt.Errorf("%s is no launcher", line.Program)
	}
	if err == nil && w.gpus > maxWorld {
		err = fmt.Errorf("%w: %d processes on one machine", ErrValue, w.gpus)
	}
	w.rank = ranks{tp: 1, pp: 1, dp: max(1, w.gpus), ep: 1, dcp: 1}
	return w, note, err
}

// openEnded is said when the launcher starts one process for each GPU it is given.
const openEnded = "it starts one process for each GPU it is given: ask for more with resources.gpus"

func torchrunWorld(s *settings) (world, string, error) {
	if nodes := s.text("nnodes"); nodes != "" {
		least, _, _ := strings.Cut(nodes, ":") // elastic, MIN:MAX
		if n, err := strconv.Atoi(least); err != nil || n != 1 {
			return world{}, "", fmt.Errorf("torchrun --nnodes %s %w: one job on several machines is not in this version", nodes, ErrRefused)
		}
	}
	switch text := s.text("nproc-per-node"); text {
	case "":
		return world{gpus: 1, text: "one process (no --nproc-per-node)"}, "", nil
	case "gpu", "auto":
		return world{gpus: 1, text: "--nproc-per-node " + text}, openEnded, nil
	case "cpu":
		return world{gpus: 0, text: "--nproc-per-node cpu"}, "", nil
	}
	return processes(s, "--nproc-per-node", "nproc-per-node")
}

func accelerateWorld(s *settings) (world, string, error) {
	if err := oneMachine(s, "num-machines"); err != nil {
		return world{}, "", fmt.Errorf("accelerate: %w", err)
	}
	if s.on("cpu") || s.on("use-cpu") {
		return world{gpus: 0, text: "--cpu"}, "", nil
	}
	if _, _, ok := s.find([]string{"num-processes"}); ok {
		return processes(s, "--num-processes", "num-processes")
	}
	if ids := s.text("gpu-ids"); ids != "" && ids != "all" {
		n := len(strings.Split(ids, ","))
		return world{gpus: n, text: "--gpu-ids " + ids}, "", nil
	}
	return world{gpus: 1, text: "no --num-processes"}, openEnded, nil
}

func deepspeedWorld(s *settings) (world, string, error) {
	if err := oneMachine(s, "num-nodes"); err != nil {
		return world{}, "", fmt.Errorf("deepspeed: %w", err)
	}
	if include := s.text("include", "i"); include != "" {
		return includeWorld(include)
	}
	if _, _, ok := s.find([]string{"num-gpus", "num-accelerators"}); ok {
		return processes(s, "--num-gpus", "num-gpus", "num-accelerators")
	}
	return world{gpus: 1, text: "no --num-gpus"}, openEnded, nil
}

// includeWorld reads deepspeed's --include localhost:0,1,2.
func includeWorld(include string) (world, string, error) {
	if strings.Contains(include, "@") {
		return world{}, "", fmt.Errorf("deepspeed --include %s %w: one job on several machines is not in this version", clip(include, 60), ErrRefused)
	}
	_, slots, ok := strings.Cut(include, ":")
	if !ok || slots == "" {
		return world{gpus: 1, text: "--include " + clip(include, 60)}, openEnded, nil
	}
	return world{gpus: len(strings.Split(slots, ",")), text: "--include " + clip(include, 60)}, "", nil
}

func processes(s *settings, flag string, names ...string) (world, string, error) {
	list, err := s.sizes(names...)
	if err != nil {
		return world{}, "", err
	}
	n := list[len(list)-1]
	return world{gpus: n, text: fmt.Sprintf("%s %d", flag, n)}, "", nil
}
