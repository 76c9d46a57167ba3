package natstest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// clusterPatience bounds the wait for a cluster to come up or to have a leader. It is a verdict on a hang, not on speed.
const clusterPatience = 60 * time.Second

// Cluster is some brokers in processes of their own, each with its own store: the plain nats-server of the module that
// go.mod pins, not the embedded one, since that is what a site with a cluster runs.
type Cluster struct {
	tb    testing.TB
	bin   string
	nodes []*node
}

// node is one broker of a cluster.
type node struct {
	name, conf string
	port       int
	cmd        *exec.Cmd
	log        string
}

// NewCluster starts a cluster of n brokers that can keep streams in n copies; one broker is just that. It ends with the
// test.
func NewCluster(tb testing.TB, n int) *Cluster {
	tb.Helper()
	dir := tb.TempDir()
	c := &Cluster{tb: tb, bin: filepath.Join(dir, "nats-server")}
	build := exec.CommandContext(tb.Context(), "go", "build", "-o", c.bin, "github.com/nats-io/nats-server/v2")
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("build nats-server from its module: %v\n%s", err, out)
	}
	ports := freePorts(tb, 2*n)
	routes := make([]string, n)
	for i := range n {
		routes[i] = fmt.Sprintf("nats://127.0.0.1:%d", ports[n+i])
	}
	for i := range n {
		name := fmt.Sprintf("n%d", i+1)
		nd := &node{name: name, port: ports[i], conf: filepath.Join(dir, name+".conf"), log: filepath.Join(dir, name+".log")}
		if err := os.WriteFile(nd.conf, []byte(nd.config(filepath.Join(dir, name), ports[n+i], routes)), 0o600); err != nil {
			tb.Fatal(err)
		}
		c.nodes = append(c.nodes, nd)
	}
	tb.Cleanup(c.stop)
	for i := range c.nodes {
		c.Start(i)
	}
	c.awaitReplicas(n)
	return c
}

// config is that of deploy/nats for as far as a test needs it; what is written is not forced to the disk each time, as no
// test cuts the power.
func (n *node) config(store string, route int, routes []string) string {
	alone := fmt.Sprintf(`server_name: %s
listen: 127.0.0.1:%d
ping_interval: "10s"
ping_max: 2
jetstream { store_dir: %q }
`, n.name, n.port, store)
	if len(routes) == 1 {
		return alone
	}
	return alone + fmt.Sprintf(`cluster {
  name: berth
  listen: 127.0.0.1:%d
  routes: [%s]
}
`, route, strings.Join(routes, ", "))
}

// freePorts finds ports below those that the kernel hands out to outgoing connections: a broker that is started again
// must find its own free.
func freePorts(tb testing.TB, n int) []int {
	tb.Helper()
	var found []int
	var held []net.Listener
	defer func() {
		for _, l := range held {
			_ = l.Close() // it was only to see that the port is free
		}
	}()
	for range 50 * n {
		port := 20000 + rand.IntN(12000)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			continue
		}
		held = append(held, l)
		if found = append(found, port); len(found) == n {
			return found
		}
	}
	tb.Fatalf("%d free ports were not to be found", n)
	return nil
}

// Start starts a broker that is not running, on its own store and port.
func (c *Cluster) Start(i int) {
	c.tb.Helper()
	n := c.nodes[i]
	out, err := os.OpenFile(n.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		c.tb.Fatal(err)
	}
	defer out.Close()
	n.cmd = exec.Command(c.bin, "-c", n.conf)
	n.cmd.Stdout, n.cmd.Stderr = out, out
	n.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // a test that is killed cleans nothing up
	if err := n.cmd.Start(); err != nil {
		c.tb.Fatalf("start broker %s: %v", n.name, err)
	}
}

// Kill ends a broker as a crash would.
func (c *Cluster) Kill(i int) {
	n := c.nodes[i]
	if n.cmd == nil {
		return
	}
	_ = n.cmd.Process.Kill() // fails only when it has ended
	_ = n.cmd.Wait()
	n.cmd = nil
}

func (c *Cluster) stop() {
	for i, n := range c.nodes {
		c.Kill(i)
		if c.tb.Failed() {
			said, _ := os.ReadFile(n.log)
			c.tb.Logf("broker %s said:\n%s", n.name, said)
		}
	}
}

// Index is the broker of that name, as the cluster's own answers name it.
func (c *Cluster) Index(name string) int {
	c.tb.Helper()
	for i, n := range c.nodes {
		if n.name == name {
			return i
		}
	}
	c.tb.Fatalf("the cluster has no broker %q", name)
	return -1
}

// Leader is the broker that leads a stream, as soon as one does.
func (c *Cluster) Leader(stream string) string {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(c.tb.Context(), clusterPatience)
	defer cancel()
	nc := c.Connect(0)
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		c.tb.Fatal(err)
	}
	for {
		var s jetstream.Stream
		if s, err = js.Stream(ctx, stream); err == nil && s.CachedInfo().Cluster != nil && s.CachedInfo().Cluster.Leader != "" {
			return s.CachedInfo().Cluster.Leader
		}
		select { // nothing that a client sees tells of it
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			c.tb.Fatalf("nobody leads %s: %v", stream, err)
		}
	}
}

// URL is where all its brokers are, the i-th first.
func (c *Cluster) URL(i int) string {
	var all []string
	for k := range c.nodes {
		all = append(all, fmt.Sprintf("nats://127.0.0.1:%d", c.nodes[(i+k)%len(c.nodes)].port))
	}
	return strings.Join(all, ",")
}

// Connect opens a connection to the i-th broker, which goes on with another when that one is gone and is closed with the
// test.
func (c *Cluster) Connect(i int) *nats.Conn {
	c.tb.Helper()
	nc, err := nats.Connect(c.URL(i), nats.DontRandomize(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		c.tb.Fatalf("connect to the cluster: %v", err)
	}
	c.tb.Cleanup(nc.Close)
	return nc
}

// awaitReplicas returns when a stream with a copy on each broker can be made.
func (c *Cluster) awaitReplicas(n int) {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(c.tb.Context(), clusterPatience)
	defer cancel()
	err := errors.New("no broker answers")
	for ctx.Err() == nil {
		if err = c.tryReplicas(ctx, n); err == nil {
			return
		}
		select { // nothing tells of a cluster that is complete
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
		}
	}
	c.tb.Fatalf("the cluster does not come up: %v", err)
}

func (c *Cluster) tryReplicas(ctx context.Context, n int) error {
	nc, err := nats.Connect(c.URL(0))
	if err != nil {
		return err
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	try, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if _, err = js.CreateStream(try, jetstream.StreamConfig{Name: "READY", Replicas: n}); err != nil {
		return err
	}
	return js.DeleteStream(try, "READY")
}
