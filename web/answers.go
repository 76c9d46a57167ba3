package web

import (
	"encoding/json"
	"time"

	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/telemetry"
)

// The answers of the API, one type each: the document at /api/openapi.json is made of them.
type (
	jobsAnswer struct {
		stamp
		Loaded   bool     `json:"loaded"` // false: the dashboard is still reading what the broker keeps
		Total    int      `json:"total"`  // that fit, on all pages
		Offset   int      `json:"offset"`
		Jobs     []row    `json:"jobs"`
		Users    []string `json:"users"`
		Projects []string `json:"projects"`
	}
	reasonsAnswer struct {
		stamp
		Reasons map[string]string `json:"reasons"`
	}
	receiptAnswer struct {
		stamp
		Receipt json.RawMessage `json:"receipt"` // as submit -o json prints it
	}
	tasksAnswer struct {
		stamp
		Tasks []taskLine `json:"tasks"`
		Next  int        `json:"next"` // from, of the next page; 0: that was all
	}
	seriesAnswer struct {
		stamp
		Attempt int              `json:"attempt"`
		Series  telemetry.Series `json:"series"`
	}
	machinesAnswer struct {
		stamp
		Machines []queue.Machine `json:"machines"`
	}
	historyAnswer struct {
		stamp
		Points []json.RawMessage `json:"points"`
		// AheadSeconds is how far the machine's clock, by which the points are, is ahead of ours.
		AheadSeconds float64 `json:"ahead_seconds"`
	}
	leasesAnswer struct {
		stamp
		Held   []queue.HeldLease `json:"held"`
		Leases []row             `json:"leases"`
		Silent []string          `json:"silent"` // machines that did not answer
	}
	deadAnswer struct {
		stamp
		Dead []queue.DeadLetter `json:"dead"`
	}
	usageAnswer struct {
		usage
		Now time.Time `json:"now"`
	}
	auditAnswer struct {
		stamp
		Events []queue.Event `json:"events"`
	}
	timelineAnswer struct {
		stamp
		From     time.Time `json:"from"`
		Segments []segment `json:"segments"`
		Cut      bool      `json:"cut,omitempty"` // the oldest are left out
	}
	refusalAnswer struct {
		Version int    `json:"version"`
		Error   string `json:"error"`
	}
)
