package browser_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

const (
	trainSpec = `
name: train-unet
command: [bash, -c, 'for i in 1 2 3 4 5; do echo "sim-train epoch $i of 5"; sleep 1; done']
project: vision
labels: {team: "<i>labs</i>"}
model: {id_or_path: unet-large}
resources: {gpus: 2, gpu_memory: 20Gi}`
	sweepSpec = `
name: throughput-sweep
command: [bash, -c, 'echo "{\"tokens_per_second\": $(({{.batch}} * 100 + {{.chunk}}))}" > "$BERTH_RESULT_FILE"']
matrix: {batch: [1, 2, 4], chunk: [256, 512]}
resources: {gpus: 1, gpu_memory: 1Gi}`
	markupSpec = `
name: "<b>markup</b> in a name"
command: [bash, -c, 'printf "\033[32mgreen\033[0m <script>document.title=1</script>\n10%%\r99%%\r100%%\n\033]0;title\007\033[2Jafter\n"']`
)

// One house, one browser: what is slow (starting both) is paid once.
func TestDashboardInABrowser(t *testing.T) {
	needChromium(t)
	url := simulated(t)
	train, sweep, markup := submit(t, url, trainSpec), submit(t, url, sweepSpec), submit(t, url, markupSpec)
	broken := submit(t, url, "name: broken-config\ncommand: [bash, -c, 'echo no such file >&2; exit 2']")
	b := open(t, url)
	b.liveUpdates(broken)
	b.outputIsATerminal(markup)
	b.chartsHaveThePoints(train)
	b.oneSampleIsAMoment()
	b.filtersWork()
	b.keysWork()
	b.sweepIsPlotted(sweep)
	b.gpusOverTime()
	b.actionsWork()
	b.everyPage(train, sweep)
	if bad := b.complaints(); len(bad) > 0 {
		t.Errorf("pages logged errors: %q", bad)
	}
}

// A job that is submitted elsewhere appears in an open list and ends there, without a reload.
func (b *tab) liveUpdates(broken uint64) {
	b.visit("/jobs")
	b.eval(`window.never = "reloaded"`, nil)
	var number uint64
	b.eval(`fetch("/api/v1/jobs", {method: "POST", headers: {"X-Berth": "1", "Content-Type": "application/json"},
		body: JSON.stringify({spec: "name: seen-live\ncommand: [echo, hello]"})}).then(r => r.json()).then(a => a.receipt.number)`, &number)
	b.until(fmt.Sprintf(`!!document.querySelector('tr[data-job="%d"] .succeeded')`, number))
	b.until(fmt.Sprintf(`document.querySelector('tr[data-job="%d"]').innerText.includes("exit 2")`, broken))
	if kept := b.says(`window.never`); kept != "reloaded" {
		b.t.Error("the page was loaded again: that is no live update")
	}
}

// Output shows colours and lines that write over themselves; names and output are never markup.
func (b *tab) outputIsATerminal(markup uint64) {
	b.visit(path(markup))
	b.until(`document.getElementById("log")?.dataset.ended === "true"`)
	if got := b.says(`[...document.querySelectorAll("#log > div")].map(e => e.textContent).join("|")`); got != "green <script>document.title=1</script>|100%|after" {
		b.t.Errorf("the output shows %q", got)
	}
	if got := b.says(`document.querySelector("#log span").textContent + document.querySelector("#log span").style.color`); got != "greenrgb(127, 209, 155)" {
		b.t.Errorf("the coloured part is %q", got)
	}
	b.visit("/jobs?q=markup")
	b.until(fmt.Sprintf(`document.querySelector('tr[data-job="%d"]')?.cells[1].innerText.startsWith("<b>markup</b> in a name")`, markup))
}

// The charts hold the very points that the API has, a line for each GPU; the table has its sums.
func (b *tab) chartsHaveThePoints(train uint64) {
	b.visit(path(train))
	b.until(`document.getElementById("log")?.innerText.includes("epoch 5 of 5") && document.querySelector("#lead .succeeded") && document.querySelector("#gpus table")`)
	b.visit(path(train)) // as one who comes later
	b.until(`[...document.querySelectorAll("[data-chart]")].filter(e => e.plot).length === 4`)
	var answer struct {
		Series struct {
			GPUs map[string]map[string]json.RawMessage `json:"gpus"`
		} `json:"series"`
	}
	b.eval(fmt.Sprintf(`fetch("/api/v1/jobs/%d/series").then(r => r.json())`, train), &answer)
	if len(answer.Series.GPUs) != 2 {
		b.t.Fatalf("the series has %d GPUs, the job had 2", len(answer.Series.GPUs))
	}
	for name, field := range map[string]string{"utilization": "utilization", "memory": "memory_usage_percent", "temperature": "temperature_c", "power": "power_draw_w"} {
		var drawn []json.RawMessage
		b.eval(`document.querySelector("[data-chart=`+name+`]").plot.data.slice(1)`, &drawn)
		if len(drawn) != 2 || bytes.Count(drawn[0], []byte(",")) < 3 || !same(drawn[0], answer.Series.GPUs["0"][field]) || !same(drawn[1], answer.Series.GPUs["1"][field]) {
			b.t.Errorf("chart %s shows\n%s\nthe API has\n%s", name, drawn, answer.Series.GPUs)
		}
	}
	text := b.says(`document.getElementById("content").innerText`)
	for _, want := range []string{"Simulated A100", "unet-large", "team=<i>labs</i>", "attempt 1", "20 GiB on each GPU"} {
		if !bytes.Contains([]byte(text), []byte(want)) {
			b.t.Errorf("the page of job %d does not say %q:\n%s", train, want, text)
		}
	}
}

// A run so short that it was measured once, and one measured twice in a second: the axis shows that moment, not a day or a
// year, and says no time twice.
func (b *tab) oneSampleIsAMoment() {
	for _, times := range []string{"[t]", "[t, t + 0.5]", "[t, t]"} {
		var got struct {
			From, To, At float64
			Ticks        []string
		}
		b.eval(`(async () => {
			const { chart } = await import("/assets/chart.js"), place = document.createElement("div"), t = 1767225600 + 3600 * 15;
			document.getElementById("content").append(place);
			chart(place, { times: `+times+`, lines: [{ label: "GPU 0", values: `+times+`.map(() => 50) }], unit: "%", max: 100 });
			await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
			const x = place.plot.scales.x;
			place.plot.destroy(); place.remove();
			return { from: x.min, to: x.max, at: t, ticks: place.ticks };
		})()`, &got)
		if got.From > got.At || got.To < got.At || got.To-got.From > 60 {
			b.t.Errorf("times %s: the axis goes from %v to %v around %v", times, got.From, got.To, got.At)
		}
		said := map[string]bool{}
		for _, tick := range got.Ticks {
			if tick != "" && (said[tick] || !regexp.MustCompile(`^\d\d:\d\d:\d\d$`).MatchString(tick)) {
				b.t.Errorf("times %s: the axis says %q", times, got.Ticks)
			}
			said[tick] = true
		}
		if len(said) == 0 {
			b.t.Errorf("times %s: the axis says nothing", times)
		}
	}
}

// same compares JSON by what it says.
func same(x, y json.RawMessage) bool {
	var a, b []float64
	if json.Unmarshal(x, &a) != nil || json.Unmarshal(y, &b) != nil || len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func (b *tab) filtersWork() {
	b.visit("/jobs")
	b.run(chromedp.SendKeys(`input[type=search]`, "sweep"))
	b.until(`location.search.includes("sweep") && document.querySelectorAll("tr[data-job]").length === 1 && document.querySelector("tr[data-job]").innerText.includes("throughput-sweep")`)
	b.visit("/jobs")
	b.until(`[...document.querySelectorAll("[data-key=state] option")].length > 5`)
	b.eval(`(() => { const s = document.querySelector("[data-key=state]"); s.value = "failed"; s.dispatchEvent(new Event("change")); })()`, nil)
	b.until(`location.search === "?state=failed" && document.querySelectorAll("tr[data-job]").length === 1 && document.querySelector("tr[data-job]").innerText.includes("broken-config")`)
	b.visit("/jobs?project=vision")
	b.until(`document.querySelectorAll("tr[data-job]").length === 1`)
	b.until(`document.querySelector("tr[data-job]").innerText.includes("✓ yes")`) // measured
	b.visit("/jobs?user=nobody-at-all")
	b.until(`document.getElementById("total").innerText === "no jobs fit"`)
}

// Tab reaches the skip link first, and a column is sorted with Enter; the focus stays on it.
func (b *tab) keysWork() {
	b.visit("/jobs")
	b.run(chromedp.KeyEvent(kb.Tab))
	if first := b.says(`document.activeElement.className`); first != "skip" {
		b.t.Errorf("Tab reached %q first, want the link that skips the menu", first)
	}
	b.run(chromedp.KeyEvent(kb.Enter), chromedp.KeyEvent(kb.Tab))
	if key := b.says(`document.querySelector("main").contains(document.activeElement)`); key != "true" {
		b.t.Error("after the skip link the focus is not in the content")
	}
	b.run(chromedp.Focus(`[data-key="sort-name"]`), chromedp.KeyEvent(kb.Enter))
	b.until(`document.querySelector("th[aria-sort=descending]")?.innerText.startsWith("Name") && document.activeElement.dataset.key === "sort-name"`)
	b.run(chromedp.KeyEvent(kb.Enter))
	b.until(`document.querySelector("th[aria-sort=ascending]")?.innerText.startsWith("Name")`)
}

func (b *tab) sweepIsPlotted(sweep uint64) {
	b.visit(path(sweep))
	b.until(`document.querySelectorAll(".grid a.succeeded").length === 6`)
	b.until(`document.querySelector("[data-chart=sweep]")?.points?.flat().filter(v => v !== null).length === 9`)
	if got := b.says(`JSON.stringify(document.querySelector("[data-chart=sweep]").points)`); got != "[[1,2,4],[356,456,656],[612,712,912]]" {
		b.t.Errorf("the sweep is drawn as %s", got)
	}
	b.until(`document.querySelector('[aria-label="Results of the tasks"]').innerText.includes("tokens_per_second")`)
	b.visit("/groups")
	b.until(fmt.Sprintf(`document.querySelector('tr[data-job="%d"]')?.innerText.includes("6 of 6")`, sweep))
}

// The lanes of the GPUs show who held them.
func (b *tab) gpusOverTime() {
	b.visit("/")
	b.until(`document.querySelectorAll("[data-gpu]").length === 4 && document.querySelectorAll("[data-chart=gpus-time] .track i").length >= 3`)
	b.until(`[...document.querySelectorAll(".track i")].some(a => a.title.includes("train-unet"))`)
	b.eval(`(() => { const s = document.querySelector("[data-key=by]"); s.value = "project"; s.dispatchEvent(new Event("change")); })()`, nil)
	b.until(`document.querySelector(".legend").innerText.includes("vision")`)
	// The fleet is minutes old, so its picture is not an hour of nothing; the time is chosen, and stands in the address.
	var covered float64
	b.eval(`Math.max(...[...document.querySelectorAll(".track")].map(t => [...t.children].reduce((sum, e) => sum + parseFloat(e.style.width), 0)))`, &covered)
	if covered < 5 {
		b.t.Errorf("the fullest lane of a young fleet is held for %.1f %% of what it shows", covered)
	}
	for _, minutes := range []string{"15", "60", "360", "1440", "10080"} {
		b.eval(`(() => { const s = document.querySelector("[data-key=minutes]"); s.value = "`+minutes+`"; s.dispatchEvent(new Event("change")); })()`, nil)
		b.until(`location.search.includes("minutes=` + minutes + `") && [...document.querySelectorAll(".track i")].some(a => a.title.includes("train-unet"))`)
	}
	b.visit("/?minutes=360&by=project")
	b.until(`document.querySelector("[data-key=minutes]").value === "360" && document.querySelector(".legend").innerText.includes("vision")`)
}
