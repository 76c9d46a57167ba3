package bench

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/berthq/berth/natsembed"
)

// asBroker in its environment makes the test binary a broker: "folder sync-interval". It ends with its standard input.
const asBroker = "BENCH_AS_BROKER"

func runBroker(text string) error {
	dir, sync, _ := strings.Cut(text, " ")
	interval, err := time.ParseDuration(sync)
	if err != nil {
		return err
	}
	srv, err := natsembed.Start(natsembed.Options{StoreDir: dir, Listen: "127.0.0.1:0", NoToken: true, SyncInterval: interval})
	if err != nil {
		return err
	}
	defer srv.Shutdown()
	fmt.Println(srv.ClientURL())
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// apart is a broker of its own process, so that its memory and its time can be told from everybody else's.
type apart struct {
	tb  testing.TB
	url string
	pid int
}

func startBroker(tb testing.TB, sync time.Duration) *apart {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = []string{fmt.Sprintf("%s=%s %s", asBroker, tb.TempDir(), sync)}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Wait() // how it ends is no matter once all is measured
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		tb.Fatalf("the broker said nothing: %v", err)
	}
	return &apart{tb: tb, url: strings.TrimSpace(line), pid: cmd.Process.Pid}
}

func (a *apart) Connect(options ...nats.Option) *nats.Conn {
	a.tb.Helper()
	nc, err := nats.Connect(a.url, append([]nats.Option{nats.MaxReconnects(-1)}, options...)...)
	if err != nil {
		a.tb.Fatal(err)
	}
	a.tb.Cleanup(nc.Close)
	return nc
}

// rss is the broker's memory in MiB.
func (a *apart) rss() float64 {
	a.tb.Helper()
	_, rss := memory(a.tb, a.pid)
	return rss
}

// busy is the share of a core that the broker uses over a time, in percent.
func (a *apart) busy(d time.Duration) float64 {
	a.tb.Helper()
	before, began := cpu(a.tb, a.pid), time.Now()
	select {
	case <-time.After(d):
	case <-a.tb.Context().Done():
	}
	return 100 * (cpu(a.tb, a.pid) - before).Seconds() / time.Since(began).Seconds()
}
