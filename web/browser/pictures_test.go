package browser_test

import (
	"os"
	"testing"

	"github.com/chromedp/chromedp"
)

// The pictures of the documentation, from the demonstration: make screenshots.
func TestPictures(t *testing.T) {
	dir := os.Getenv("BERTH_SCREENSHOTS")
	if dir == "" {
		t.Skip("set BERTH_SCREENSHOTS to a folder (make screenshots)")
	}
	needChromium(t)
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // documentation is for all
		t.Fatal(err)
	}
	b := open(t, up(t, "--demo", "--demo-pace", "3"))
	b.visit("/")
	if mark := b.says(`document.querySelector(".demo").innerText`); mark == "" {
		t.Error("the demonstration is not marked as one")
	}
	ask := func(which string) (id string) {
		b.eval(`(async () => {
			for (;;) {
				const a = await (await fetch("/api/v1/jobs?limit=100")).json();
				const fit = a.jobs.find(j => j.state === "succeeded" && `+which+`);
				if (fit) return fit.id;
				await new Promise(done => new EventSource("/api/v1/events").addEventListener("beat", function f(e) { if (JSON.parse(e.data).topics.length) { e.target.close(); done(); } }));
			}
		})()`, &id)
		return id
	}
	job := ask(`j.monitored && j.name === "train-segmentation"`)
	sweep := ask(`j.tasks && j.name.includes("sweep")`)
	b.until(`document.querySelectorAll(".track i").length > 20`)
	shots := func(scheme, suffix string, pages map[string]string) {
		b.scheme(scheme)
		for name, at := range pages {
			b.visit(at)
			b.until(`![...document.querySelectorAll("figure:not([hidden]) [data-chart]")].some(e => !e.plot) && document.fonts.status === "loaded" && document.body.dataset.live === "live"`)
			b.shoot(dir, name+suffix)
		}
	}
	shots("light", "", map[string]string{"overview": "/", "jobs": "/jobs", "job": "/jobs/" + job, "sweep": "/jobs/" + sweep})
	shots("dark", "-dark", map[string]string{"overview": "/", "machines": "/machines"})
	b.run(chromedp.EmulateViewport(390, 844, chromedp.EmulateScale(2)))
	shots("light", "-phone", map[string]string{"overview": "/", "jobs": "/jobs"})
}
