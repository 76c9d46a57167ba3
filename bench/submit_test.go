package bench

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/natsembed/natstest"
	"github.com/berthq/berth/queue"
)

const clients = 16

// doors are clients that submit, each with a connection of its own.
type doors struct {
	queues []*queue.Queue
	raw    []jetstream.JetStream
}

// openDoors makes the clients, and beside the jobs stream one that is like it but for its name and subject.
func openDoors(tb testing.TB, b *natstest.Broker, n int) *doors {
	tb.Helper()
	d := &doors{}
	for range n {
		nc := b.Connect()
		q, err := queue.OpenClient(tb.Context(), nc, queue.Options{})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(q.Close)
		js, err := jetstream.New(nc)
		if err != nil {
			tb.Fatal(err)
		}
		d.queues, d.raw = append(d.queues, q), append(d.raw, js)
	}
	jobs, err := d.raw[0].Stream(tb.Context(), queue.StreamJobs)
	if err != nil {
		tb.Fatal(err)
	}
	config := jobs.CachedInfo().Config
	config.Name, config.Subjects = "BENCH_RAW", []string{"bench.raw"}
	if _, err := d.raw[0].CreateStream(tb.Context(), config); err != nil {
		tb.Fatal(err)
	}
	return d
}

// sample is a job as people submit them.
func sample() job.Job {
	home := "/home/researcher"
	return job.Job{
		Version: job.Version, Project: "bench", User: "bench", SubmittedAt: time.Now().UTC(), SubmitHost: "desk",
		Spec: job.Spec{
			Name: "train", Command: []string{"python", "train.py", "--lr", "0.0003"}, Workdir: home + "/experiment",
			Env: map[string]*string{"HOME": &home},
		},
		Requirements: job.Requirements{GPUs: 1, GPUMemoryMB: 20480, Method: "explicit"},
	}
}

// submit sends n jobs through all clients, one after the other in each.
func (d *doors) submit(tb testing.TB, n int) time.Duration {
	tb.Helper()
	return d.each(tb, n, func(door int) error {
		_, err := d.queues[door].Submit(tb.Context(), sample())
		return err
	})
}

// publish sends the same bytes without Berth: a synchronous publish with a message id.
func (d *doors) publish(tb testing.TB, n int) time.Duration {
	tb.Helper()
	j := sample()
	j.ID = uuid.Must(uuid.NewV7()).String()
	data, err := json.Marshal(j)
	if err != nil {
		tb.Fatal(err)
	}
	return d.each(tb, n, func(door int) error {
		id := uuid.Must(uuid.NewV7()).String()
		_, err := d.raw[door].Publish(tb.Context(), "bench.raw", data, jetstream.WithMsgID(id))
		return err
	})
}

func (d *doors) each(tb testing.TB, n int, do func(door int) error) time.Duration {
	tb.Helper()
	began := time.Now()
	err := inParallel(len(d.queues), len(d.queues), func(door int) error {
		for range n / len(d.queues) {
			if err := do(door); err != nil {
				return fmt.Errorf("client %d: %w", door, err)
			}
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return time.Since(began)
}

// Sixteen clients that submit: at least 80 % of a bare synchronous publish of the same bytes.
func BenchmarkSubmit(b *testing.B) {
	const each, rounds = 400, 10
	for _, s := range syncs {
		b.Run(s.name, func(b *testing.B) {
			d := openDoors(b, broker(b, s.interval), clients)
			var raw, berth, rawCPU, berthCPU time.Duration
			n := 0
			for b.Loop() {
				for range rounds {
					began := ownCPU(b)
					raw += d.publish(b, each)
					between := ownCPU(b)
					berth += d.submit(b, each)
					rawCPU, berthCPU, n = rawCPU+between-began, berthCPU+ownCPU(b)-between, n+each
				}
			}
			// What it costs, clients and broker together: the same on a busy machine and on an idle one.
			b.ReportMetric(1e6*rawCPU.Seconds()/float64(n), "bare-cpu-us")
			b.ReportMetric(1e6*berthCPU.Seconds()/float64(n), "berth-cpu-us")
			b.ReportMetric(perSecond(n, raw), "bare/s")
			b.ReportMetric(perSecond(n, berth), "berth/s")
			target(b, raw.Seconds()/berth.Seconds(), "rate-ratio", "at least", 0.8)
		})
	}
}

// An array of 10,000 tasks is accepted in at most three times the time of one job.
func BenchmarkSubmitArray(b *testing.B) {
	for _, s := range syncs {
		b.Run(s.name, func(b *testing.B) {
			q := openDoors(b, broker(b, s.interval), 1).queues[0]
			var one, many []time.Duration
			for b.Loop() {
				o, m := accepts(b, q, 200)
				one, many = append(one, o...), append(many, m...)
			}
			b.ReportMetric(quantile(one, 0.5), "one-p50-ms")
			b.ReportMetric(quantile(many, 0.5), "array-p50-ms")
			target(b, quantile(many, 0.5)/quantile(one, 0.5), "p50-ratio", "at most", 3)
		})
	}
}

// accepts times submits of one job and of an array, turn by turn.
func accepts(tb testing.TB, q *queue.Queue, n int) (one, many []time.Duration) {
	tb.Helper()
	timed := func(j job.Job) time.Duration {
		began := time.Now()
		if _, err := q.Submit(tb.Context(), j); err != nil {
			tb.Fatal(err)
		}
		return time.Since(began)
	}
	for range n {
		single, group := sample(), sample()
		group.Tasks = &job.Tasks{Indexes: "1-10000", Count: 10_000, MaxConcurrent: 8}
		one, many = append(one, timed(single)), append(many, timed(group))
	}
	return one, many
}

// Both benchmarks in small, so that they do not rot.
func TestSubmit(t *testing.T) {
	t.Parallel()
	d := openDoors(t, broker(t, 0), 2)
	if raw, berth := d.publish(t, 4), d.submit(t, 4); raw <= 0 || berth <= 0 {
		t.Errorf("took %v and %v", raw, berth)
	}
	if one, many := accepts(t, d.queues[0], 2); len(one) != 2 || len(many) != 2 {
		t.Errorf("%d and %d accepted", len(one), len(many))
	}
	jobs, err := d.raw[0].Stream(t.Context(), queue.StreamJobs)
	if err != nil {
		t.Fatal(err)
	}
	if n := jobs.CachedInfo().State.Msgs; n != 8 {
		t.Errorf("%d jobs were stored, want 8", n)
	}
}
