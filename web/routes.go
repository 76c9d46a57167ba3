package web

import (
	"net/http"
	"reflect"
)

// route is one path of the API: what it does, what may be asked, and what comes back.
type route struct {
	pattern string
	does    string
	query   []string // "name: what it means"
	answer  reflect.Type
	do      func(*Server, *http.Request) (any, error)
	stream  func(*Server, http.ResponseWriter, *http.Request) // instead of do: server-sent events
}

func kind[T any]() reflect.Type { return reflect.TypeFor[T]() }

const (
	limitMeans   = "limit: at most so many, 1 to 500"
	minutesMeans = "minutes: how far back, up to 43200"
)

var api = []route{
	{"GET /api/v1/overview", "The figures of the queue, and whether the broker answers.", nil, kind[overview](), (*Server).overview, nil},
	{"GET /api/v1/jobs", "Jobs, newest first, from memory.", []string{
		"q: in number, name, model or user", "state: some states, with commas between", "user: of this user", "project: of this project", "machine: on this machine", "kind: group or lease alone",
		"sort: name, user, project, state, gpus, model, machine, run, priority or queued", "order: asc turns it round", "offset: leave out so many", limitMeans,
	}, kind[jobsAnswer](), (*Server).jobs, nil},
	{"GET /api/v1/jobs/{id}", "One job, group or task: spec, record, result, events.", nil, kind[jobAnswer](), (*Server).job, nil},
	{"GET /api/v1/jobs/{id}/tasks", "The tasks of a group with their parameters and results, 256 at a time.", []string{"from: the first index"}, kind[tasksAnswer](), (*Server).jobTasks, nil},
	{"GET /api/v1/jobs/{id}/series", "What was measured on its GPUs, over time; no GPUs: nothing yet.", []string{"attempt: of this attempt; the last one"}, kind[seriesAnswer](), (*Server).series, nil},
	{"GET /api/v1/jobs/{id}/explain", "Why it waits, as berth explain -o json says it.", nil, nil, (*Server).explain, nil},
	{"GET /api/v1/reasons", "The word for why each of these jobs waits.", []string{"ids: job numbers, with commas between, 50 at most"}, kind[reasonsAnswer](), (*Server).reasons, nil},
	{"GET /api/v1/machines", "The machines that are there, with their GPUs.", nil, kind[machinesAnswer](), (*Server).machines, nil},
	{"GET /api/v1/machines/{name}/history", "A point for each minute of the last day of a machine.", nil, kind[historyAnswer](), (*Server).machineHistory, nil},
	{"GET /api/v1/leases", "GPUs leased to people and scripts.", nil, kind[leasesAnswer](), (*Server).leases, nil},
	{"GET /api/v1/dead", "Dead letters.", []string{"project: of this project"}, kind[deadAnswer](), (*Server).dead, nil},
	{"GET /api/v1/usage", "GPUs held over time and GPU hours, by owner.", []string{"by: user, project or machine", minutesMeans}, kind[usageAnswer](), (*Server).usage, nil},
	{"GET /api/v1/timeline", "Who held which GPU when.", []string{minutesMeans}, kind[timelineAnswer](), (*Server).timeline, nil},
	{"GET /api/v1/audit", "Who did what, newest first.", nil, kind[auditAnswer](), (*Server).audit, nil},

	{"POST /api/v1/jobs", "Submit a spec, YAML or JSON, as the command submit does.", nil, kind[receiptAnswer](), (*Server).submit, nil},
	{"POST /api/v1/jobs/{id}/{verb}", "cancel, retry, hold, release or release-lease.", nil, kind[done](), (*Server).actOnJob, nil},
	{"POST /api/v1/dead/{id}/drop", "Deal with a dead letter by leaving it.", nil, kind[done](), (*Server).dropDead, nil},
	{"POST /api/v1/machines/{name}/{verb}", "drain or undrain.", nil, kind[done](), (*Server).actOnMachine, nil},
	{"POST /api/v1/machines/{name}/gpus/{gpu}/{verb}", "quarantine or restore; gpu is a UUID or an index.", nil, kind[done](), (*Server).actOnGPU, nil},

	{"GET /api/v1/jobs/{id}/log", "Its output as server-sent events: log (a piece), cut (the beginning is left out), end.", nil, kind[logPiece](), nil, (*Server).logStream},
	{"GET /api/v1/events", "What has changed, as server-sent events called beat: read again what you show of these topics.", nil, kind[beat](), nil, (*Server).events},
	{"GET /api/openapi.json", "This document.", nil, nil, nil, (*Server).openAPI},
}
