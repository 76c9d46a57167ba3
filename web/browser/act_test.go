package browser_test

import (
	"strings"

	"github.com/chromedp/chromedp"
)

// A GPU is set aside, a job that needs it waits and says why, is cancelled, and the GPU comes back; all by hand.
func (b *tab) actionsWork() {
	b.visit("/machines")
	b.until(`document.querySelectorAll("[data-gpu]").length === 4`)
	b.press("Quarantine", true)
	b.until(`document.querySelectorAll("[data-gpu] .pill.quarantined").length === 1`)
	b.visit("/submit")
	b.run(chromedp.SendKeys(`input[name=command]`, "sleep 600"), chromedp.SetValue(`input[name=gpus]`, "4"), chromedp.SendKeys(`input[name=name]`, "wants-all"))
	b.press("Submit", false)
	b.until(`!!document.querySelector("#answer a")`)
	number := b.says(`document.querySelector("#answer a").innerText`)
	b.visit("/jobs/" + number)
	b.until(`document.getElementById("why").innerText.includes("Why it waits") && document.getElementById("why").innerText.includes("gpu1")`)
	b.accessible("a job that waits")
	b.visit("/jobs?state=queued")
	b.until(`document.querySelector("td[data-why]")?.innerText.length > 3`)
	b.visit("/jobs/" + number)
	b.press("Cancel", true)
	b.until(`!!document.querySelector("#lead .cancelled")`)
	b.visit("/machines")
	b.press("Restore", true)
	b.until(`document.querySelectorAll("[data-gpu]").length === 4 && document.querySelectorAll(".pill.quarantined").length === 0`)
	b.press("Drain", true)
	b.until(`!!document.querySelector("[data-machine] .pill.draining")`)
	number = b.pasteASpec()
	b.visit("/jobs/" + number)
	b.press("Hold", true)
	b.until(`!!document.querySelector("#lead .pill.held") && document.getElementById("why").innerText.includes("Held")`)
	b.press("Release", false)
	b.until(`!!document.querySelector("#lead .pill.queued")`)
	b.visit("/machines")
	b.press("Undrain", false)
	b.until(`!document.querySelector("[data-machine] header .pill.draining")`)
	b.visit("/jobs/" + number)
	b.until(`!!document.querySelector("#lead .pill.succeeded")`)
	b.press("Retry", false)
	b.until(`!!document.querySelector("#lead .pill.succeeded") && document.querySelectorAll("#attempts tbody tr").length === 2`)
	b.leaseIsTakenAndGivenBack()
	b.visit("/audit")
	b.until(`["quarantine", "cancel", "restore", "drain", "hold", "release", "retry"].every(k => document.body.innerText.includes(k))`)
}

// A spec with a mistake is refused with the line and column of the mistake and what was meant; put right, it is taken.
func (b *tab) pasteASpec() (number string) {
	b.forgive("status of 422")
	b.visit("/submit")
	b.run(typeIn("textarea", "name: pasted\ncommand: [echo, hello]\nresources:\n  gpuss: 1\n"))
	b.press("Submit the spec", false)
	b.until(`document.querySelector("#answer.bad")?.innerText.includes("4:3: ")`)
	if says := b.says(`document.getElementById("answer").innerText`); !strings.Contains(says, "did you mean `gpus`?") {
		b.t.Errorf("a spec with a mistake is refused with %q", says)
	}
	b.eval(`document.querySelector("textarea").value = document.querySelector("textarea").value.replace("gpuss", "gpus")`, nil)
	b.press("Submit the spec", false)
	b.until(`!!document.querySelector("#answer:not(.bad) a")`)
	return b.says(`document.querySelector("#answer a").innerText`)
}

func (b *tab) leaseIsTakenAndGivenBack() {
	b.visit("/leases")
	b.run(typeIn("input[name=name]", "notebook"))
	b.press("Take GPUs", false)
	held := `[...document.querySelectorAll("[aria-label='Held leases'] tbody tr")].filter(r => r.cells.length > 1)`
	b.until(held + `.length === 1 && ` + held + `[0].innerText.includes("gpu1")`)
	b.accessible("/leases with one")
	b.press("Give back", true)
	b.until(held + `.length === 0 && ["succeeded", "cancelled", "released"].includes(document.querySelector("[aria-label='All leases'] tbody .pill").innerText)`)
}

// Every page, light and dark, on a desk and a phone: nothing sticks out, axe finds nothing.
func (b *tab) everyPage(train, sweep uint64) {
	paths := []string{"/", "/jobs", path(train), path(sweep), "/groups", "/machines", "/leases", "/dead", "/usage", "/audit", "/submit"}
	for scheme, some := range map[string][]string{"light": paths, "dark": {"/", path(train), path(sweep), "/machines"}} {
		b.scheme(scheme)
		for _, p := range some {
			b.visit(p)
			b.until(`document.body.dataset.live === "live"`)
			b.accessible(p + " in the " + scheme)
		}
	}
	b.scheme("light")
	b.run(chromedp.EmulateViewport(390, 844))
	for _, p := range paths {
		b.visit(p)
		if wide := b.says(`document.documentElement.scrollWidth`); wide != "390" {
			b.t.Errorf("%s is %s pixels wide on a phone of 390", p, wide)
		}
	}
	b.accessible("/submit on a phone")
	b.run(chromedp.EmulateViewport(1360, 900))
}
