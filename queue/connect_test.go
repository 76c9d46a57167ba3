package queue

import (
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/berthq/berth/natsembed/natstest"
)

func TestConnectSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	b := natstest.New(t, natstest.WithToken("right"))
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { silent.Close() })
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	for _, c := range []struct {
		name string
		o    ConnectOptions
		want error
		says string
	}{
		{"nobody there", ConnectOptions{URL: "nats://" + gone.Addr().String()}, ErrUnreachable, "berth up"},
		{"nobody speaks", ConnectOptions{URL: "nats://" + silent.Addr().String(), Timeout: 300 * time.Millisecond}, ErrUnreachable, silent.Addr().String()},
		{"no token", ConnectOptions{URL: b.URL()}, ErrUnauthorized, "no token"},
		{"wrong token", ConnectOptions{URL: b.URL(), Token: "wrong"}, ErrUnauthorized, "berth token"},
		{"password in the address", ConnectOptions{URL: "nats://ada:secret@" + gone.Addr().String()}, ErrUnreachable, "ada:xxxxx@"},
	} {
		nc, err := Connect(t.Context(), c.o)
		if err == nil {
			nc.Close()
			t.Errorf("%s: connected", c.name)
			continue
		}
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.name, err)
		}
		if strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the password is in the message: %v", c.name, err)
		}
	}
	nc, err := Connect(t.Context(), ConnectOptions{URL: b.URL(), Token: "right"})
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
}

func TestOpenWithoutJetStream(t *testing.T) {
	t.Parallel()
	plain, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	plain.Start()
	t.Cleanup(func() { plain.Shutdown(); plain.WaitForShutdown() })
	if !plain.ReadyForConnections(patience) {
		t.Fatal("the server does not start")
	}
	nc, err := Connect(t.Context(), ConnectOptions{URL: plain.ClientURL()})
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := Open(t.Context(), nc, Options{}); !errors.Is(err, ErrNoJetStream) {
		t.Errorf("open: %v", err)
	}
	if _, err := OpenClient(t.Context(), nc, Options{}); !errors.Is(err, ErrNoJetStream) {
		t.Errorf("open for a client: %v", err)
	}
}
