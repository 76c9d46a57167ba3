package runner

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// waker tells readers that something was written in their run's folder. One inotify descriptor serves all runs: the
// kernel gives a user few of them.
type waker struct {
	file *os.File
	done chan struct{}

	mu      sync.Mutex
	watches map[int32]*watch // by watch descriptor
	byDir   map[string]*watch
}

type watch struct {
	wd      int32
	dir     string
	readers map[chan struct{}]bool
}

func newWaker() (*waker, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("watch the logs of runs (fs.inotify.max_user_instances too small?): %w", err)
	}
	w := &waker{file: os.NewFile(uintptr(fd), "inotify"), done: make(chan struct{}), watches: map[int32]*watch{}, byDir: map[string]*watch{}}
	go w.run()
	return w, nil
}

func (w *waker) close() error {
	err := w.file.Close()
	<-w.done
	if errors.Is(err, os.ErrClosed) {
		return nil
	}
	return err
}

// watch returns a channel that gets a value after something was written in dir. Should the kernel refuse the watch, the
// channel stays silent and the reader's own slow look has to do.
func (w *waker) watch(dir string) (<-chan struct{}, func()) {
	c := make(chan struct{}, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	at, ok := w.byDir[dir]
	if !ok {
		wd, err := w.add(dir)
		if err != nil {
			return c, func() {}
		}
		at = &watch{wd: wd, dir: dir, readers: map[chan struct{}]bool{}}
		w.watches[wd], w.byDir[dir] = at, at
	}
	at.readers[c] = true
	return c, func() { w.unwatch(at, c) }
}

func (w *waker) unwatch(at *watch, c chan struct{}) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(at.readers, c)
	if len(at.readers) > 0 || w.byDir[at.dir] != at {
		return
	}
	delete(w.watches, at.wd)
	delete(w.byDir, at.dir)
	_ = w.control(func(fd int) error { // fails when the folder is gone, and the watch with it
		_, err := unix.InotifyRmWatch(fd, uint32(at.wd))
		return err
	})
}

func (w *waker) add(dir string) (wd int32, err error) {
	err = w.control(func(fd int) error {
		n, err := unix.InotifyAddWatch(fd, dir, unix.IN_MODIFY|unix.IN_CREATE|unix.IN_MOVED_TO|unix.IN_ONLYDIR)
		wd = int32(n)
		return err
	})
	return wd, err
}

func (w *waker) control(f func(fd int) error) error {
	conn, err := w.file.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	err = conn.Control(func(fd uintptr) { inner = f(int(fd)) })
	return errors.Join(err, inner)
}

func (w *waker) run() {
	defer close(w.done)
	buf := make([]byte, 16<<10)
	for {
		n, err := w.file.Read(buf)
		if err != nil {
			return
		}
		w.tell(buf[:n])
	}
}

// tell wakes the readers of every folder the events are about; after an overflow, all.
func (w *waker) tell(events []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(events) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(events))
		mask := binary.NativeEndian.Uint32(events[4:])
		length := int(binary.NativeEndian.Uint32(events[12:]))
		events = events[min(len(events), unix.SizeofInotifyEvent+length):]
		if mask&unix.IN_Q_OVERFLOW != 0 {
			for _, at := range w.watches {
				at.wake()
			}
			continue
		}
		if at, ok := w.watches[wd]; ok {
			at.wake()
			if mask&unix.IN_IGNORED != 0 { // the folder was removed
				delete(w.watches, wd)
				delete(w.byDir, at.dir)
			}
		}
	}
}

func (at *watch) wake() {
	for c := range at.readers {
		select {
		case c <- struct{}{}:
		default:
		}
	}
}

// readable reports whether a descriptor has something to read: of a pidfd, that its process has ended.
func readable(fd int) bool {
	fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(fds, 0)
	return err == nil && n == 1
}
