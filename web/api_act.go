package web

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/berthq/berth/queue"
)

// order is the body of an action; all of it may be absent.
type order struct {
	Reason string `json:"reason"` // for the audit log
	Failed bool   `json:"failed"` // retry: only the tasks that failed
	Spec   string `json:"spec"`   // submit: YAML or JSON
}

func orderOf(r *http.Request) (order, error) {
	var o order
	err := json.NewDecoder(r.Body).Decode(&o)
	if err != nil && !errors.Is(err, io.EOF) {
		return o, refuse(http.StatusBadRequest, "the body is not JSON: %v", err)
	}
	if o.Reason == "" {
		o.Reason = "from the dashboard"
	}
	return o, nil
}

type done struct {
	stamp
	Text string `json:"text"`
}

func (s *Server) submit(r *http.Request) (any, error) {
	o, err := orderOf(r)
	if err != nil {
		return nil, err
	}
	if s.o.Submit == nil {
		return nil, refuse(http.StatusNotFound, "this dashboard takes no jobs")
	}
	receipt, err := s.o.Submit(r.Context(), []byte(o.Spec))
	if err != nil {
		return nil, refuse(http.StatusUnprocessableEntity, "%v", err)
	}
	return receiptAnswer{s.stamp(), receipt}, nil
}

func (s *Server) actOnJob(r *http.Request) (any, error) {
	id, err := ref(r)
	if err != nil {
		return nil, err
	}
	o, err := orderOf(r)
	if err != nil {
		return nil, err
	}
	ctx, q := r.Context(), s.o.Queue
	switch verb := r.PathValue("verb"); verb {
	case "cancel":
		state, err := q.Cancel(ctx, id, s.o.By, o.Reason)
		return done{s.stamp(), "job " + id.String() + ": " + string(state)}, err
	case "retry":
		return done{s.stamp(), "job " + id.String() + " is queued again"}, q.Retry(ctx, id, s.o.By, o.Failed)
	case "hold":
		return done{s.stamp(), "job " + id.String() + " is held"}, q.Hold(ctx, id, s.o.By, o.Reason)
	case "release":
		return done{s.stamp(), "job " + id.String() + " may start"}, q.Release(ctx, id, s.o.By)
	case "release-lease":
		_, err := q.ReleaseLease(ctx, id, s.o.By, o.Reason, true)
		return done{s.stamp(), "lease " + id.String() + " is given back"}, err
	default:
		return nil, refuse(http.StatusNotFound, "%s: want cancel, retry, hold, release or release-lease", verb)
	}
}

func (s *Server) dropDead(r *http.Request) (any, error) {
	id, err := queue.ParseRef(r.PathValue("id"))
	if err != nil {
		return nil, refuse(http.StatusBadRequest, "%v", err)
	}
	o, err := orderOf(r)
	if err != nil {
		return nil, err
	}
	return done{s.stamp(), "dead letter " + id.String() + " is dealt with"}, s.o.Queue.DropDead(r.Context(), id, s.o.By, o.Reason)
}

func (s *Server) actOnMachine(r *http.Request) (any, error) {
	o, err := orderOf(r)
	if err != nil {
		return nil, err
	}
	name := r.PathValue("name")
	switch verb := r.PathValue("verb"); verb {
	case "drain":
		return done{s.stamp(), name + " takes no more jobs"}, s.o.Queue.Drain(r.Context(), name, s.o.By, o.Reason, 0)
	case "undrain":
		return done{s.stamp(), name + " takes jobs again"}, s.o.Queue.Undrain(r.Context(), name, s.o.By)
	default:
		return nil, refuse(http.StatusNotFound, "%s: want drain or undrain", verb)
	}
}

func (s *Server) actOnGPU(r *http.Request) (any, error) {
	o, err := orderOf(r)
	if err != nil {
		return nil, err
	}
	name, gpu := r.PathValue("name"), r.PathValue("gpu")
	switch verb := r.PathValue("verb"); verb {
	case "quarantine":
		return done{s.stamp(), gpu + " gets no more jobs"}, s.o.Queue.Quarantine(r.Context(), name, gpu, s.o.By, o.Reason)
	case "restore":
		return done{s.stamp(), gpu + " is in service"}, s.o.Queue.Restore(r.Context(), name, gpu, s.o.By, o.Reason)
	default:
		return nil, refuse(http.StatusNotFound, "%s: want quarantine or restore", verb)
	}
}
