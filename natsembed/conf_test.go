package natsembed

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

const confFile = "../deploy/nats/server.conf"

// The configuration for a server of its own is read by the server's own parser, and says what natsembed sets.
func TestServerConfSaysTheSame(t *testing.T) { // sets the environment, so not in parallel
	t.Setenv("BERTH_TOKEN", "a-token-for-the-test")
	conf, err := server.ProcessConfigFile(confFile)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := Options{StoreDir: "/var/lib/berth/nats", Listen: "127.0.0.1:4222", Token: "a-token-for-the-test"}.serverOptions()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what       string
		conf, ours any
	}{
		{"server_name", conf.ServerName, ours.ServerName},
		{"host", conf.Host, ours.Host},
		{"port", conf.Port, ours.Port},
		{"jetstream", conf.JetStream, ours.JetStream},
		{"store_dir", conf.StoreDir, ours.StoreDir},
		{"sync_interval", conf.SyncAlways, ours.SyncAlways},
		{"ping_interval", conf.PingInterval, ours.PingInterval},
		{"ping_max", conf.MaxPingsOut, ours.MaxPingsOut},
		{"token", conf.Authorization, ours.Authorization},
		{"max_payload", conf.MaxPayload, ours.MaxPayload},
		{"max_memory_store", conf.JetStreamMaxMemory, ours.JetStreamMaxMemory},
	} {
		if c.conf != c.ours {
			t.Errorf("%s is %v in server.conf and %v in `berth up`", c.what, c.conf, c.ours)
		}
	}
}

func TestServerConfNeedsItsToken(t *testing.T) { // changes the environment
	t.Setenv("BERTH_TOKEN", "x")
	if err := os.Unsetenv("BERTH_TOKEN"); err != nil {
		t.Fatal(err)
	}
	if _, err := server.ProcessConfigFile(confFile); err == nil {
		t.Error("server.conf is read without a token: the broker would be open")
	}
}

// A server runs on the file, with its commented lines for TLS in force.
func TestServerConfRuns(t *testing.T) {
	t.Setenv("BERTH_TOKEN", "a-token-for-the-test")
	dir := t.TempDir()
	roots := writeCertificate(t, dir)
	text, err := os.ReadFile(confFile)
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(text), "\n#tls {")
	if !found {
		t.Fatal("server.conf has no commented tls block")
	}
	conf := before + "\ntls {" + strings.ReplaceAll(after, "\n#", "\n")
	conf = strings.NewReplacer("/etc/berth/tls", dir, "/var/lib/berth/nats", dir, ":4222", ":-1").Replace(conf)
	file := filepath.Join(dir, "server.conf")
	if err := os.WriteFile(file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	opts, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatalf("%v\n%s", err, conf)
	}
	opts.NoSigs = true
	ns, err := run(opts, newLogAdapter(nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	nc, err := nats.Connect(ns.ClientURL(), nats.Token("a-token-for-the-test"), nats.Secure(&tls.Config{RootCAs: roots}))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	js, err := nc.JetStream()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.AccountInfo(); err != nil {
		t.Errorf("JetStream on this configuration: %v", err)
	}
}

// writeCertificate stores a certificate for 127.0.0.1 that the standard library keeps for tests.
func writeCertificate(t *testing.T, dir string) *x509.CertPool {
	t.Helper()
	web := httptest.NewTLSServer(nil)
	defer web.Close()
	cert := web.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, block := range map[string]*pem.Block{
		"server.pem": {Type: "CERTIFICATE", Bytes: cert.Certificate[0]},
		"server.key": {Type: "PRIVATE KEY", Bytes: key},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())
	return roots
}
