package queue

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/natsembed/natstest"
)

// rig is a broker with a clerk and one lane, for measurements.
type rig struct {
	b    *testing.B
	ctx  context.Context
	nc   *nats.Conn
	q    *Queue
	lane job.Lane
}

func newRig(b *testing.B) *rig {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	broker := natstest.New(b)
	r := &rig{b: b, ctx: ctx, nc: broker.Connect()}
	var err error
	if r.q, err = Open(ctx, r.nc, Options{LogBytes: 1 << 30, Logger: slog.New(slog.DiscardHandler)}); err != nil {
		b.Fatal(err)
	}
	clerk := make(chan error, 1)
	go func() { clerk <- r.q.RunClerk(ctx) }()
	b.Cleanup(func() { cancel(); <-clerk; r.q.Close() })
	j := newJob("bench")
	j.SubmittedAt = time.Now()
	p := r.q.parcelFor(&j, JobRef(1), nil)
	if err := r.q.ensureLane(ctx, p.lane, p.shape, 0); err != nil {
		b.Fatal(err)
	}
	r.lane = p.lane
	return r
}

func (r *rig) puller(name string) (*Session, *Puller) {
	r.b.Helper()
	s, err := r.q.OpenSession(r.ctx, name, "1")
	if err != nil {
		r.b.Fatal(err)
	}
	p, err := r.q.NewPuller(s)
	if err != nil {
		r.b.Fatal(err)
	}
	r.b.Cleanup(func() { _ = p.Close(context.Background()); s.Detach() })
	return s, p
}

// BenchmarkDispatchIdle is the time from submit to the claimed job on an idle fleet of one, and of the bare path:
// publish, waiting pull.
func BenchmarkDispatchIdle(b *testing.B) {
	b.Run("berth", func(b *testing.B) {
		r := newRig(b)
		_, p := r.puller("m")
		for b.Loop() {
			if _, err := r.q.Submit(r.ctx, newJob("x")); err != nil {
				b.Fatal(err)
			}
			d, err := p.Next(r.ctx, []Want{{Lane: r.lane}})
			if err != nil {
				b.Fatal(err)
			}
			c, err := d.Claim(r.ctx, nil)
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			if err := c.Finish(r.ctx, succeeded); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
	b.Run("bare", func(b *testing.B) {
		r := newRig(b)
		consumer := r.bare()
		for b.Loop() {
			got := make(chan jetstream.Msg, 1)
			go func() {
				m, err := consumer.Next(jetstream.FetchMaxWait(5 * time.Second))
				if err != nil {
					b.Error(err)
				}
				got <- m
			}()
			if _, err := r.q.js.Publish(r.ctx, "bare.x", make([]byte, 600)); err != nil {
				b.Fatal(err)
			}
			m := <-got
			b.StopTimer()
			_ = m.DoubleAck(r.ctx)
			b.StartTimer()
		}
	})
}

func (r *rig) bare() jetstream.Consumer {
	r.b.Helper()
	if _, err := r.q.js.CreateStream(r.ctx, jetstream.StreamConfig{Name: "BARE", Subjects: []string{"bare.*"}, Retention: jetstream.WorkQueuePolicy}); err != nil {
		r.b.Fatal(err)
	}
	c, err := r.q.js.CreateConsumer(r.ctx, "BARE", jetstream.ConsumerConfig{Durable: "c", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		r.b.Fatal(err)
	}
	return c
}

// BenchmarkThroughput is trivial jobs through eight slots, against a bare loop of publish, pull, one compare-and-set,
// double acknowledgement, publish of the result.
func BenchmarkThroughput(b *testing.B) {
	const slots = 8
	b.Run("berth", func(b *testing.B) {
		r := newRig(b)
		work := make(chan struct{}, b.N)
		var wg sync.WaitGroup
		var pullers []*Puller
		for i := range slots {
			_, p := r.puller(fmt.Sprint("m", i))
			pullers = append(pullers, p)
		}
		b.ResetTimer()
		wg.Go(func() {
			for range b.N {
				if _, err := r.q.Submit(r.ctx, newJob("x")); err != nil {
					b.Error(err)
				}
			}
		})
		ctx, cancel := context.WithCancel(r.ctx)
		for _, p := range pullers {
			wg.Go(func() {
				for len(work) < b.N {
					d, err := p.Next(ctx, []Want{{Lane: r.lane}})
					if err != nil {
						return
					}
					c, err := d.Claim(r.ctx, nil)
					if err != nil {
						b.Error(err)
						return
					}
					if err := c.Finish(r.ctx, succeeded); err != nil {
						b.Error(err)
					}
					if work <- struct{}{}; len(work) == b.N {
						cancel()
					}
				}
			})
		}
		wg.Wait()
		cancel()
	})
	b.Run("bare", func(b *testing.B) {
		r := newRig(b)
		consumer := r.bare()
		kv, err := r.q.js.KeyValue(r.ctx, BucketRecords)
		if err != nil {
			b.Fatal(err)
		}
		var wg sync.WaitGroup
		b.ResetTimer()
		wg.Go(func() {
			for range b.N {
				if _, err := r.q.js.Publish(r.ctx, "bare.x", make([]byte, 600)); err != nil {
					b.Error(err)
				}
			}
		})
		for i := range slots {
			wg.Go(func() {
				for n := i; n < b.N; n += slots {
					m, err := consumer.Next(jetstream.FetchMaxWait(10 * time.Second))
					if err != nil {
						b.Error(err)
						return
					}
					if _, err := kv.Create(r.ctx, fmt.Sprint("bare.", n), make([]byte, 600)); err != nil {
						b.Error(err)
					}
					if _, err := r.q.js.Publish(r.ctx, fmt.Sprint("berth.results.bare.", n), make([]byte, 600)); err != nil {
						b.Error(err)
					}
					if err := m.DoubleAck(r.ctx); err != nil {
						b.Error(err)
					}
				}
			})
		}
		wg.Wait()
	})
}

// BenchmarkSubmit is one durable write from sixteen clients, against a raw synchronous publish of as many bytes.
func BenchmarkSubmit(b *testing.B) {
	b.Run("berth", func(b *testing.B) {
		r := newRig(b)
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := r.q.Submit(r.ctx, newJob("x")); err != nil {
					b.Error(err)
				}
			}
		})
	})
	b.Run("bare", func(b *testing.B) {
		r := newRig(b)
		r.bare()
		body := make([]byte, 500)
		b.SetParallelism(8)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if _, err := r.q.js.Publish(r.ctx, "bare.x", body); err != nil {
					b.Error(err)
				}
			}
		})
	})
}
