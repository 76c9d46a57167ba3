package config_test

import (
	"fmt"

	"github.com/berthq/berth/internal/config"
)

// The same option from the environment; a flag would win over it.
func ExampleLoadWorker() {
	w, settings, err := config.LoadWorker(config.WorkerSources{
		Environ: []string{"BERTH_WORKER_SLOTS=auto", "HOME=/home/ada"}, Host: "gpu1",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	slots, _ := settings.Get("slots")
	fmt.Println(w.Name, w.Slots, slots.Layer, w.MaxUtil)
	// Output: gpu1 auto environment 50
}
