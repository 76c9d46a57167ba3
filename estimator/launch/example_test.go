package launch_test

import (
	"fmt"

	"github.com/berthq/berth/estimator/launch"
)

func ExampleParse() {
	for _, line := range launch.Parse([]string{"bash", "-lc", "TP=4; exec vllm serve some/model -tp $TP"}, nil) {
		fmt.Println(line.Program, line.Verb, line.Model, line.Flags["tensor-parallel-size"])
	}
	// Output: vllm serve some/model 4
}
