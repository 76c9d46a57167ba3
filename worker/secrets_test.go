package worker

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/queue"
	"github.com/berthq/berth/runner/redact"
)

func secretFile(t *testing.T, path, value string, mode os.FileMode) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(value), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
}

// TestReadSecrets: where values are looked for, and what is no secret.
func TestReadSecrets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	at := func(names ...string) string { return filepath.Join(append([]string{dir}, names...)...) }
	secretFile(t, at("KEY"), "for-everybody\n", 0o600)
	secretFile(t, at("lab", "KEY"), "for-the-lab\r\n", 0o400)
	secretFile(t, at("lab", "OURS"), "of-the-lab", 0o600)
	secretFile(t, at("OPEN"), "open-to-all", 0o644)
	secretFile(t, at("SHORT"), "abc\n", 0o600)
	secretFile(t, at("BIG"), strings.Repeat("x", maxSecret+1), 0o600)
	secretFile(t, at("NUL"), "abc\x00def", 0o600)
	for _, c := range []struct{ dir, project, name, want, err string }{
		{dir, "lab", "KEY", "for-the-lab", ""},
		{dir, "physics", "KEY", "for-everybody", ""},
		{dir, "lab", "OURS", "of-the-lab", ""},
		{dir, "physics", "OURS", "", "this machine has no value for it: put one into " + at("physics", "OURS")},
		{dir, "lab", "OPEN", "", "mode 0644, so that others can read it: chmod 600"},
		{dir, "lab", "SHORT", "", "fewer than 4"},
		{dir, "lab", "BIG", "", "more than 8 KiB"},
		{dir, "lab", "NUL", "", "NUL byte"},
		{dir, "physics", "lab", "", "no value for it"},
		{dir, "lab", "../KEY", "", "not the name of a variable"},
		{"", "lab", "KEY", "", "no folder of secrets (worker --secrets DIR)"},
	} {
		got, err := readSecrets(c.dir, c.project, []string{c.name})
		if got[c.name] != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s of %s: %q, %v; want %q, %q", c.name, c.project, got[c.name], err, c.want, c.err)
		}
	}
}

// TestSecretsStaySecret: a job that prints its secret in every way it can, in pieces too, shows it to nobody: not in the
// log, not in the result or its evidence, not on disk, not in any message of the broker.
func TestSecretsStaySecret(t *testing.T) {
	h := newHouse(t, "")
	dir, store := t.TempDir(), t.TempDir()
	const value = `hf_Sw0rd"fish\9`
	secretFile(t, filepath.Join(dir, "lab", "HF_TOKEN"), value+"\n", 0o600)
	h.work("alpha", func(c *Config) { c.Secrets, c.Store = dir, store })
	go1, looked := filepath.Join(t.TempDir(), "go"), make(chan struct{})
	spec := h.spec()
	script := filepath.Join(spec.Workdir, "script") // its words are not the queue's either
	secretFile(t, script, `
printf 'whole %s\n' "$HF_TOKEN"
printf 'error %s\n' "$HF_TOKEN" >&2
printf 'hf_Sw0'; sleep 0.5; printf 'rd"fish\\9 in pieces\n'
printf '{"key": "hf_Sw0rd\\"fish\\\\9", "n": 1}' > "$BERTH_RESULT_FILE"
echo length ${#HF_TOKEN}
while [ ! -e `+go1+` ]; do sleep 0.05; done
echo "ValueError: bad token $HF_TOKEN" # the same stream as the line before, or either may come last
exit 3`, 0o600)
	spec.Command = job.Command{"sh", script}
	spec.Secrets = []string{"HF_TOKEN"}
	ref := queue.JobRef(h.send(job.Job{Spec: spec}))
	h.running(ref)
	go func() { defer close(looked); noneOnDisk(t, store, "Sw0rd") }()
	<-looked
	touch(t, go1)
	r := h.result(ref)
	out, errs := h.logOf(ref.Number, 1)
	if want := "whole " + redact.Mask + "\n" + redact.Mask + " in pieces\nlength 15\nValueError: bad token " + redact.Mask + "\n"; out != want {
		t.Errorf("stdout %q, want %q", out, want)
	}
	if !strings.Contains(errs, "error "+redact.Mask) || r.Evidence != "ValueError: bad token "+redact.Mask {
		t.Errorf("stderr %q, evidence %q", errs, r.Evidence)
	}
	var output map[string]any
	if err := json.Unmarshal(r.Output, &output); err != nil || output["key"] != redact.Mask || output["n"] != 1.0 {
		t.Errorf("output %s: %v", r.Output, err)
	}
	h.noneInBroker("Sw0rd")
}

// noneOnDisk looks into everything the worker keeps while the run is under way; the job's own files are its own.
func noneOnDisk(t *testing.T, store, value string) {
	err := filepath.WalkDir(store, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() == "job" {
			if d != nil && d.IsDir() && err == nil {
				return fs.SkipDir
			}
			return nil // a spare that was used up meanwhile
		}
		if !d.Type().IsRegular() {
			return nil
		}
		if b, err := os.ReadFile(path); err == nil && strings.Contains(string(b), value) {
			t.Errorf("%s holds the secret", path)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// noneInBroker reads every message of every stream.
func (h *house) noneInBroker(value string) {
	h.t.Helper()
	js, err := jetstream.New(h.broker.Connect())
	if err != nil {
		h.t.Fatal(err)
	}
	read := 0
	streams := js.ListStreams(h.t.Context())
	for info := range streams.Info() {
		s, err := js.Stream(h.t.Context(), info.Config.Name)
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

// TestMissingSecret: the run never starts, the reason says what to do, the next job runs.
func TestMissingSecret(t *testing.T) {
	h := newHouse(t, "")
	dir := t.TempDir()
	h.work("alpha", func(c *Config) { c.Secrets = dir })
	ran := filepath.Join(t.TempDir(), "ran")
	spec := h.spec("touch=" + ran)
	spec.Secrets = []string{"WANDB_API_KEY"}
	r := h.result(queue.JobRef(h.send(job.Job{Spec: spec})))
	if _, err := os.Stat(ran); err == nil || r.State != job.Failed ||
		!strings.Contains(r.Reason, "secret WANDB_API_KEY: this machine has no value for it: put one into "+dir+"/lab/WANDB_API_KEY") {
		t.Errorf("%s %q (ran: %v)", r.State, r.Reason, err == nil)
	}
	if next := h.result(queue.JobRef(h.submit(job.Requirements{}, "exit=0"))); next.State != job.Succeeded {
		t.Errorf("the next job: %s", next.State)
	}
}
