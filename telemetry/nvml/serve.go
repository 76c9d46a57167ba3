//go:build cgo && linux

package nvml

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/berthq/berth/telemetry"
)

const built = true

// Serve is the probe: it loads the library, says hello, and answers questions until in ends. It runs in a process of
// its own and may end it: whatever the library does wrong happens here.
func Serve(in io.Reader, out io.Writer, path string) error {
	runtime.GOMAXPROCS(1) // calls into the library do not count, and nothing else here is worth a second thread
	say := speaker(out)
	go endWith(in, func(asked <-chan request) { serve(asked, say, path) })
	select {} // endWith ends the process
}

// endWith reads questions until the pipe ends, and then the process, also while a call into the library hangs.
func endWith(in io.Reader, work func(<-chan request)) {
	asked := make(chan request, 16)
	go work(asked)
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var r request
		if json.Unmarshal(lines.Bytes(), &r) == nil {
			asked <- r
		}
	}
	os.Exit(0)
}

// speaker writes one line at a time.
func speaker(out io.Writer) func(answer) {
	var mu sync.Mutex
	return func(a answer) {
		line, err := json.Marshal(a)
		if err != nil {
			fatal(fmt.Errorf("write an answer: %w", err))
		}
		mu.Lock()
		defer mu.Unlock()
		if _, err := out.Write(append(line, '\n')); err != nil {
			os.Exit(0) // nobody listens any more
		}
	}
}

func serve(asked <-chan request, say func(answer), path string) {
	lib, err := openLibrary(path)
	if err != nil {
		say(answer{Hello: &hello{Err: err.Error()}})
		return
	}
	r := &reader{lib: lib}
	if err := r.enumerate(); err != nil {
		say(answer{Hello: &hello{Err: err.Error()}})
		return
	}
	r.renewed = false
	set := lib.register(r) // before hello: who has been greeted may count on events
	say(answer{Hello: &hello{Driver: lib.driver, Devices: r.list(), Missing: lib.missing, Problems: r.problems}})
	if set != nil {
		go r.events(set, func(f telemetry.Fault) { say(answer{Fault: &f}) })
	}
	for q := range asked {
		snap, err := r.snapshot()
		if err != nil {
			fatal(err)
		}
		if !r.renewed {
			snap.Devices = nil // as in the hello, or the last answer that had any
		}
		r.renewed = false
		say(answer{ID: q.ID, Snapshot: &snap, Library: r.library.Load()})
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

var errStale = errors.New("the driver was changed under the NVML library that is loaded")

// How long the reading of one device may take before the others are read without it, and all of them together.
const (
	deviceLimit   = 400 * time.Millisecond
	snapshotLimit = 1500 * time.Millisecond
)
