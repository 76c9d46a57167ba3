package queue

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// ticket is the broker's handle on one delivered lane message: what may be said about it goes to its reply subject. It
// is no proof of anything: the broker accepts a zombie's acknowledgement too, which is why the record comes first.
type ticket struct {
	nc    *nats.Conn
	reply string
}

// delivered is how often the message has been handed out, 0 when the subject does not say.
func (t ticket) delivered() int {
	tokens := strings.Split(t.reply, ".")
	at := 4 // $JS.ACK.<stream>.<consumer>.<delivered>...
	if len(tokens) > 9 {
		at = 6 // $JS.ACK.<domain>.<account>.<stream>.<consumer>.<delivered>...
	}
	if len(tokens) <= at {
		return 0
	}
	n, err := strconv.Atoi(tokens[at])
	if err != nil {
		return 0
	}
	return n
}

// giveBack returns the message to its lane, at once or after a delay. It keeps its place.
func (t ticket) giveBack(delay time.Duration) error {
	body := []byte("-NAK")
	if delay > 0 {
		body = fmt.Appendf(nil, `-NAK {"delay": %d}`, delay)
	}
	return t.nc.Publish(t.reply, body)
}

// beat tells the broker not to hand the message out again yet.
func (t ticket) beat() error { return t.nc.Publish(t.reply, []byte("+WPI")) }

// done takes the message off its lane and waits until the broker has confirmed it.
func (t ticket) done(ctx context.Context) error {
	try, cancel := context.WithTimeout(ctx, tryTimeout)
	defer cancel()
	if _, err := t.nc.RequestWithContext(try, t.reply, []byte("+ACK")); err != nil {
		return fmt.Errorf("acknowledge: %w", err)
	}
	return nil
}
