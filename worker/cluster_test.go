package worker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sync/errgroup"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/natsembed/natstest"
	"github.com/berthq/berth/queue"
)

// On three brokers in processes of their own, with three copies of everything, one broker is killed while jobs are
// submitted, run and end: the one that leads the lanes, which all that happens goes through. Every job runs once.
func TestEveryJobRunsOnceThoughABrokerOfTheClusterDies(t *testing.T) {
	t.Parallel()
	jobs := 60
	if os.Getenv("BERTH_LONG") != "" {
		jobs = 200
	}
	cluster := natstest.NewCluster(t, 3)
	var mu sync.Mutex
	first := 0
	connect := func() *nats.Conn { // as the commands do; each begins at another broker
		mu.Lock()
		defer mu.Unlock()
		first++
		nc, err := queue.Connect(t.Context(), queue.ConnectOptions{
			URL: cluster.URL(first), Name: t.Name(), Options: []nats.Option{nats.DontRandomize()},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	h := newHouseOn(t, "4x24Gi", &house{t: t, connect: connect}, func(h *house) {
		h.opts = queue.Options{Replicas: 3, ClaimTTL: 2 * time.Minute, AckWait: 10 * time.Second}
	})
	for i := range 3 {
		h.work(fmt.Sprint("m", i))
	}
	results, err := connect().SubscribeSync("berth.results.lab.*")
	if err != nil {
		t.Fatal(err)
	}

	ledger := filepath.Join(t.TempDir(), "ledger")
	spec := job.Spec{Command: job.Command{"sh", "-c", `echo "$BERTH_JOB_ID $BERTH_ATTEMPT" >> "$0"; sleep 0.1`, ledger}, Workdir: "/"}
	var submitters errgroup.Group
	for range 4 {
		submitters.Go(func() error {
			for range jobs / 4 {
				_, err := h.queue.Submit(t.Context(), job.Job{
					Project: "lab", User: "ann", Spec: spec, Requirements: job.Requirements{GPUs: 1, GPUMemoryMB: 1024},
				})
				if err != nil {
					return err
				}
			}
			return nil
		})
	}
	for range jobs / 4 { // the first quarter has ended, the others are submitted, waiting or running
		if _, err := results.NextMsg(2 * time.Minute); err != nil {
			t.Fatalf("before a broker dies: %v", err)
		}
	}
	leader := cluster.Leader(queue.StreamLanes)
	cluster.Kill(cluster.Index(leader))
	killed := time.Now()
	if err := submitters.Wait(); err != nil {
		t.Fatalf("submit: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Second)
	defer cancel()
	for number := range jobs {
		if _, err := h.queue.WaitResult(ctx, queue.JobRef(uint64(number+1))); err != nil {
			t.Fatalf("job %d: %v", number+1, err)
		}
	}
	t.Logf("%s killed; all %d jobs had ended %v later", leader, jobs, time.Since(killed).Round(100*time.Millisecond))

	said, err := os.ReadFile(ledger)
	if err != nil {
		t.Fatal(err)
	}
	runs := map[string]int{}
	for line := range strings.Lines(string(said)) {
		number, attempt, _ := strings.Cut(strings.TrimSpace(line), " ")
		runs[number]++
		if attempt != "1" {
			t.Errorf("job %s was run as attempt %s", number, attempt)
		}
	}
	for number := range jobs {
		ref := queue.JobRef(uint64(number + 1))
		if n := runs[ref.String()]; n != 1 {
			t.Errorf("job %s ran %d times", ref, n)
		}
		r, err := h.queue.WaitResult(t.Context(), ref)
		if err != nil {
			t.Fatal(err)
		}
		if r.State != job.Succeeded || r.Attempt != 1 {
			t.Errorf("job %s: %s after attempt %d: %s", ref, r.State, r.Attempt, r.Reason)
		}
	}
	if n := h.count(queue.StreamRuns, "berth.runs.lab.>"); n != jobs {
		t.Errorf("%d attempts are stored, want %d", n, jobs)
	}
}
