package worker

import (
	"bytes"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/berthq/berth/job"
	"github.com/berthq/berth/runner"
	"github.com/berthq/berth/runner/redact"
)

// tellProgressEvery bounds how often a run that counts fast makes the machine speak; between, the regular word does.
const tellProgressEvery = 2 * time.Second

// hear takes the last progress line among a piece of output.
func (w *Worker) hear(a *attempt, data []byte) {
	at := bytes.LastIndex(data, []byte(job.ProgressMark))
	for ; at > 0 && data[at-1] != '\n' && data[at-1] != '\r'; at = bytes.LastIndex(data[:at], []byte(job.ProgressMark)) {
	}
	if at < 0 {
		return
	}
	line, _, _ := bytes.Cut(data[at:], []byte("\n"))
	if p, ok := job.ParseProgress(string(line[:min(len(line), 1000)])); ok {
		w.progressed(a, p)
	}
}

func (w *Worker) progressed(a *attempt, p job.Progress) {
	p.At = w.cfg.Now().UTC()
	a.mu.Lock()
	tell := p.At.Sub(a.toldProgress) >= tellProgressEvery
	if tell {
		a.toldProgress = p.At
	}
	a.progress = &p
	a.mu.Unlock()
	if tell {
		w.tell()
	}
}

// progressNow is how far the run says it is: by its file if it writes one, else by its last line; nil if it said nothing.
func (w *Worker) progressNow(a *attempt) *job.Progress {
	if p, ok := w.progressFile(a); ok {
		return &p
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.progress
}

// progressFile reads the last line of the run's BERTH_PROGRESS file. The job may have put anything there.
func (w *Worker) progressFile(a *attempt) (job.Progress, bool) {
	if a.handle == nil {
		return job.Progress{}, false
	}
	f, err := os.OpenFile(runner.ProgressFile(a.handle.Dir()), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return job.Progress{}, false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return job.Progress{}, false
	}
	if s, ok := info.Sys().(*syscall.Stat_t); ok && s.Nlink > 1 {
		return job.Progress{}, false // a link to somebody else's file
	}
	const most = 4 << 10
	b := make([]byte, min(info.Size(), most))
	if _, err := f.ReadAt(b, max(0, info.Size()-most)); err != nil && err != io.EOF {
		return job.Progress{}, false
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	p, ok := job.ParseProgress(lines[len(lines)-1])
	p.At = info.ModTime().UTC()
	p.Text = w.withoutSecrets(a, p.Text)
	return p, ok
}

// withoutSecrets is a text the job left in a file, which no shim has seen.
func (w *Worker) withoutSecrets(a *attempt, text string) string {
	if len(a.spec().Secrets) == 0 || text == "" {
		return text
	}
	known, err := readSecrets(w.cfg.Secrets, a.project, a.spec().Secrets)
	if err != nil {
		return "" // what must not be seen is not known any more
	}
	return redact.Text(text, known.values())
}
