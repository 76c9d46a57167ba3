// Command picture turns what a terminal showed (standard input, colours included) into an SVG on standard output. It
// draws the pictures of the README from real runs:
//
//	go run ./docs/picture -title "berth-demo" < recorded.txt > docs/demo.svg
package main

import (
	"bufio"
	"flag"
	"fmt"
	"html"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"
)

const (
	charWidth  = 8.4 // of a 14 px monospace font
	lineHeight = 19.0
	margin     = 16.0
	titleBar   = 34.0
)

// colours are the eight of ANSI, normal and bright, on a dark ground.
var colours = map[string]string{
	"30": "#5c6370", "31": "#e06c75", "32": "#98c379", "33": "#e5c07b", "34": "#61afef", "35": "#c678dd", "36": "#56b6c2", "37": "#dcdfe4",
	"90": "#7f848e", "91": "#e06c75", "92": "#98c379", "93": "#e5c07b", "94": "#61afef", "95": "#c678dd", "96": "#56b6c2", "97": "#ffffff",
}

var escape = regexp.MustCompile("\x1b\\[([0-9;]*)m|\x1b\\[[0-9;?]*[A-Za-z]")

func main() {
	title := flag.String("title", "", "text in the title bar")
	columns := flag.Int("columns", 110, "longer lines are cut")
	flag.Parse()
	if err := draw(os.Stdin, os.Stdout, *title, *columns); err != nil {
		fmt.Fprintln(os.Stderr, "picture:", err)
		os.Exit(1)
	}
}

func draw(in io.Reader, out io.Writer, title string, columns int) error {
	var lines []string
	scanner := bufio.NewScanner(in)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		text := scanner.Text()
		if i := strings.LastIndexByte(text, '\r'); i >= 0 { // a progress line: what stood last
			text = text[i+1:]
		}
		lines = append(lines, text)
	}
	if err := scanner.Err(); err != nil {
		return err
	}
	width, height := 2*margin+charWidth*float64(columns), titleBar+2*margin+lineHeight*float64(len(lines))
	w := bufio.NewWriter(out)
	fmt.Fprintf(w, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" font-family="ui-monospace,SFMono-Regular,Menlo,Consolas,monospace" font-size="14">`+"\n", width, height)
	fmt.Fprintf(w, `<rect width="100%%" height="100%%" rx="8" fill="#282c34"/><text x="%.0f" y="23" fill="#7f848e">%s</text>`+"\n", margin, html.EscapeString(title))
	for i, line := range lines {
		fmt.Fprintf(w, `<text x="%.0f" y="%.1f" fill="#dcdfe4" xml:space="preserve">%s</text>`+"\n", margin, titleBar+margin+lineHeight*float64(i), spans(line, columns))
	}
	fmt.Fprintln(w, `</svg>`)
	return w.Flush()
}

// spans turns one line into tspans, a new one at each change of colour or weight.
func spans(line string, columns int) string {
	var b strings.Builder
	colour, bold, left := "", false, columns
	emit := func(text string) {
		if n := utf8.RuneCountInString(text); n > left {
			text = string([]rune(text)[:left])
		}
		left -= utf8.RuneCountInString(text)
		if text == "" {
			return
		}
		b.WriteString("<tspan")
		if colour != "" {
			fmt.Fprintf(&b, ` fill="%s"`, colour)
		}
		if bold {
			b.WriteString(` font-weight="bold"`)
		}
		fmt.Fprintf(&b, ">%s</tspan>", html.EscapeString(text))
	}
	rest := line
	for {
		at := escape.FindStringSubmatchIndex(rest)
		if at == nil {
			emit(rest)
			return b.String()
		}
		emit(rest[:at[0]])
		if at[2] >= 0 {
			colour, bold = style(rest[at[2]:at[3]], colour, bold)
		}
		rest = rest[at[1]:]
	}
}

func style(codes, colour string, bold bool) (string, bool) {
	for _, c := range strings.Split(codes, ";") {
		switch c {
		case "", "0":
			colour, bold = "", false
		case "1":
			bold = true
		case "2":
			colour = colours["90"]
		case "22":
			bold = false
		case "39":
			colour = ""
		default:
			if v, ok := colours[c]; ok {
				colour = v
			}
		}
	}
	return colour, bold
}
