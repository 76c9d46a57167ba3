package container

import (
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// registryOf is a registry that wants a password and has no image.
func registryOf(t *testing.T, user, password string) (host string) {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if u, p, ok := r.BasicAuth(); !ok || u != user || p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			http.Error(w, `{"errors": [{"code": "UNAUTHORIZED", "message": "authentication required"}]}`, http.StatusUnauthorized)
			return
		}
		if strings.HasSuffix(r.URL.Path, "/v2/") {
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"errors": [{"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}]}`))
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://")
}

// loginFile is what `docker login` leaves.
func loginFile(t *testing.T, host, user, password string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.json")
	auth := base64.StdEncoding.EncodeToString([]byte(user + ":" + password))
	if err := os.WriteFile(path, []byte(`{"auths": {"`+host+`": {"auth": "`+auth+`"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// What registries answer, in words that say what to do.
func registries(y *yard) {
	host := registryOf(y.T, "ada", "right")
	for i, c := range []struct{ login, want string }{
		{"", "for a private image, `docker login` as the user the worker runs as"},
		{loginFile(y.T, host, "ada", "wrong"), "the password this machine has for the registry does not open it"},
		{loginFile(y.T, host, "ada", "right"), "(is the name right, and its tag?)"},
	} {
		p := y.plan("16."+string(rune('0'+i)), "exit=0")
		p.Image, p.Login = host+"/team/job:1", c.login
		exit, _, errs := y.end(y.start(p))
		n := exit.NotStarted
		if n == nil || !strings.Contains(n.Reason, "image "+p.Image+" cannot be fetched: ") || !strings.Contains(n.Reason, c.want) {
			y.Errorf("%q: %+v\n%+v %q", c.want, n, exit, errs)
		}
		if strings.Contains(errs, "right\"") || strings.Contains(errs, "wrong\"") {
			y.Errorf("the password is in the log: %q", errs)
		}
	}
}
