package telemetry

import (
	"errors"
	"os/user"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func TestUsersDoNotWaitForTheirService(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int32
		u := users{lookup: func(id string) (*user.User, error) {
			asked.Add(1)
			switch id {
			case "1000":
				time.Sleep(time.Minute)
				return &user.User{Username: "ada"}, nil
			case "0":
				return &user.User{Username: "root"}, nil
			}
			return nil, errors.New("no such user")
		}}
		began := time.Now()
		for range 3 {
			if got := u.name(1000); got != "1000" {
				t.Errorf("before the answer: %q", got)
			}
			if got := u.name(0); got != "root" {
				t.Errorf("root: %q", got)
			}
			if got := u.name(7); got != "7" {
				t.Errorf("a number without a name: %q", got)
			}
		}
		if waited := time.Since(began); waited > nameWait {
			t.Errorf("waited %s", waited)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := u.name(1000); got != "ada" {
			t.Errorf("after the answer: %q", got)
		}
		if n := asked.Load(); n != 3 {
			t.Errorf("asked %d times for three numbers", n)
		}
	})
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"python\x00train.py\x00": "python train.py", "a\x1b[31mred\x07": "a?[31mred?", "\xff\xfe": "?", "": "", "two\nlines\n": "two?lines",
	} {
		if got := printable([]byte(in)); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	long := make([]byte, 10_000)
	for i := range long {
		long[i] = 'x'
	}
	if got := printable(long); len([]rune(got)) != maxCommand {
		t.Errorf("%d characters", len([]rune(got)))
	}
}
