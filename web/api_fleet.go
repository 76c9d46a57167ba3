package web

import (
	"net/http"
	"time"

	"github.com/berthq/berth/queue"
)

func (s *Server) machines(*http.Request) (any, error) {
	return machinesAnswer{s.stamp(), s.hub.fleet()}, nil
}

func (s *Server) machineHistory(r *http.Request) (any, error) {
	name := r.PathValue("name")
	return historyAnswer{s.stamp(), s.hub.history(name), s.hub.index.aheadOf(name).Seconds()}, nil
}

func (s *Server) leases(r *http.Request) (any, error) {
	held := []queue.HeldLease{}
	silent := []string{}
	for _, m := range s.hub.fleet() {
		if s.o.Leases == nil {
			break
		}
		some, err := s.o.Leases(r.Context(), m.Name)
		if err != nil {
			silent = append(silent, m.Name)
			continue
		}
		held = append(held, some...)
	}
	list, _ := s.hub.index.list(wish{kind: "lease", limit: pageMost})
	return leasesAnswer{s.stamp(), held, list, silent}, nil
}

func (s *Server) dead(r *http.Request) (any, error) {
	letters, err := s.o.Queue.Dead(r.Context(), r.URL.Query().Get("project"))
	if err != nil {
		return nil, err
	}
	return deadAnswer{s.stamp(), append([]queue.DeadLetter{}, letters...)}, nil
}

func (s *Server) usage(r *http.Request) (any, error) {
	by := r.URL.Query().Get("by")
	switch by {
	case "":
		by = "user"
	case "user", "project", "machine":
	default:
		return nil, refuse(http.StatusBadRequest, "by=%s: want user, project or machine", by)
	}
	minutes, err := number(r.URL.Query().Get("minutes"), 24*60, 30*24*60)
	if err != nil {
		return nil, err
	}
	if minutes == 0 {
		return nil, refuse(http.StatusBadRequest, "minutes: want at least 1")
	}
	now := s.o.Now().UTC()
	return usageAnswer{s.hub.index.gpuTime(by, time.Duration(minutes)*time.Minute, now), now}, nil
}

func (s *Server) audit(*http.Request) (any, error) {
	return auditAnswer{s.stamp(), s.hub.eventsOf(0, 500)}, nil
}
