package natsembed_test

import (
	"fmt"
	"os"

	"github.com/berthq/berth/natsembed"
)

// A broker without a port, for one process.
func Example() {
	dir, err := os.MkdirTemp("", "berth")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	srv, err := natsembed.Start(natsembed.Options{StoreDir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer srv.Shutdown()

	nc, err := srv.Connect()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer nc.Close()
	fmt.Println("connected:", nc.IsConnected())
	// Output: connected: true
}
