package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/berthq/berth/queue"
)

const beatEvery = 10 * time.Second // a comment on a quiet stream, so that a dead one is noticed

// beat is one event: which topics changed, and what every page shows.
type beat struct {
	stamp
	Topics []string     `json:"topics"` // jobs, machines, points, events, broker, job:<number>
	Broker string       `json:"broker,omitempty"`
	Loaded bool         `json:"loaded"`
	Counts queue.Counts `json:"counts"`
}

// events tells a browser that something it may be showing has changed. It costs the broker nothing.
func (s *Server) events(w http.ResponseWriter, r *http.Request) {
	out := openStream(w)
	h := s.hub
	var seen uint64
	first := true
	for {
		h.mu.Lock()
		b := beat{stamp: s.stamp(), Topics: []string{}, Broker: h.broker, Loaded: h.isLoaded(), Counts: h.counts}
		for topic, at := range h.latest {
			if at > seen && !first {
				b.Topics = append(b.Topics, topic)
			}
		}
		seen, first = h.version, false
		wake := h.wake
		h.mu.Unlock()
		if out.send("beat", b) != nil {
			return
		}
		if !out.await(r, wake) {
			return
		}
	}
}

// stream is an open server-sent event stream.
type stream struct {
	w  http.ResponseWriter
	rc *http.ResponseController
}

func openStream(w http.ResponseWriter) stream {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	w.WriteHeader(http.StatusOK)
	return stream{w, http.NewResponseController(w)}
}

func (s stream) send(event string, v any) error {
	body, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(s.w, "event: %s\ndata: %s\n\n", event, body); err != nil {
		return err
	}
	return s.rc.Flush()
}

// await waits for the channel, with a sign of life now and then; false: the browser is gone or the server ends.
func (s stream) await(r *http.Request, wake <-chan struct{}) bool {
	t := time.NewTicker(beatEvery)
	defer t.Stop()
	for {
		select {
		case <-r.Context().Done():
			return false
		case <-wake:
			return true
		case <-t.C:
			if _, err := s.w.Write([]byte(": alive\n\n")); err != nil || s.rc.Flush() != nil {
				return false
			}
		}
	}
}

// logPiece is a part of a job's output.
type logPiece struct {
	Job     string    `json:"job"`
	Attempt int       `json:"attempt"`
	Stream  string    `json:"stream"`
	At      time.Time `json:"at"`
	Text    string    `json:"text"`
}

// logStream sends a job's output and goes on until the job has ended.
func (s *Server) logStream(w http.ResponseWriter, r *http.Request) {
	id, err := ref(r)
	if err != nil {
		writeError(w, err)
		return
	}
	t := s.tails.join(s.ctx, id)
	defer s.tails.leave(id, t)
	out := openStream(w)
	at := 0
	for {
		pieces, next, cut, wake, ended := t.after(at)
		at = next
		if cut && out.send("cut", map[string]string{"text": "the beginning is left out here: berth logs " + id.String() + " has it all"}) != nil {
			return
		}
		for _, p := range pieces {
			if out.send("log", p) != nil {
				return
			}
		}
		if ended != nil {
			_ = out.send("end", map[string]string{"text": strings.TrimSpace(ended.Error())}) // the browser may be gone
			return
		}
		if !out.await(r, wake) {
			return
		}
	}
}
