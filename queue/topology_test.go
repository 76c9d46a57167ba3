package queue

import (
	"testing"

	"github.com/nats-io/nats.go/jetstream"
)

func TestTopologyIsIdempotentAndKeepsAnOperatorsLimits(t *testing.T) {
	t.Parallel()
	b := setup(t, quick())
	logs, err := b.q.js.Stream(b.ctx, StreamLogs)
	if err != nil {
		t.Fatal(err)
	}
	cfg := logs.CachedInfo().Config
	cfg.MaxBytes = 12345678
	if _, err := b.q.js.UpdateStream(b.ctx, cfg); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := EnsureTopology(b.ctx, b.q.js, b.opts); err != nil {
			t.Fatal(err)
		}
	}
	if logs, err = b.q.js.Stream(b.ctx, StreamLogs); err != nil || logs.CachedInfo().Config.MaxBytes != 12345678 {
		t.Errorf("the operator's limit: %v, %v", logs.CachedInfo().Config.MaxBytes, err)
	}
	sessions, err := b.q.js.Stream(b.ctx, "KV_"+BucketSessions)
	if err != nil || sessions.CachedInfo().Config.AllowDirect {
		t.Errorf("sessions may be read from a follower that lags (%v)", err)
	}
	// Every bucket is one that any KV client can use.
	for _, name := range []string{
		BucketRecords, BucketShapes, BucketReservations, BucketSessions, BucketMachines, BucketKeys,
	} {
		if _, err := b.q.js.KeyValue(b.ctx, name); err != nil {
			t.Errorf("bucket %s: %v", name, err)
		}
	}
}

func TestUpgradeAddsWhatIsMissing(t *testing.T) {
	t.Parallel()
	want := streams(Options{}.withDefaults())[0]
	have := jetstream.StreamConfig{Name: StreamLanes, Subjects: []string{prefixLanes + "*.*.*"}, MaxConsumers: 100, AllowDirect: true}
	got, changed := upgrade(have, want)
	if !changed || !got.AllowMsgSchedules || !got.AllowMsgTTL || len(got.Subjects) != len(want.Subjects) || got.MaxConsumers != want.MaxConsumers {
		t.Errorf("%v %+v", changed, got)
	}
	if _, changed := upgrade(got, want); changed {
		t.Error("a second upgrade changes something")
	}
}
