package screen

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// Keys reads what is pressed until done is closed, and gives it one at a time: an arrow comes whole.
func (f *Full) Keys(done <-chan struct{}, press chan<- string) (err error) {
	wake, woken, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("read keys: %w", err)
	}
	gone := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(gone)
		select {
		case <-done:
		case <-stop:
		}
		_ = woken.Close() // which ends the wait below
	}()
	defer func() {
		close(stop)
		<-gone
		err = errors.Join(err, wake.Close())
	}()
	waited := []unix.PollFd{{Fd: int32(f.in.Fd()), Events: unix.POLLIN}, {Fd: int32(wake.Fd()), Events: unix.POLLIN}}
	buf := make([]byte, 64)
	for {
		_, err := unix.Poll(waited, -1)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return fmt.Errorf("read keys: %w", err)
		case waited[1].Revents != 0:
			return nil
		}
		n, err := unix.Read(int(f.in.Fd()), buf)
		if err != nil || n == 0 {
			return errors.Join(ErrNoTerminal, err) // it is gone
		}
		for _, key := range split(string(buf[:n])) {
			select {
			case press <- key:
			case <-done:
				return nil
			}
		}
	}
}

// escaped is a key that a terminal tells in several characters: an arrow, a page key.
var escaped = regexp.MustCompile(`^\x1b[\[O][0-9;]*[A-Za-z~]`)

// split takes apart what was pressed between two looks.
func split(pressed string) []string {
	var keys []string
	for pressed != "" {
		key := escaped.FindString(pressed)
		if key == "" {
			_, size := utf8.DecodeRuneInString(pressed)
			key = pressed[:size]
		}
		keys = append(keys, key)
		pressed = pressed[len(key):]
	}
	return keys
}
