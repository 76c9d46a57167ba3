package worker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
)

// announced waits until a machine's presence says how far a job is.
func (h *house) announced(ref queue.Ref, ok func(job.Progress) bool) job.Progress {
	h.t.Helper()
	var last job.Progress
	for deadline := time.Now().Add(60 * time.Second); time.Now().Before(deadline); pause(h.t.Context(), 20*time.Millisecond) {
		views := []queue.JobView{{Ref: ref, State: job.Running, Machine: "alpha"}}
		if err := h.queue.AddProgress(h.t.Context(), views); err != nil {
			h.t.Fatal(err)
		}
		if p := views[0].Progress; p != nil {
			if last = *p; ok(last) {
				return last
			}
		}
	}
	h.t.Fatalf("the progress of %s stays %+v", ref, last)
	return last
}

// TestProgress: lines of output and the file both say how far a run is, to the fleet and in the result.
func TestProgress(t *testing.T) {
	h := newHouse(t, "")
	secretDir := t.TempDir()
	secretFile(t, filepath.Join(secretDir, "TOKEN"), "hunter22", 0o600)
	h.work("alpha", func(c *Config) { c.Secrets = secretDir })
	dir := t.TempDir()
	gate := func(name string) string { return filepath.Join(dir, name) }
	spec := h.spec()
	spec.Command = job.Command{"sh", "-c", `
echo "loading"; echo "::progress 11/54 epochs"; echo "not ::progress 50/54"
while [ ! -e ` + gate("file") + ` ]; do sleep 0.05; done
echo "40% with $TOKEN" > "$BERTH_PROGRESS"
while [ ! -e ` + gate("end") + ` ]; do sleep 0.05; done`}
	spec.Secrets = []string{"TOKEN"}
	ref := queue.JobRef(h.send(job.Job{Spec: spec}))
	p := h.announced(ref, func(p job.Progress) bool { return p.Done > 0 })
	if p.Figures() != "11/54" || p.Text != "epochs" || p.At.IsZero() {
		t.Errorf("announced %+v", p)
	}
	touch(t, gate("file"))
	p = h.announced(ref, func(p job.Progress) bool { return p.Total == 100 })
	if p.Figures() != "40%" || p.Text != "with [secret]" {
		t.Errorf("announced %+v", p)
	}
	touch(t, gate("end"))
	r := h.result(ref)
	if r.State != job.Succeeded || r.Progress == nil || r.Progress.Figures() != "40%" || strings.Contains(r.Progress.Text, "hunter") {
		t.Errorf("%s, progress %+v", r.State, r.Progress)
	}
}

// TestBadWords: files a job fills with nonsense cost a warning at most; its exit decides.
func TestBadWords(t *testing.T) {
	h := newHouse(t, "")
	h.work("alpha")
	for name, c := range map[string]struct{ script, warning string }{
		"result is no JSON":    {`echo "loss: 0.1" > "$BERTH_RESULT_FILE"`, "does not hold valid JSON"},
		"result is too big":    {`head -c 300000 /dev/zero | tr '\0' 1 > "$BERTH_RESULT_FILE"`, "more than 256 KiB"},
		"result is a link":     {`ln -s /etc/hostname "$BERTH_RESULT_FILE"`, "BERTH_RESULT_FILE was not read"},
		"result is a folder":   {`mkdir "$BERTH_RESULT_FILE"`, "not a plain file"},
		"result is a fifo":     {`mkfifo "$BERTH_RESULT_FILE"`, "not a plain file"},
		"hard link":            {`echo 1 > "$PWD/other"; ln "$PWD/other" "$BERTH_RESULT_FILE" || { cp "$PWD/other" "$BERTH_RESULT_FILE"; ln "$BERTH_RESULT_FILE" "$BERTH_RESULT_FILE.2"; }`, "hard link"},
		"progress is nonsense": {`head -c 5000 /dev/urandom > "$BERTH_PROGRESS"; echo "::progress later"`, ""},
		"progress is a fifo":   {`mkfifo "$BERTH_PROGRESS"`, ""},
		"progress is a link":   {`ln -s /etc/passwd "$BERTH_PROGRESS"`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := h.spec()
			spec.Command = job.Command{"sh", "-c", c.script}
			r := h.result(queue.JobRef(h.send(job.Job{Spec: spec})))
			warned := strings.Join(r.Warnings, "; ")
			if r.State != job.Succeeded || r.Output != nil || r.Progress != nil || !strings.Contains(warned, c.warning) || c.warning == "" && warned != "" {
				t.Errorf("%s (%s), output %s, progress %+v, warnings %q; want %q", r.State, r.Reason, r.Output, r.Progress, warned, c.warning)
			}
		})
	}
	if _, err := os.Stat("/etc/hostname"); err != nil {
		t.Logf("there is no /etc/hostname here: the link led nowhere")
	}
}
