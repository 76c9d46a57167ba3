package operator

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berthq/berth/internal/cli/screen"
	"github.com/berthq/berth/queue"
)

// topPage is what is on the screen: a look, and how it is looked at.
type topPage struct {
	look   topLook
	color  bool
	sorted int    // of topOrders
	scroll int    // lines of the body above the window
	word   string // only what has it
	typing bool   // the word is being typed
	window int    // lines of the body that fit
	body   int    // lines of it
}

// topOrders are what s goes through; the GPUs of one machine stay together only in the first.
var topOrders = []struct {
	name  string
	first func(a, b machineGPU) int
}{
	{"machine", func(machineGPU, machineGPU) int { return 0 }},
	{"load", func(a, b machineGPU) int {
		return cmp.Compare(reading(b.UtilizationPercent), reading(a.UtilizationPercent))
	}},
	{"memory", func(a, b machineGPU) int { return cmp.Compare(memoryShare(b.GPU), memoryShare(a.GPU)) }},
	{"temperature", func(a, b machineGPU) int { return cmp.Compare(reading(b.TemperatureC), reading(a.TemperatureC)) }},
	{"power", func(a, b machineGPU) int { return cmp.Compare(reading(b.PowerW), reading(a.PowerW)) }},
}

// reading puts what is not known last.
func reading(v *float64) float64 {
	if v == nil {
		return -1
	}
	return *v
}

func memoryShare(g queue.GPU) float64 {
	if g.MemoryFreeMB == nil || g.MemoryTotalMB <= 0 {
		return -1
	}
	return 1 - float64(*g.MemoryFreeMB)/float64(g.MemoryTotalMB)
}

// press changes how it is looked at, and reports whether the key leaves.
func (p *topPage) press(key string) (leave bool) {
	if p.typing {
		p.spell(key)
		return key == "\x03"
	}
	switch key {
	case "q", "Q", "\x03": // Ctrl-C
		return true
	case "j", "\x1b[B", "\x1bOB":
		p.scroll++
	case "k", "\x1b[A", "\x1bOA":
		p.scroll--
	case " ", "\x1b[6~":
		p.scroll += p.window
	case "\x1b[5~":
		p.scroll -= p.window
	case "g", "\x1b[H":
		p.scroll = 0
	case "G", "\x1b[F":
		p.scroll = p.body
	case "s":
		p.sorted = (p.sorted + 1) % len(topOrders)
	case "/":
		p.typing, p.word, p.scroll = true, "", 0
	case "\x1b":
		p.word = ""
	}
	return false
}

// spell types the word to look for.
func (p *topPage) spell(key string) {
	switch {
	case key == "\r" || key == "\n":
		p.typing = false
	case key == "\x1b":
		p.typing, p.word = false, ""
	case key == "\x7f" || key == "\b":
		runes := []rune(p.word)
		p.word = string(runes[:max(len(runes)-1, 0)])
	case screen.Safe(key) == key:
		p.word += key
	}
}

// lines draws the page: two lines of summary, as much of the body as fits, and the keys.
func (p *topPage) lines(term screen.Terminal) []string {
	term.Width = max(term.Width, 20)
	head := []string{p.summary(term)}
	if p.look.demo {
		head = append(head, term.Paint(screen.Yellow, screen.Fit(demoMark, term.Width)))
	}
	if p.look.err != nil {
		head = append(head, term.Paint(screen.Red, screen.Fit(screen.Safe(p.look.err.Error()), term.Width)))
	}
	head = append(head, "")
	body := append(p.gpuLines(term), p.jobLines(term)...)
	p.body = len(body)
	p.window = len(body)
	if term.Height > 0 {
		p.window = max(term.Height-len(head)-1, 1)
	}
	p.scroll = max(min(p.scroll, p.body-p.window), 0)
	shown := body[p.scroll:min(p.scroll+p.window, p.body)]
	for len(shown) < p.window && term.Height > 0 {
		shown = append(shown, "")
	}
	return slices.Concat(head, shown, []string{p.foot(term)})
}

func (p *topPage) summary(term screen.Terminal) string {
	gpus, busy := 0, 0
	for _, m := range p.look.machines {
		for _, g := range m.GPUs {
			gpus++
			if g.Active > 0 {
				busy++
			}
		}
	}
	text := fmt.Sprintf("%s  %s, %s (%d in use)  %d running, %d queued  by %s", p.look.at.Local().Format("15:04:05"),
		screen.Plural(len(p.look.machines), "machine"), screen.Plural(gpus, "GPU"), busy, p.look.counts.Running, p.look.counts.Queued, topOrders[p.sorted].name)
	return term.Paint(screen.Bold, screen.Fit("berth top  "+text, term.Width))
}

func (p *topPage) foot(term screen.Terminal) string {
	text := "q leave   j k scroll   s sort   / filter"
	switch {
	case p.typing:
		text = "/" + p.word + "_"
	case p.word != "":
		text = "only " + p.word + " (Esc: all)   " + text
	}
	if below := p.body - p.window - p.scroll; below > 0 {
		text = fmt.Sprintf("%d more below   %s", below, text)
	}
	return term.Paint(screen.Dim, screen.Fit(text, term.Width))
}

func (p *topPage) wants(texts ...string) bool {
	return strings.Contains(strings.ToLower(strings.Join(texts, " ")), strings.ToLower(p.word))
}
