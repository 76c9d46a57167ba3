//go:build !linux

package queue

import "time"

// bootClock is not known here: workers run on Linux.
func bootClock() time.Duration { return 0 }
