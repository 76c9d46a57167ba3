// Package telemetry reads GPUs.
//
// It owns the words for a card and what is known of it now ([Device], [Reading], [Process], [Snapshot], [Fault]), the
// one loop of a worker that reads them ([Sampler]) and one attempt's view of that loop ([Meter]). The reading itself
// is done by a [Source]: telemetry/nvml, telemetry/smi or telemetry/sim, chosen by telemetry/detect.
//
// It never decides anything. Whether a card is good enough, whether a process may stay, what a fault does to a run:
// gpuslots and worker say so, from what stands here.
//
// # What can be relied on
//
//   - Unknown is absent (nil), never zero. A card without a power meter has no PowerW.
//   - A device is named by its UUID. Its index is for people, and changes when another card is lost.
//   - Memory is MiB, energy joules, and both are whole cards, not processes, unless the field says so.
//   - What a library says is looked at before it is believed: negative memory, more used than there is, a device
//     that changed its name or vanished become an absent gauge or a lost device, and one warning.
//   - A Snapshot is shared by all who ask and is never changed after it is published. Do not change it.
//
// # Health of a source
//
//	            answers                    2 s without an answer          10 s
//	none    ok ---------------------> ok ------------------------> suspect ----> unreadable
//	(no GPU)                           ^                              |              |
//	                                   +------------ answers ---------+--------------+
//
// Suspect readings are old news: nothing new should be granted on them. An unreadable device gets no work and its
// freed slots stay dirty; what runs on it goes on.
//
// # One reading at a time
//
// However many ask, at most one call into the source is under way. Who asks while one is under way gets the next
// one, never the one that began before the question: a grant after a release must not see the time before it.
package telemetry
