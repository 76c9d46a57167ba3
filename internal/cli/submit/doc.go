// Package submit is the submit command: from argv, files or standard input to jobs on the broker.
//
// It owns the flags and what they do to a Spec, the capture of the caller's environment, what is said before and
// after, and the exit code. It never decides how many GPUs a job needs (estimator), never writes to the broker itself
// (queue), and links neither a server nor a GPU library.
//
//	argv | -f files -> specs -> flags on top -> environment frozen -> validated -> estimated -> fleet asked -> sent
//	                    '------------------ exit 4: nothing was sent ------------------'  '- exit 5 -'  '- exit 3
package submit
