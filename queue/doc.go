// Package queue is everything on the wire: the streams, buckets and subjects of Berth, and the verbs that move a job
// over them. It is the only place that knows how a job is kept, handed out, fenced and brought to its end.
//
// It owns names (subjects.go), streams and buckets (topology.go), the record of every job and its compare-and-set
// (records.go), the clerk that turns jobs into lane messages (clerk.go, group.go), the pulls of a worker (puller.go),
// its proof of life (session.go) and its right to run one job (claim.go, finish.go).
//
// It never looks at a GPU, starts a process or decides which lane is better: the worker says what it wants, in order.
//
// One job over the wire:
//
//	Submit ---------> berth.jobs.<project>.<user>                    one durable write; sequence = number
//	RunClerk -------> berth.lanes.<band>.<shape>.<project>           one small message a job, a window of a group
//	Puller.Next <---- (a waiting or a sweeping pull on the lane)     Delivery
//	Delivery.Claim -> berth_records <number>                         compare-and-set: running, session, devices
//	Claim.Hold -----> in-progress beats, cancel and loss noticed
//	Claim.Finish ---> berth_records (result inside) -> berth.runs -> berth.results -> acknowledged
//
// How a delivery ends, by what the record says:
//
//	record                        message          what happens
//	none, or queued               same epoch       may be claimed
//	any                           older epoch      forgotten (the current epoch's message is put back if it is missing)
//	final                         same epoch       forgotten (its result is published if it is missing)
//	running, holder lives         same epoch       returned with a delay
//	running, holder's session     same epoch       attempt closed as machine_lost; then as queued, or cancelled,
//	gone                                           or dead after Options.SystemAttempts
//	held                          same epoch       forgotten; release queues it anew
//
// Two rules carry everything else. The record's compare-and-set is the fence: who loses it steps back and never
// acknowledges. The right to run is the worker's session (a key with a TTL, renewed by compare-and-set), never the
// broker's redelivery timer, so a broker restarted within the TTL costs no running job.
package queue
