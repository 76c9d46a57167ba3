// Package operator is the berth command: what people type to see the queue and the machines, and to act on them.
//
// It owns the verbs, what each shows and in which columns. It never decides anything about a job: reading and acting
// are the queue's verbs. `berth submit` and `berth worker` are the commands of those packages, under berth's flags.
//
//	berth VERB [ID] -> Globals (server, form of output) -> queue -> view -> table | json | jsonl | csv | name
package operator
