package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

const (
	pageDefault = 50
	pageMost    = 500
	askLimit    = 10 * time.Second // for one request to the broker
)

// refusal is an error with the status it is answered with.
type refusal struct {
	status int
	text   string
}

func (e refusal) Error() string { return e.text }

func refuse(status int, format string, args ...any) error {
	return refusal{status, fmt.Sprintf(format, args...)}
}

func statusOf(err error) int {
	var r refusal
	switch {
	case errors.As(err, &r):
		return r.status
	case errors.Is(err, queue.ErrNotFound), errors.Is(err, queue.ErrNoLetter):
		return http.StatusNotFound
	case errors.Is(err, queue.ErrFinal), errors.Is(err, queue.ErrNotFinal), errors.Is(err, queue.ErrRunning), errors.Is(err, queue.ErrNothingFailed):
		return http.StatusConflict
	case errors.Is(err, queue.ErrBadRequest), errors.Is(err, queue.ErrNoLease):
		return http.StatusBadRequest
	case errors.Is(err, queue.ErrNotAllowed):
		return http.StatusForbidden
	case errors.Is(err, queue.ErrNoWorker):
		return http.StatusBadGateway
	}
	return http.StatusServiceUnavailable // the broker
}

func writeError(w http.ResponseWriter, err error) {
	writeJSON(w, statusOf(err), map[string]any{"version": 1, "error": err.Error()})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		status, body = http.StatusInternalServerError, []byte(`{"version":1,"error":"the answer is not JSON"}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // a browser that went away
}

func (s *Server) answer(do func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), askLimit)
		defer cancel()
		v, err := do(r.WithContext(ctx))
		if err != nil {
			writeError(w, err)
			return
		}
		writeJSON(w, http.StatusOK, v)
	}
}

// stamp opens every answer: times on pages are relative to the server's clock, not to the browser's.
type stamp struct {
	Version int       `json:"version"`
	Now     time.Time `json:"now"`
}

func (s *Server) stamp() stamp { return stamp{1, s.o.Now().UTC()} }

type overview struct {
	stamp
	Demo   bool         `json:"demo"`
	Loaded bool         `json:"loaded"`
	Broker string       `json:"broker,omitempty"` // why it does not answer
	MayAct bool         `json:"may_act"`
	Counts queue.Counts `json:"counts"`
	Waited waiting      `json:"waited"` // of those that started in the last 24 h
}

func (s *Server) overview(r *http.Request) (any, error) {
	h := s.hub
	h.mu.Lock()
	o := overview{stamp: s.stamp(), Demo: s.o.Demo, Loaded: h.isLoaded(), Broker: h.broker, Counts: h.counts, MayAct: s.knows(r)}
	h.mu.Unlock()
	o.Waited = h.index.waited(o.Now.Add(-24 * time.Hour))
	return o, nil
}

func (s *Server) jobs(r *http.Request) (any, error) {
	v := r.URL.Query()
	w := wish{text: v.Get("q"), project: v.Get("project"), user: v.Get("user"), machine: v.Get("machine"), kind: v.Get("kind"),
		sort: v.Get("sort"), up: v.Get("order") == "asc"}
	for word := range strings.SplitSeq(v.Get("state"), ",") {
		if word != "" {
			w.states = append(w.states, job.State(word))
		}
	}
	var err error
	if w.offset, err = number(v.Get("offset"), 0, 1<<31); err == nil {
		w.limit, err = number(v.Get("limit"), pageDefault, pageMost)
	}
	if err != nil {
		return nil, err
	}
	list, total := s.hub.index.list(w)
	s.hub.addProgress(list)
	users, projects := s.hub.index.owners()
	return jobsAnswer{s.stamp(), s.hub.isLoaded(), total, w.offset, list, users, projects}, nil
}

// reasons says of the jobs that a page shows why they wait, as berth status says it. It is asked for after the list: the
// list comes from memory, this from the broker.
func (s *Server) reasons(r *http.Request) (any, error) {
	words := map[string]string{}
	var views []queue.JobView
	for id := range strings.SplitSeq(r.URL.Query().Get("ids"), ",") {
		if id == "" || len(views) == pageDefault || s.o.Reasons == nil {
			continue
		}
		ref, err := queue.ParseRef(id)
		if err != nil {
			return nil, refuse(http.StatusBadRequest, "ids: %s", err)
		}
		v, err := s.o.Queue.Show(r.Context(), ref)
		if errors.Is(err, queue.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if v.State == job.Queued && v.Reason == "" {
			views = append(views, v)
		}
	}
	if len(views) > 0 {
		if err := s.o.Reasons(r.Context(), views); err != nil {
			return nil, err
		}
	}
	for _, v := range views {
		words[v.Ref.String()] = v.Reason
	}
	return reasonsAnswer{s.stamp(), words}, nil
}

func number(text string, otherwise, most int) (int, error) {
	if text == "" {
		return otherwise, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 || n > most {
		return 0, refuse(http.StatusBadRequest, "%q: want a number from 0 to %d", text, most)
	}
	return n, nil
}

func ref(r *http.Request) (queue.Ref, error) {
	found, err := queue.ParseRef(r.PathValue("id"))
	if err != nil {
		return found, refuse(http.StatusBadRequest, "%s", err)
	}
	return found, nil
}
