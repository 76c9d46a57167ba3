package redact_test

import (
	"bytes"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/berthq/berth/runner/redact"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// through sends a text in pieces of n bytes.
func through(values []string, text string, n int) string {
	r := redact.New(values)
	if r == nil {
		return text
	}
	var out bytes.Buffer
	for len(text) > 0 {
		k := min(n, len(text))
		out.Write(r.Next([]byte(text[:k])))
		text = text[k:]
	}
	out.Write(r.End())
	return out.String()
}

func TestRedact(t *testing.T) {
	t.Parallel()
	pem := "-----BEGIN KEY-----\nMIIEvQIBADANBgkq\nshort\n-----END KEY-----"
	for name, c := range map[string]struct {
		values     []string
		text, want string
	}{
		"plain":              {[]string{"hunter22"}, "key=hunter22 ok\n", "key=[secret] ok\n"},
		"twice":              {[]string{"hunter22"}, "hunter22hunter22", "[secret]"},
		"prefix only":        {[]string{"hunter22"}, "the hunter2", "the hunter2"},
		"restart in itself":  {[]string{"aaab"}, "aaaaaab", "aaa[secret]"},
		"one in another":     {[]string{"token", "tokenlong"}, "x tokenlong y token z", "x [secret] y [secret] z"},
		"overlapping":        {[]string{"abcd", "cdef"}, "-abcdef-", "-[secret]-"},
		"overlap that fails": {[]string{"abcd", "cdef"}, "-abcdex-", "-[secret]ex-"},
		"several lines":      {[]string{pem}, "a\n" + pem + "\nb\n", "a\n[secret]\nb\n"},
		"one line of it":     {[]string{pem}, "MIIEvQIBADANBgkq\nshort\n", "[secret]\nshort\n"},
		"as JSON":            {[]string{"pa\"ss\\word"}, `{"k": "pa\"ss\\word"}`, `{"k": "[secret]"}`},
		"too short":          {[]string{"abc"}, "abc", "abc"},
		"none":               {nil, "abc", "abc"},
	} {
		for n := 1; n <= len(c.text); n++ {
			if got := through(c.values, c.text, n); got != c.want {
				t.Errorf("%s in pieces of %d: %q, want %q", name, n, got, c.want)
			}
		}
	}
}

// FuzzRedact: however the stream is cut, no value comes through, what has nothing to do with one does, and the cuts
// change nothing.
func FuzzRedact(f *testing.F) {
	f.Add("hunter22", "swordfish", "the hunter22 and swordfish", 3)
	f.Add("aaaa", "aaab", "aaaaaaaab", 1)
	f.Add("abcabd", "cabx", "abcabcabdcabx", 2)
	f.Fuzz(func(t *testing.T, a, b, text string, n int) {
		if n < 1 || n > 1<<16 || len(text) > 1<<14 {
			return
		}
		for _, v := range []string{a, b} {
			if strings.ContainsAny(v, redact.Mask) || len(v) > 1<<10 {
				return // it would stand in the mask itself
			}
		}
		values := []string{a, b}
		got := through(values, text, n)
		for _, v := range values {
			if len(v) >= redact.MinLength && strings.Contains(got, v) {
				t.Errorf("%q of %q came through: %q", v, text, got)
			}
		}
		if whole := through(values, text, len(text)+1); got != whole {
			t.Errorf("in pieces of %d %q, whole %q", n, got, whole)
		}
		if redact.New(values) == nil && got != text {
			t.Errorf("nothing to keep out, and %q became %q", text, got)
		}
	})
}

func BenchmarkRedact(b *testing.B) {
	line := []byte(strings.Repeat("epoch 12/54  loss 0.1234  lr 3e-4\n", 1000))
	r := redact.New([]string{"hf_ABCDEFGHIJKLMNOPQRSTUVWXYZ", "sk-0123456789abcdef"})
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		r.Next(line)
	}
}
