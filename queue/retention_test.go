package queue

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// docs/retention.md says of every stream how long what it holds is kept, and says it as the stream does.
func TestRetentionIsAsWrittenDown(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/retention.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]string{}
	for _, line := range strings.Split(string(page), "\n") {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		for _, name := range regexp.MustCompile("`([A-Za-z_]+)`").FindAllStringSubmatch(cells[1], -1) {
			rows[name[1]] = cells[3]
		}
	}
	ages := map[string]time.Duration{ // where not the stream's age is the end, but one message's
		"KV_" + BucketRecords: keepRecord, "KV_" + BucketKeys: keepKeys,
	}
	for _, s := range streams(Options{}.withDefaults()) {
		row, ok := rows[s.Name]
		age := max(s.MaxAge, ages[s.Name])
		want := fmt.Sprintf("%d days", age/day)
		if age > 0 && age < day {
			want = fmt.Sprintf("%d seconds", age/time.Second)
		}
		switch {
		case !ok:
			t.Errorf("the page does not name %s", s.Name)
		case age > 0 && !strings.Contains(row, want):
			t.Errorf("%s: the page says%s, the stream %s", s.Name, row, want)
		case age == 0 && regexp.MustCompile(`\d`).MatchString(row):
			t.Errorf("%s: the page says%s, the stream keeps it without end", s.Name, row)
		}
	}
}
