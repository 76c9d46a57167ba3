package natsembed_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/natsembed"
)

// BenchmarkSync is the price of having each message on the disk before it is confirmed: docs/decisions/0010-sync-always.md.
func BenchmarkSync(b *testing.B) {
	for name, interval := range map[string]time.Duration{"always": 0, "every2m": 2 * time.Minute} {
		for publishers, kind := range map[int]string{1: "one", 16: "sixteen"} {
			b.Run(name+"/"+kind, func(b *testing.B) { benchPublish(b, interval, publishers) })
		}
	}
}

func benchPublish(b *testing.B, interval time.Duration, publishers int) {
	s, err := natsembed.Start(natsembed.Options{StoreDir: b.TempDir(), Listen: "127.0.0.1:0", NoToken: true, SyncInterval: interval})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Shutdown()
	nc, err := s.Connect()
	if err != nil {
		b.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := js.CreateStream(b.Context(), jetstream.StreamConfig{Name: "B", Subjects: []string{"b"}}); err != nil {
		b.Fatal(err)
	}
	body := make([]byte, 1024)
	b.SetParallelism(publishers)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := js.Publish(b.Context(), "b", body); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "msgs/s")
}
