// Package follow waits for jobs as a person does: the job's output as it comes, a word when it ends, its efficiency
// report, and its exit code as one's own.
//
// It owns what submit --wait and --follow, berth wait and berth logs -f have in common. The job's bytes go to stdout
// and stderr as the job wrote them; Berth's own words go to stderr and never between the bytes of a line. It reads the
// queue and changes nothing: whoever interrupts it leaves the job where it is.
//
//	waiting for the start -> output -> end of the job -> result -> one line, or the report -> exit code
package follow
