package browser_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berthq/berth/internal/cli"
	"github.com/berthq/berth/internal/cli/operator"
)

// cards are the simulated GPUs; what runs on them is known by its command line.
const cards = `
cpus_per_gpu: 8
devices:
  - {name: Simulated A100, memory: 40Gi, capability: "8.0", count: 2}
  - {name: Simulated L4, memory: 24Gi, capability: "8.9", count: 2}
processes:
  - command: sim-train
    memory: [{at: 0s, value: 2Gi}, {at: 2s, value: 18Gi}]
    utilization: [{at: 0s, value: 10}, {at: 2s, value: 92}, {at: 4s, value: 70}]
`

var printed = regexp.MustCompile(`http://\S+/login\?token=(\S+)`)

// said keeps what a command says and gives the address once it is there.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
	url  chan string
	told bool
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text.Write(p)
	if url := printed.Find(s.text.Bytes()); url != nil && !s.told && bytes.HasSuffix(s.text.Bytes(), []byte("\n")) {
		s.told = true
		s.url <- string(url)
	}
	return len(p), nil
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// up starts berth up with these arguments, in files of its own, and returns the dashboard's address.
func up(t *testing.T, args ...string) string {
	t.Helper()
	url, _ := berth(t, t.TempDir(), append([]string{"up", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"}, args...)...)
	return url
}

// berth starts a command that serves the dashboard, with its files under the folder; end ends it, at the latest with the test.
func berth(t *testing.T, dir string, args ...string) (url string, end func()) {
	t.Helper()
	out := &said{url: make(chan string, 1)}
	signals := make(chan chan<- os.Signal, 1)
	env := cli.System()
	env.Environ = append(os.Environ(), "XDG_CONFIG_HOME="+filepath.Join(dir, "config"), "XDG_STATE_HOME="+dir)
	env.Args, env.Stdout, env.Stderr = args, out, out
	env.Notify = func(c chan<- os.Signal, _ ...os.Signal) { signals <- c }
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan int, 1)
	go func() { ended <- cli.Execute(ctx, operator.Root(env), env) }()
	select {
	case url = <-out.url:
	case code := <-ended:
		cancel()
		t.Fatalf("berth %s ended with %d:\n%s", args[0], code, out)
	case <-time.After(patience):
		cancel()
		t.Fatalf("berth %s printed no address:\n%s", args[0], out)
	}
	end = sync.OnceFunc(func() {
		http.DefaultClient.CloseIdleConnections()
		select {
		case notify := <-signals:
			notify <- os.Interrupt
			notify <- os.Interrupt // hasten: what runs is stopped
		default:
			cancel() // it listens to no signals of its own
		}
		select {
		case <-ended:
		case <-time.After(patience):
			t.Errorf("berth %s did not end:\n%s", args[0], out)
		}
		cancel()
	})
	t.Cleanup(end)
	return url, end
}

// simulated starts berth up on simulated cards.
func simulated(t *testing.T) string {
	t.Helper()
	machine := filepath.Join(t.TempDir(), "cards.yaml")
	if err := os.WriteFile(machine, []byte(cards), 0o600); err != nil {
		t.Fatal(err)
	}
	return up(t, "--allow-root", "--name", "gpu1", "--gpu-source", "sim:"+machine, "--store", filepath.Join(t.TempDir(), "store"))
}

// submit sends a spec as a program would, and returns the job's number.
func submit(t *testing.T, url, spec string) uint64 {
	t.Helper()
	base, token, _ := strings.Cut(url, "/login?token=")
	body, err := json.Marshal(map[string]string{"spec": spec})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/api/v1/jobs", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("X-Berth", "1")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var answer struct {
		Receipt json.RawMessage
		Error   string
	}
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || answer.Error != "" {
		t.Fatalf("submit: %v %s", err, answer.Error)
	}
	var receipt struct{ Number uint64 }
	if err := json.Unmarshal(answer.Receipt, &receipt); err != nil || receipt.Number == 0 {
		t.Fatalf("submit: %v %s", err, answer.Receipt)
	}
	return receipt.Number
}

func path(number uint64) string { return fmt.Sprintf("/jobs/%d", number) }
