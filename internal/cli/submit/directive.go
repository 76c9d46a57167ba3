package submit

import (
	"bufio"
	"bytes"
	"fmt"
	"strings"
)

// directive is one option out of the head of a script.
type directive struct {
	line  int
	slurm bool   // written after #SBATCH: Slurm's names hold
	name  string // without dashes
	value string
	given bool // a value stands in the same word, or in the next
	own   bool // the value stands in the same word: --gpus=2, -g2
}

// text is the option as it is told to people.
func (d directive) text() string {
	dashes := "--"
	if len(d.name) == 1 {
		dashes = "-"
	}
	return dashes + d.name
}

// directives reads the lines of #BERTH and #SBATCH at the head of a script. The head ends at the first line that is
// neither blank nor a comment: what stands below is the program's.
func directives(script []byte) ([]directive, error) {
	var all []directive
	lines := bufio.NewScanner(bytes.NewReader(script))
	lines.Buffer(nil, len(script)+1)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line != "" && !strings.HasPrefix(line, "#") {
			break
		}
		for _, prefix := range []string{"#BERTH", "#SBATCH"} {
			rest, found := strings.CutPrefix(line, prefix)
			if !found || rest == "" || rest[0] != ' ' && rest[0] != '\t' {
				continue
			}
			words, err := splitWords(rest)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", n, err)
			}
			here, err := options(words, n, prefix == "#SBATCH")
			if err != nil {
				return nil, err
			}
			all = append(all, here...)
		}
	}
	return all, lines.Err()
}

// options makes directives of words such as --gpus 2 -m20Gi --hold.
func options(words []string, line int, slurm bool) ([]directive, error) {
	var all []directive
	for i, word := range words {
		name, isLong := strings.CutPrefix(word, "--")
		switch {
		case isLong && name != "":
			d := directive{line: line, slurm: slurm}
			d.name, d.value, d.own = strings.Cut(name, "=")
			d.given = d.own
			all = append(all, d)
		case len(word) > 1 && word[0] == '-' && (word[1] < '0' || word[1] > '9'):
			d := directive{line: line, slurm: slurm, name: word[1:2], value: strings.TrimPrefix(word[2:], "=")}
			d.own = len(word) > 2
			d.given = d.own
			all = append(all, d)
		case strings.HasPrefix(word, "#"):
			return all, nil // a remark behind the options
		case i == 0 || all[len(all)-1].given:
			return nil, fmt.Errorf("line %d: %q belongs to no option", line, word)
		default:
			last := &all[len(all)-1]
			last.value, last.given = word, true
		}
	}
	return all, nil
}

// splitWords splits at blanks outside of quotes. A backslash outside of single quotes takes the next letter as it is.
func splitWords(text string) ([]string, error) {
	var (
		words []string
		word  strings.Builder
		open  bool // a word has begun, be it empty
		quote rune
		plain bool // the next letter means itself
	)
	for _, r := range text {
		switch {
		case plain:
			word.WriteRune(r)
			plain = false
		case r == '\\' && quote != '\'':
			plain, open = true, true
		case quote != 0 && r == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(r)
		case r == '\'' || r == '"':
			quote, open = r, true
		case r == ' ' || r == '\t':
			if open {
				words, open = append(words, word.String()), false
				word.Reset()
			}
		default:
			word.WriteRune(r)
			open = true
		}
	}
	if quote != 0 || plain {
		return nil, fmt.Errorf("a quote or a backslash is left open in %q", strings.TrimSpace(text))
	}
	if open {
		words = append(words, word.String())
	}
	return words, nil
}
