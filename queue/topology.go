package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	day = 24 * time.Hour

	// duplicateWindow is how long a stream remembers message ids. Each costs the broker some hundred bytes all the while:
	// of a million jobs that were sent at once that is most of what they cost. A submit that is tried for longer looks
	// whether its job is there before it tries again; what ends a run is published with the sequence it expects.
	duplicateWindow = 2 * time.Minute

	// laneWindow is that of the lanes: longer than a clerk takes to be given a job again. A copy that comes later is
	// forgotten by whoever gets it, by the job's record.
	laneWindow = 30 * time.Second

	// logWindow is that of the logs, whose messages have no other guard: as long as a run's output may be sent again.
	logWindow = 10 * time.Minute

	// keepRecord is how long a job's record outlives its end.
	keepRecord = 90 * day

	// keepKeys is how long an idempotency key is remembered.
	keepKeys = 7 * day

	// presenceTTL is how long a machine is believed to be there without a word from it.
	presenceTTL = 15 * time.Second

	// markerTTL is how long a bucket tells watchers that a key has expired.
	markerTTL = 10 * time.Second

	// DefaultMaxLanes bounds the lanes: each is a consumer, and an idle one still costs the broker memory.
	DefaultMaxLanes = 2000

	// leastLogBytes is the smallest log stream that is worth having.
	leastLogBytes = 64 << 20
)

// streams lists every stream with what it promises.
//
// The jobs stream is the truth about what was submitted, so nobody may delete or purge it; the lanes are repairable
// from it, stay open to repair, and need not be on the disk before a job goes on. Sessions are read from the leader only (no AllowDirect): a follower that lags could
// call a live session gone, and its job would be started twice.
func streams(o Options) []jetstream.StreamConfig {
	limits := func(name string, age time.Duration, subjects ...string) jetstream.StreamConfig {
		return jetstream.StreamConfig{
			Name: name, Subjects: subjects, Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage,
			Replicas: o.Replicas, MaxAge: age, Discard: jetstream.DiscardOld, Duplicates: duplicateWindow,
			AllowDirect: true, MaxMsgs: -1, MaxBytes: -1, MaxConsumers: -1,
		}
	}
	jobs := limits(StreamJobs, 90*day, prefixJobs+"*.*")
	jobs.DenyDelete, jobs.DenyPurge = true, true

	lanes := limits(StreamLanes, 0, prefixLanes+"*.*.*", prefixSched+">")
	lanes.Retention, lanes.Duplicates = jetstream.WorkQueuePolicy, laneWindow
	if o.Replicas <= 1 {
		lanes.PersistMode = jetstream.AsyncPersistMode // docs/decisions/0072
	}
	lanes.AllowMsgSchedules, lanes.AllowMsgTTL = true, true
	lanes.MaxConsumers = o.MaxLanes + 16 // the clerk refuses before the broker does

	duties := limits(StreamDuties, 0, prefixDue+"*", prefixRound+"*", prefixWake+">")
	duties.Retention = jetstream.WorkQueuePolicy
	duties.AllowMsgSchedules, duties.AllowMsgTTL = true, true

	logs := limits(StreamLogs, 30*day, prefixLogs+">")
	logs.MaxBytes, logs.Duplicates = o.LogBytes, logWindow

	usage := limits(StreamUsage, 30*day, prefixUsage+"*.*")
	usage.AllowMsgCounter = true

	return []jetstream.StreamConfig{
		lanes, duties, logs, usage,
		limits(StreamRuns, 90*day, prefixRuns+">"),
		limits(StreamResults, 90*day, prefixResults+">"),
		limits(StreamSeries, 30*day, prefixSeries+">", prefixFleet+"*"),
		limits(StreamEvents, 90*day, prefixEvents+"*.*"),
		bucket(o, BucketRecords, 0, true),
		bucket(o, BucketShapes, 0, true),
		bucket(o, BucketReservations, 0, true),
		bucket(o, BucketSessions, 0, false),
		bucket(o, BucketMachines, presenceTTL, true),
		bucket(o, BucketProjects, 0, true),
		bucket(o, BucketDead, 90*day, true),
		bucket(o, BucketWaits, 90*day, true),
		bucket(o, BucketKeys, 0, true),
		jobs, // last: where it is, everything else is too
	}
}

// bucket is the stream of one key-value bucket, as any KV client of NATS understands it. Keys may carry a TTL.
func bucket(o Options, name string, ttl time.Duration, direct bool) jetstream.StreamConfig {
	window := 2 * time.Minute
	if ttl > 0 && ttl < window {
		window = ttl
	}
	return jetstream.StreamConfig{
		Name: "KV_" + name, Subjects: []string{"$KV." + name + ".>"}, MaxMsgsPerSubject: 1, MaxAge: ttl,
		Storage: jetstream.FileStorage, Replicas: o.Replicas, Discard: jetstream.DiscardNew, Duplicates: window,
		AllowRollup: true, DenyDelete: true, AllowDirect: direct, AllowMsgTTL: true, SubjectDeleteMarkerTTL: markerTTL,
		MaxMsgs: -1, MaxBytes: -1, MaxConsumers: -1,
	}
}

// EnsureTopology creates what is missing and switches on what an older version of Berth did not need. It leaves every
// limit an operator has changed as it is.
func EnsureTopology(ctx context.Context, js jetstream.JetStream, o Options) error {
	o = o.withDefaults()
	for _, want := range streams(o) {
		if err := ensureStream(ctx, js, want); err != nil {
			return fmt.Errorf("stream %s: %w", want.Name, err)
		}
	}
	return nil
}

func ensureStream(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) error {
	have, err := js.Stream(ctx, want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return createStream(ctx, js, want)
	}
	if err != nil {
		return streamError(err)
	}
	merged, changed := upgrade(have.CachedInfo().Config, want)
	if !changed {
		return nil
	}
	_, err = js.UpdateStream(ctx, merged)
	return streamError(err)
}

// createStream retries with a smaller size limit where the disk is too small for the one we would like, and accepts
// that another process was faster.
func createStream(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig) error {
	for {
		_, err := js.CreateStream(ctx, want)
		switch {
		case err == nil, errors.Is(err, jetstream.ErrStreamNameAlreadyInUse):
			return nil
		case isInsufficientStorage(err) && want.MaxBytes/4 >= leastLogBytes:
			want.MaxBytes /= 4
		default:
			return streamError(err)
		}
	}
}

// upgrade adds to a stream's configuration the subjects and features that this version needs.
func upgrade(have, want jetstream.StreamConfig) (jetstream.StreamConfig, bool) {
	changed := false
	for _, s := range want.Subjects {
		if !slices.Contains(have.Subjects, s) {
			have.Subjects, changed = append(have.Subjects, s), true
		}
	}
	for _, f := range []struct{ have, want *bool }{
		{&have.AllowMsgSchedules, &want.AllowMsgSchedules},
		{&have.AllowMsgTTL, &want.AllowMsgTTL},
		{&have.AllowDirect, &want.AllowDirect},
	} {
		if *f.want && !*f.have {
			*f.have, changed = true, true
		}
	}
	if want.MaxConsumers > have.MaxConsumers && have.MaxConsumers > 0 {
		have.MaxConsumers, changed = want.MaxConsumers, true
	}
	return have, changed
}

func isInsufficientStorage(err error) bool {
	var api *jetstream.APIError
	const storageExceeded, insufficientResources = 10047, 10023
	return errors.As(err, &api) && (api.ErrorCode == storageExceeded || api.ErrorCode == insufficientResources)
}

// streamError says in our words what the broker's answer means.
func streamError(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, jetstream.ErrJetStreamNotEnabled), errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount),
		errors.Is(err, nats.ErrNoResponders):
		return fmt.Errorf("%w: start nats-server with jetstream enabled, or use `berth up` (%w)", ErrNoJetStream, err)
	}
	return err
}
