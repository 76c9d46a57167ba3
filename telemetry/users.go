package telemetry

import (
	"os/user"
	"strconv"
	"sync"
	"time"
)

// users are names by number, asked for once. A directory service may take its time or hang: the readings of a GPU do
// not wait for it, and show the number until there is a name.
type users struct {
	lookup func(id string) (*user.User, error) // nil = user.LookupId

	mu    sync.Mutex
	names map[uint32]string // a number while it is being asked for
}

// nameWait is enough for a file and for a service that is well.
const nameWait = 100 * time.Millisecond

func (u *users) name(uid uint32) string {
	u.mu.Lock()
	if known, ok := u.names[uid]; ok {
		u.mu.Unlock()
		return known
	}
	if u.names == nil {
		u.names = map[uint32]string{}
	}
	u.names[uid] = strconv.FormatUint(uint64(uid), 10)
	u.mu.Unlock()
	answered := make(chan struct{})
	go func() { // ends when the service answers; nothing can make it
		defer close(answered)
		u.ask(uid)
	}()
	wait := time.NewTimer(nameWait)
	defer wait.Stop()
	select {
	case <-answered:
	case <-wait.C:
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.names[uid]
}

func (u *users) ask(uid uint32) {
	lookup := u.lookup
	if lookup == nil {
		lookup = user.LookupId
	}
	who, err := lookup(strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return // the number is its name
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.names[uid] = who.Username
}
