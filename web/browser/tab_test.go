package browser_test

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

//go:embed testdata/axe.min.js
var axe string

const patience = 60 * time.Second // a loaded machine

// needChromium returns the browser there is, or says aloud that the test does not run.
func needChromium(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("DID NOT RUN: there is no Chromium on this machine (apt-get install chromium); the pages are untested here")
	return ""
}

// tab is one page of a browser, with what it complained about.
type tab struct {
	t    *testing.T
	ctx  context.Context
	base string

	mu     sync.Mutex
	bad    []string
	allow  bool   // complaints are expected: the server is away
	pardon string // what a test provokes
}

// open starts a browser of its own at the address.
func open(t *testing.T, url string) *tab {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(needChromium(t)), chromedp.WindowSize(1360, 900),
		chromedp.NoSandbox, chromedp.WSURLReadTimeout(patience))
	allocated, free := chromedp.NewExecAllocator(context.WithoutCancel(t.Context()), options...)
	ctx, end := chromedp.NewContext(allocated, chromedp.WithErrorf(func(string, ...any) {}))
	t.Cleanup(func() { end(); free() })
	base, _, _ := strings.Cut(url, "/login")
	b := &tab{t: t, ctx: ctx, base: base}
	chromedp.ListenTarget(ctx, b.hear)
	if err := chromedp.Run(ctx, log.Enable()); err != nil { // the browser lives as long as this context
		t.Fatalf("Chromium: %v", err)
	}
	b.run(chromedp.Navigate(url))
	return b
}

func (b *tab) hear(e any) {
	switch e := e.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.APITypeError || e.Type == runtime.APITypeWarning {
			b.complain(string(e.Args[0].Value) + e.Args[0].Description)
		}
	case *runtime.EventExceptionThrown:
		b.complain(e.ExceptionDetails.Error())
	case *log.EventEntryAdded: // a refused script, a file that is not there
		if e.Entry.Level == log.LevelError {
			b.complain(e.Entry.Text + " " + e.Entry.URL)
		}
	}
}

func (b *tab) complain(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.allow && (b.pardon == "" || !strings.Contains(text, b.pardon)) {
		b.bad = append(b.bad, text)
	}
}

// forgive lets the console say what the test provokes from here on.
func (b *tab) forgive(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pardon = text
}

// complaints are what stood in the console.
func (b *tab) complaints() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bad
}

func (b *tab) expectComplaints(yes bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.allow, b.bad = yes, nil
}

func (b *tab) run(actions ...chromedp.Action) {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, patience)
	defer cancel()
	if err := chromedp.Run(ctx, actions...); err != nil {
		b.t.Fatalf("%v; the page complained: %v", err, b.complaints())
	}
}

// visit opens a page and waits until it shows what the server said.
func (b *tab) visit(path string) {
	b.t.Helper()
	b.run(chromedp.Navigate(b.base + path))
	b.until(`document.body?.dataset.shown === "true"`)
}

// until waits for an expression to become true in the page.
func (b *tab) until(js string) {
	b.t.Helper()
	end := time.Now().Add(patience)
	for {
		ctx, cancel := context.WithTimeout(b.ctx, patience)
		var ok bool
		err := chromedp.Run(ctx, chromedp.Poll("!!("+js+")", &ok, chromedp.WithPollingInterval(50*time.Millisecond), chromedp.WithPollingTimeout(time.Until(end))))
		cancel()
		if err == nil {
			return
		}
		if time.Now().After(end) || !strings.Contains(err.Error(), "context") && !strings.Contains(err.Error(), "navigated") { // another page took its place meanwhile
			b.t.Fatalf("never true: %s: %v\nthe page:\n%s\nit complained: %v", js, err, b.text(), b.complaints())
		}
	}
}

func (b *tab) text() string {
	ctx, cancel := context.WithTimeout(b.ctx, 5*time.Second)
	defer cancel()
	var text string
	if err := chromedp.Run(ctx, chromedp.Evaluate(`document.body.innerText.slice(0, 3000)`, &text)); err != nil {
		return err.Error()
	}
	return text
}

func (b *tab) eval(js string, v any) {
	b.t.Helper()
	b.run(chromedp.Evaluate(js, v, func(p *runtime.EvaluateParams) *runtime.EvaluateParams { return p.WithAwaitPromise(true) }))
}

// says is the value of an expression as text.
func (b *tab) says(js string) string {
	b.t.Helper()
	var text string
	b.eval("String("+js+")", &text)
	return text
}

// press clicks the button with that text, and in the question that follows the one that says it again.
func (b *tab) press(text string, confirmed bool) {
	b.t.Helper()
	find := func(in string) string {
		return fmt.Sprintf(`[...document.querySelectorAll(%q)].find(e => e.innerText === %q && !e.disabled)`, in, text)
	}
	b.until("!!" + find("main button"))
	b.eval(find("main button")+".click()", nil)
	if confirmed {
		b.until("!!" + find("dialog[open] button"))
		b.eval(find("dialog[open] button")+".click()", nil)
	}
}

// accessible lets axe look at the page, with every rule it has for WCAG 2 A and AA and good practice.
func (b *tab) accessible(what string) {
	b.t.Helper()
	if b.says(`typeof axe`) == "undefined" {
		b.run(chromedp.Evaluate(axe, nil))
	}
	var found []struct {
		ID, Help string
		Nodes    []string
	}
	b.eval(`axe.run().then(r => r.violations.map(v => ({ID: v.id, Help: v.help, Nodes: v.nodes.map(n => n.html.slice(0, 200) + " " + (n.any[0]?.message ?? ""))})))`, &found)
	for _, f := range found {
		b.t.Errorf("%s: axe: %s: %s\n  %s", what, f.ID, f.Help, strings.Join(f.Nodes, "\n  "))
	}
}

func (b *tab) scheme(name string) {
	b.run(emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}, {Name: "prefers-reduced-motion", Value: "reduce"}}))
}

// shoot keeps a picture of what is in view.
func (b *tab) shoot(dir, name string) {
	b.t.Helper()
	var png []byte
	b.run(chromedp.CaptureScreenshot(&png))
	if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644); err != nil { //nolint:gosec // documentation is for all
		b.t.Fatal(err)
	}
}

func navigate(url string) chromedp.Action       { return chromedp.Navigate(url) }
func typeIn(field, text string) chromedp.Action { return chromedp.SendKeys(field, text) }
