package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/runner/redact"
)

const secretValue = "hf_Sw0rd+fish/9"

// giveSecret lays the value where the worker looks for it.
func (h *house) giveSecret() (folder string) {
	h.t.Helper()
	folder = filepath.Join(h.dir, "secrets")
	if err := os.MkdirAll(filepath.Join(folder, "lab"), 0o700); err != nil {
		h.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, "lab", "HF_TOKEN"), []byte(secretValue+"\n"), 0o600); err != nil {
		h.t.Fatal(err)
	}
	return folder
}

// keepsSecrets: a container has the value, and shows it to nobody: not in the log of either stream, not as the evidence
// of its end, not in its result file, not in anything the worker keeps or the broker has.
func (b *box) keepsSecrets() {
	gate := b.gate()
	ref := b.submitImage(0, func(j *job.Job) { j.Spec.Secrets = []string{"HF_TOKEN"} },
		"env=HF_TOKEN", "write=/dev/stderr:ValueError: bad token $HF_TOKEN",
		`write=$BERTH_RESULT_FILE:{"n":1,"token":"$HF_TOKEN"}`, "read="+gate, "exit=3")
	b.started()
	pid := b.host(ref)
	if env, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); err != nil || !strings.Contains(string(env), "HF_TOKEN="+secretValue+"\x00") {
		b.t.Errorf("the container does not have the value: %v", err)
	}
	b.noneInStore("Sw0rd")
	b.open(gate)
	r := b.result(ref)
	out, errs := b.output(ref)
	if want := "HF_TOKEN=" + redact.Mask + "\n"; out != want {
		b.t.Errorf("stdout %q, want %q", out, want)
	}
	want := "ValueError: bad token " + redact.Mask
	last := r.Evidence == want || r.Evidence == strings.TrimSpace(out) // the engine does not keep the order of two streams
	if !strings.Contains(errs, want) || !last {
		b.t.Errorf("stderr %q, evidence %q", errs, r.Evidence)
	}
	var output map[string]any
	if err := json.Unmarshal(r.Output, &output); err != nil || output["token"] != redact.Mask || output["n"] != 1.0 {
		b.t.Errorf("output %s: %v", r.Output, err)
	}
	whole, err := json.Marshal(r)
	if err != nil || strings.Contains(string(whole), "Sw0rd") || r.Exit.Code != 3 {
		b.t.Errorf("%v, result %s", err, whole)
	}
	b.noneInBroker("Sw0rd")
}

// output is what a job wrote, from the broker.
func (h *house) output(ref queue.Ref) (out, errs string) {
	h.t.Helper()
	for c, err := range h.queue.Logs(h.t.Context(), ref, queue.LogOptions{Follow: true}) {
		switch {
		case err != nil:
			h.t.Fatal(err)
		case c.Stream == queue.Stdout:
			out += string(c.Data)
		default:
			errs += string(c.Data)
		}
	}
	return out, errs
}

// noneInStore looks into all that the worker keeps while the run is under way; the job's own files are its own.
func (b *box) noneInStore(value string) {
	b.t.Helper()
	files := 0
	err := filepath.WalkDir(filepath.Join(b.dir, "titan"), func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil //nolint:nilerr // a spare shim's folder that was used up meanwhile
		case d.IsDir() && d.Name() == "job":
			return filepath.SkipDir
		case !d.Type().IsRegular():
			return nil
		}
		files++
		if text, err := os.ReadFile(path); err == nil && strings.Contains(string(text), value) {
			b.t.Errorf("%s holds the secret", path)
		}
		return nil
	})
	if err != nil || files < 3 {
		b.t.Errorf("%d files were looked at: %v", files, err)
	}
}

// noneInBroker reads every message of every stream.
func (h *house) noneInBroker(value string) {
	h.t.Helper()
	read := 0
	for info := range h.js.ListStreams(h.t.Context()).Info() {
		s, err := h.js.Stream(h.t.Context(), info.Config.Name)
		if err != nil {
			h.t.Fatal(err)
		}
		for seq := info.State.FirstSeq; seq <= info.State.LastSeq; seq++ {
			m, err := s.GetMsg(h.t.Context(), seq)
			if err != nil {
				continue // overwritten
			}
			read++
			if strings.Contains(string(m.Data), value) {
				h.t.Errorf("%s of %s holds the secret: %s", m.Subject, info.Config.Name, m.Data)
			}
		}
	}
	if read < 5 {
		h.t.Errorf("read %d messages only", read)
	}
}
