package natsembed_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"

	"github.com/berthq/berth/natsembed"
	"github.com/berthq/berth/natsembed/natstest"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("NATSEMBED_TEST_HOLD"); dir != "" {
		holdStore(dir)
		return
	}
	goleak.VerifyTestMain(m)
}

func start(t *testing.T, o natsembed.Options) *natsembed.Server {
	t.Helper()
	if o.StoreDir == "" {
		o.StoreDir = t.TempDir()
	}
	s, err := natsembed.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Shutdown)
	return s
}

// publish stores one message in a file stream made for it and returns the stream.
func publish(t *testing.T, nc *nats.Conn, text string) jetstream.Stream {
	t.Helper()
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateOrUpdateStream(t.Context(), jetstream.StreamConfig{Name: "T", Subjects: []string{"t.>"}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.Publish(t.Context(), "t.x", []byte(text)); err != nil {
		t.Fatal(err)
	}
	return stream
}

func TestInProcessOnly(t *testing.T) {
	t.Parallel()
	s := start(t, natsembed.Options{})
	if s.ClientURL() != "" {
		t.Errorf("a server without a port has the address %q", s.ClientURL())
	}
	nc, err := s.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	info, err := publish(t, nc, "hello").Info(t.Context())
	if err != nil || info.State.Msgs != 1 {
		t.Fatalf("stream holds %+v, %v; want one message", info, err)
	}
}

func TestTokenIsAskedForByDefault(t *testing.T) {
	t.Parallel()
	s := start(t, natsembed.Options{Listen: "127.0.0.1:0"})
	if len(s.Token()) < 20 {
		t.Fatalf("token %q: want a fresh one", s.Token())
	}
	for name, options := range map[string][]nats.Option{"none": nil, "wrong": {nats.Token("guess")}} {
		if nc, err := nats.Connect(s.ClientURL(), options...); !errors.Is(err, nats.ErrAuthorization) {
			nc.Close()
			t.Errorf("token %s: got %v, want %v", name, err, nats.ErrAuthorization)
		}
	}
	nc, err := nats.Connect(s.ClientURL(), nats.Token(s.Token()))
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
}

func TestStoreSurvivesARestartOnTheSameAddress(t *testing.T) {
	t.Parallel()
	b := natstest.New(t)
	reconnected := make(chan struct{}, 1)
	nc := b.Connect(nats.ReconnectHandler(func(*nats.Conn) { reconnected <- struct{}{} }))
	stream := publish(t, nc, "kept")
	url := b.URL()

	b.Stop()
	if _, err := nats.Connect(url); !errors.Is(err, nats.ErrNoServers) {
		t.Errorf("connect to a stopped broker: %v, want %v", err, nats.ErrNoServers)
	}
	b.Start()
	if b.URL() != url {
		t.Errorf("address changed from %s to %s", url, b.URL())
	}
	select {
	case <-reconnected:
	case <-time.After(time.Minute):
		t.Fatal("the client did not reconnect")
	}
	msg, err := stream.GetLastMsgForSubject(t.Context(), "t.x")
	if err != nil || string(msg.Data) != "kept" {
		t.Fatalf("after the restart: %v, %v", msg, err)
	}
}

// holdStore is another process with the store: it reports that it runs and waits for the end of its input.
func holdStore(dir string) {
	s, err := natsembed.Start(natsembed.Options{StoreDir: dir})
	if err != nil {
		os.Stdout.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	os.Stdout.WriteString("running\n")
	os.Stdin.Read(make([]byte, 1))
	s.Shutdown()
}

func TestLockedStoreIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()

	first := start(t, natsembed.Options{StoreDir: dir})
	if _, err := natsembed.Start(natsembed.Options{StoreDir: dir}); !errors.Is(err, natsembed.ErrStoreInUse) {
		t.Fatalf("second server in this process: %v, want %v", err, natsembed.ErrStoreInUse)
	}
	first.Shutdown()

	other := exec.CommandContext(t.Context(), os.Args[0])
	other.Env = append(os.Environ(), "NATSEMBED_TEST_HOLD="+dir)
	stdin, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := other.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, 64)
	if n, _ := stdout.Read(said); string(said[:n]) != "running\n" {
		t.Fatalf("the other process said %q", said[:n])
	}
	_, err = natsembed.Start(natsembed.Options{StoreDir: dir})
	if !errors.Is(err, natsembed.ErrStoreInUse) || !strings.Contains(err.Error(), dir) {
		t.Errorf("second server in another process: %v, want %v and the folder", err, natsembed.ErrStoreInUse)
	}
	stdin.Close()
	if err := other.Wait(); err != nil {
		t.Fatal(err)
	}
	start(t, natsembed.Options{StoreDir: dir})
}

func TestStartSaysWhyNot(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { busy.Close() })
	file := t.TempDir() + "/file"
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		o    natsembed.Options
		want string
		is   error
	}{
		{"no store", natsembed.Options{}, "no store folder", nil},
		{"store is a file", natsembed.Options{StoreDir: file}, "not a directory", nil},
		{"port in use", natsembed.Options{StoreDir: t.TempDir(), Listen: busy.Addr().String()}, "address already in use", nil},
		{"no port", natsembed.Options{StoreDir: t.TempDir(), Listen: "localhost"}, "want host:port", nil},
		{"port is a word", natsembed.Options{StoreDir: t.TempDir(), Listen: "localhost:nats"}, "must be a number", nil},
		{"every interface", natsembed.Options{StoreDir: t.TempDir(), Listen: ":0"}, "--insecure", natsembed.ErrExposed},
		{"a name", natsembed.Options{StoreDir: t.TempDir(), Listen: "gpu1.lab:0"}, "--insecure", natsembed.ErrExposed},
		{"TLS without token", natsembed.Options{StoreDir: t.TempDir(), Listen: "0.0.0.0:0", TLS: &tls.Config{}, NoToken: true}, "needs a token", natsembed.ErrExposed},
		{"negative interval", natsembed.Options{StoreDir: t.TempDir(), SyncInterval: -1}, "must not be negative", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s, err := natsembed.Start(c.o)
			if err == nil {
				s.Shutdown()
				t.Fatal("it started")
			}
			if !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestFailedStartFreesTheStore(t *testing.T) {
	t.Parallel()
	busy, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer busy.Close()
	dir := t.TempDir()
	if _, err := natsembed.Start(natsembed.Options{StoreDir: dir, Listen: busy.Addr().String()}); err == nil {
		t.Fatal("two listeners on one port")
	}
	start(t, natsembed.Options{StoreDir: dir})
}

func TestTLS(t *testing.T) {
	t.Parallel()
	cert, roots := selfSigned(t)
	s := start(t, natsembed.Options{Listen: "127.0.0.1:0", TLS: &tls.Config{Certificates: []tls.Certificate{cert}}})
	if !strings.HasPrefix(s.ClientURL(), "tls://") {
		t.Errorf("address %s: want tls://", s.ClientURL())
	}
	nc, err := nats.Connect(s.ClientURL(), nats.Token(s.Token()), nats.Secure(&tls.Config{RootCAs: roots}))
	if err != nil {
		t.Fatal(err)
	}
	nc.Close()
	if nc, err := nats.Connect(s.ClientURL(), nats.Token(s.Token())); err == nil {
		nc.Close()
		t.Error("a client that does not know the certificate connected")
	}
	inside, err := s.Connect()
	if err != nil {
		t.Fatalf("in process, where there is nothing to hide: %v", err)
	}
	inside.Close()
}

// selfSigned is a certificate for 127.0.0.1 that the standard library keeps for tests.
func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	return web.TLS.Certificates[0], roots
}

func TestServerSpeaksToTheLogger(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	log := slog.New(slog.NewJSONHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug}))
	s := start(t, natsembed.Options{Logger: log})
	s.Shutdown() // the buffer is ours alone from here
	if !strings.Contains(text.String(), `"part":"broker"`) || !strings.Contains(text.String(), "Server is ready") {
		t.Errorf("the log has no word of the start:\n%s", text.String())
	}
	if strings.Contains(text.String(), `"level":"INFO"`) {
		t.Error("notices of the server are INFO; they are debug")
	}
}
