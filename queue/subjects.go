package queue

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/berthq/berth/job"
)

// The streams.
const (
	StreamJobs    = "BERTH_JOBS"    // berth.jobs.<project>.<user>: every submitted job; sequence = number
	StreamLanes   = "BERTH_LANES"   // berth.lanes.<band>.<shape>.<project>: what waits, until acknowledged; berth.sched.> for later
	StreamDuties  = "BERTH_DUTIES"  // berth.due.<project>, berth.round.<project>: what clerks see to; berth.wake.> for later
	StreamRuns    = "BERTH_RUNS"    // berth.runs.<project>.<job>.<attempt>: one message per attempt
	StreamResults = "BERTH_RESULTS" // berth.results.<project>.<job>: one message per round, the last one counts
	StreamLogs    = "BERTH_LOGS"    // berth.logs.<project>.<job>.<attempt>: output in chunks
	StreamSeries  = "BERTH_SERIES"  // berth.series.<project>.<job>.<attempt>, berth.fleet.<machine>: points for charts
	StreamEvents  = "BERTH_EVENTS"  // berth.events.<kind>.<project>: who did what
	StreamUsage   = "BERTH_USAGE"   // berth.usage.<project>.<hour>: counters of GPU seconds
)

// The buckets.
const (
	BucketRecords      = "berth_records"      // <number> or <number>.<index>: the job's life so far
	BucketShapes       = "berth_shapes"       // shape.<id>: definition; lane.<band>.<shape>.<project>: lane in use
	BucketReservations = "berth_reservations" // <number>[.<index>]: machine that drains towards a wide job
	BucketSessions     = "berth_sessions"     // <machine>.<instance>: a worker's proof of life
	BucketMachines     = "berth_machines"     // <machine>: presence and snapshot
	BucketProjects     = "berth_projects"     // set.<project>: its settings; held.<project>: who holds the GPUs of one with a limit
	BucketDead         = "berth_dead"         // <number>[.<index>]: jobs the system could not run, until somebody has dealt with them
	BucketWaits        = "berth_waits"        // <number>.<index or all>.<child>: who waits for the end of a job or task
	BucketKeys         = "berth_keys"         // <project>.<user>.<hash>: idempotency keys; elect.<duty>: elections
)

// The subjects. A job token is <number> or <number>.<index>, so a task's subject has one token more.
const (
	prefixJobs        = "berth.jobs."
	prefixLanes       = "berth.lanes."
	prefixSched       = "berth.sched."
	prefixDue         = "berth.due."   // berth.due.<project>: wake-ups for jobs that may be overdue
	prefixWake        = "berth.wake."  // berth.wake.<number>, .near.<number>: the same, to come at its time
	prefixRound       = "berth.round." // berth.round.<project>: wishes for one more round of a job
	prefixRuns        = "berth.runs."
	prefixResults     = "berth.results."
	prefixLogs        = "berth.logs."
	prefixSeries      = "berth.series."
	prefixFleet       = "berth.fleet."
	prefixEvents      = "berth.events."
	prefixUsage       = "berth.usage."
	prefixControl     = "berth.ctl."     // berth.ctl.<verb>.<project>.<user>: requests, answered by any worker
	prefixMachine     = "berth.machine." // berth.machine.<machine>.<verb>.<project>.<user>: requests to one worker
	prefixLease       = "berth.lease."   // berth.lease.<machine>.<what>.<project>.<user>: questions to one worker about its GPUs
	prefixNotify      = "berth.notify."  // berth.notify.<machine>.<instance>: core messages to one session; the record is the truth
	prefixNotifyGroup = "berth.notify.group."
	subjectHoldings   = "berth.holdings" // core messages: what the fleet's runs hold, by project; presence is the truth

	// what the brokers of a cluster say when a lane's consumer has a new leader; its name follows
	prefixElected = "$JS.EVENT.ADVISORY.CONSUMER.LEADER_ELECTED." + StreamLanes + "."

	subjectResultsOfTasks = prefixResults + "*.*.*"
	subjectControlAll     = prefixControl + ">"

	consumerDue    = "due"     // the durable consumer of wake-ups on BERTH_LANES
	consumerRounds = "rounds"  // the durable consumer of wishes for rounds on BERTH_LANES
	consumerClerk  = "clerk"   // the durable consumer on BERTH_JOBS that all clerks share
	lanePrefix     = "lane."   // keys of BucketShapes
	shapePrefix    = "shape."  // keys of BucketShapes
	pullGroup      = "g"       // the one priority group of a lane's consumer
	controlQueue   = "control" // the queue group of those who answer control requests
)

// The headers of our own.
const (
	HeaderState   = "Berth-State"   // on results and runs: the state, so that counting needs no body
	HeaderStream  = "Berth-Stream"  // on logs: stdout or stderr
	HeaderOffset  = "Berth-Offset"  // on logs: where the chunk starts in the run's output
	HeaderNext    = "Berth-Next"    // on logs: where the next one starts
	HeaderTime    = "Berth-Time"    // on logs: when it was written, RFC 3339
	HeaderEnd     = "Berth-End"     // on logs: 1 on the last message of an attempt
	headerMsgID   = "Nats-Msg-Id"   // dedupe and, on records, whose write it was
	headerStatus  = "Status"        // of a pull that brings no message
	headerSched   = "Nats-Schedule" // when a message of berth.sched goes out
	headerTarget  = "Nats-Schedule-Target"
	headerIncr    = "Nats-Incr"
	headerTTL     = "Nats-TTL"
	headerKVOp    = "KV-Operation"
	headerMarker  = "Nats-Marker-Reason"
	headerNumPend = "Nats-Num-Pending"
	headerSeq     = "Nats-Sequence"
	headerSubject = "Nats-Subject"
	headerStamp   = "Nats-Time-Stamp"
)

// Ref names a job ("1842") or one task of a group ("1842.17").
type Ref struct {
	Number uint64
	Index  int  // of the task; meaningless unless Task
	Task   bool // false: the job itself
}

// JobRef names a job.
func JobRef(number uint64) Ref { return Ref{Number: number} }

// TaskRef names one task of a group.
func TaskRef(number uint64, index int) Ref { return Ref{Number: number, Index: index, Task: true} }

func refOf(number uint64, index *int) Ref {
	if index == nil {
		return JobRef(number)
	}
	return TaskRef(number, *index)
}

// ParseRef reads "1842" or "1842.17".
func ParseRef(s string) (Ref, error) {
	number, index, task := strings.Cut(s, ".")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || n == 0 {
		return Ref{}, fmt.Errorf("%q is not a job number (1842) or a task (1842.17)", s)
	}
	if !task {
		return JobRef(n), nil
	}
	i, err := strconv.Atoi(index)
	if err != nil || i < 0 {
		return Ref{}, fmt.Errorf("%q is not a task number such as 1842.17", s)
	}
	return TaskRef(n, i), nil
}

func (r Ref) String() string {
	if r.Task {
		return strconv.FormatUint(r.Number, 10) + "." + strconv.Itoa(r.Index)
	}
	return strconv.FormatUint(r.Number, 10)
}

// IndexPtr is the index as records and results keep it.
func (r Ref) IndexPtr() *int {
	if !r.Task {
		return nil
	}
	i := r.Index
	return &i
}

func (r Ref) attemptToken(attempt int) string { return r.String() + "." + strconv.Itoa(attempt) }

func jobSubject(project, user string) string { return prefixJobs + project + "." + user }

func laneSubject(l job.Lane) string {
	return prefixLanes + string(l.Band) + "." + string(l.Shape) + "." + l.Project
}

func laneKey(l job.Lane) string {
	return lanePrefix + string(l.Band) + "." + string(l.Shape) + "." + l.Project
}

// laneConsumer names the lane's consumer. Project and shape may hold '-' and '_', so names are never parsed back: the
// filter subject says which lane it is.
func laneConsumer(l job.Lane) string {
	return "l" + string(l.Band) + "_" + string(l.Shape) + "_" + l.Project
}

func schedSubject(r Ref, epoch int) string {
	return prefixSched + r.String() + "." + strconv.Itoa(epoch)
}

func runSubject(project string, r Ref, attempt int) string {
	return prefixRuns + project + "." + r.attemptToken(attempt)
}

func resultSubject(project string, r Ref) string { return prefixResults + project + "." + r.String() }

func logSubject(project string, r Ref, attempt int) string {
	return prefixLogs + project + "." + r.attemptToken(attempt)
}

func seriesSubject(project string, r Ref, attempt int) string {
	return prefixSeries + project + "." + r.attemptToken(attempt)
}

func dispatchID(r Ref, epoch int) string { return r.attemptToken(epoch) }

// parseDispatchID is the inverse of dispatchID.
func parseDispatchID(id string) (ref Ref, epoch int, ok bool) {
	i := strings.LastIndexByte(id, '.')
	if i < 0 {
		return Ref{}, 0, false
	}
	epoch, err := strconv.Atoi(id[i+1:])
	if err != nil || epoch < 1 {
		return Ref{}, 0, false
	}
	ref, err = ParseRef(id[:i])
	return ref, epoch, err == nil
}

// parseLaneSubject is the inverse of laneSubject.
func parseLaneSubject(subject string) (job.Lane, bool) {
	return parseLaneTokens(subject, prefixLanes)
}

func parseLaneTokens(s, prefix string) (job.Lane, bool) {
	rest, ok := strings.CutPrefix(s, prefix)
	if !ok {
		return job.Lane{}, false
	}
	t := strings.Split(rest, ".")
	if len(t) != 3 || t[0] == "" || t[1] == "" || t[2] == "" {
		return job.Lane{}, false
	}
	return job.Lane{Band: job.Band(t[0]), Shape: job.ShapeID(t[1]), Project: t[2]}, true
}

// parseAttemptSubject takes job and attempt from <prefix><project>.<number>[.<index>].<attempt>.
func parseAttemptSubject(subject, prefix string) (Ref, int, error) {
	rest, ok := strings.CutPrefix(subject, prefix)
	_, rest, ok2 := strings.Cut(rest, ".")
	i := strings.LastIndexByte(rest, '.')
	if !ok || !ok2 || i < 0 {
		return Ref{}, 0, fmt.Errorf("subject %q is not %s<project>.<job>.<attempt>", subject, prefix)
	}
	attempt, err := strconv.Atoi(rest[i+1:])
	if err != nil {
		return Ref{}, 0, fmt.Errorf("subject %q: %w", subject, err)
	}
	ref, err := ParseRef(rest[:i])
	return ref, attempt, err
}

// parseJobSubject takes project and user from the subject, where the broker's permissions pin them.
func parseJobSubject(subject string) (project, user string, ok bool) {
	rest, ok := strings.CutPrefix(subject, prefixJobs)
	if !ok {
		return "", "", false
	}
	project, user, ok = strings.Cut(rest, ".")
	return project, user, ok && project != "" && user != ""
}

var tokenForm = regexp.MustCompile(`^[a-z0-9_-]{1,32}$`)

// checkToken says whether s may stand for a project or a user in a subject.
func checkToken(what, s string) error {
	if tokenForm.MatchString(s) {
		return nil
	}
	return fmt.Errorf("%s %q: use 1 to 32 of a-z 0-9 _ -", what, s)
}

var plainToken = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

// token makes one subject token of any name (a host name has dots); names that needed a change carry a hash, so two
// never meet.
func token(name string) string {
	if plainToken.MatchString(name) {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	clean := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '-':
			return r
		}
		return '_'
	}, name)
	if len(clean) > 48 {
		clean = clean[:48]
	}
	return clean + "_" + hex.EncodeToString(sum[:4])
}
