package queue

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootClock counts on while the machine sleeps, which the clock behind time.Since does not.
func bootClock() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0 // a kernel before 2.6.39
	}
	return time.Duration(ts.Nano())
}
