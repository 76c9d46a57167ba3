// Package spool is the form in which a run's output lies on disk between the shim that catches it and the worker that
// ships it.
//
// It owns the frame (which stream, when, the bytes), the files a run's frames lie in, and what is kept of an output
// larger than its cap. It never interprets the bytes and knows neither processes nor the broker. Light imports only:
// the shim is built on it.
//
// # Files
//
// Frames have an offset: how many bytes of frames came before, kept or not. A file is named by the offset of its first
// frame. What is not in any file was not kept, and a reader says so with a frame of its own.
//
//	log-00000000000000000000     the head: up to half the cap, read while it grows
//	log-…                        again, after the disk was full for a while
//	tail-…  tail-…               the last two pieces of all that came after, read when the run has ended
//
//	 |<------ head ------>|  not kept  |<- tail ->|<- tail ->|
//	 0                    cap/2                              end
package spool
