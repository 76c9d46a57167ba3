package worker

import (
	"context"
	"net"
	"strings"
	"sync"
	"testing"
)

// cable is the network between one worker and the broker: a TCP proxy that can go dark. While it is dark nothing gets
// through in either direction and nobody is told, as with a dead switch: connections stand, bytes wait. When it is mended
// the bytes that waited arrive late, as TCP would have it, unless the connections were cut meanwhile.
type cable struct {
	t      *testing.T
	listen net.Listener
	target string

	mu    sync.Mutex
	dark  chan struct{} // closed when it is mended; nil while it is whole
	conns map[net.Conn]struct{}
	ended bool
	group sync.WaitGroup
}

func newCable(t *testing.T, url string) *cable {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{t: t, listen: l, target: strings.TrimPrefix(url, "nats://"), conns: map[net.Conn]struct{}{}}
	c.group.Go(c.accept)
	t.Cleanup(c.close)
	return c
}

func (c *cable) url() string { return "nats://" + c.listen.Addr().String() }

func (c *cable) accept() {
	for {
		near, err := c.listen.Accept()
		if err != nil {
			return
		}
		c.group.Go(func() { c.join(near) })
	}
}

// join connects a worker's end with the broker, which it reaches only once the cable is whole.
func (c *cable) join(near net.Conn) {
	if !c.keep(near) {
		return
	}
	c.whole()
	var d net.Dialer
	far, err := d.DialContext(context.Background(), "tcp", c.target)
	if err != nil || !c.keep(far) {
		c.drop(near)
		return
	}
	c.group.Go(func() { c.carry(far, near) })
	c.carry(near, far)
}

// carry moves bytes until one end is gone. What was read when the cable went dark is written when it is whole again.
func (c *cable) carry(to, from net.Conn) {
	defer c.drop(to)
	defer c.drop(from)
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		c.whole()
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// whole waits until bytes may pass.
func (c *cable) whole() {
	for {
		c.mu.Lock()
		dark := c.dark
		c.mu.Unlock()
		if dark == nil {
			return
		}
		<-dark
	}
}

// cut makes the cable dark.
func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dark == nil && !c.ended {
		c.dark = make(chan struct{})
	}
}

// mend makes it whole again. reset: the connections that stood are gone, with what was on its way.
func (c *cable) mend(reset bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if reset {
		for conn := range c.conns {
			_ = conn.Close()
		}
	}
	if c.dark != nil {
		close(c.dark)
		c.dark = nil
	}
}

func (c *cable) keep(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		_ = conn.Close()
		return false
	}
	c.conns[conn] = struct{}{}
	return true
}

func (c *cable) drop(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, conn)
	_ = conn.Close()
}

func (c *cable) close() {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	_ = c.listen.Close()
	c.mend(true)
	c.group.Wait()
}
