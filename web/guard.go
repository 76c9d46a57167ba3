package web

import (
	"crypto/subtle"
	"html/template"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/berthq/berth/metrics"
)

// cookieName holds the token in a browser.
const cookieName = "berth_dashboard"

// csp allows this server's own files alone: no inline script, no foreign address.
const csp = "default-src 'none'; script-src 'self'; style-src 'self'; font-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// guard is what every request passes: the host it was meant for, whether it may read, whether it may act.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", csp)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		switch {
		case !s.hostIsMine(r.Host):
			// A page elsewhere may have pointed its own name at this address.
			http.Error(w, "this dashboard is not "+r.Host+"; start it with --http-host "+r.Host+" if that is its name", http.StatusMisdirectedRequest)
		case r.URL.Path == "/login", strings.HasPrefix(r.URL.Path, "/assets/"):
			next.ServeHTTP(w, r)
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			s.guardAction(w, r, next)
		case s.o.Open || s.knows(r):
			next.ServeHTTP(w, r)
		case strings.HasPrefix(r.URL.Path, "/api/"), r.URL.Path == metrics.Path:
			writeError(w, refuse(http.StatusUnauthorized, "reading needs the token: berth dashboard prints the address that has it"))
		default:
			s.askForToken(w, r, "")
		}
	})
}

// guardAction lets only what has the token act, and only pages of this dashboard or programs: a form elsewhere can
// neither set the header nor send JSON, and its browser names its origin.
func (s *Server) guardAction(w http.ResponseWriter, r *http.Request, next http.Handler) {
	switch origin := r.Header.Get("Origin"); {
	case origin != "" && !sameHost(origin, r.Host):
		writeError(w, refuse(http.StatusForbidden, "this request comes from a page of %s", origin))
	case r.Header.Get("X-Berth") == "":
		writeError(w, refuse(http.StatusForbidden, "actions need the header X-Berth: 1"))
	case !s.knows(r):
		writeError(w, refuse(http.StatusUnauthorized, "actions need the token: berth dashboard prints the address that has it"))
	default:
		r.Body = http.MaxBytesReader(w, r.Body, 1<<20)
		next.ServeHTTP(w, r)
	}
}

func sameHost(origin, host string) bool {
	u, err := url.Parse(origin)
	return err == nil && u.Host == host
}

// knows says whether the request carries the token.
func (s *Server) knows(r *http.Request) bool {
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return s.isToken(bearer)
	}
	c, err := r.Cookie(cookieName)
	return err == nil && s.isToken(c.Value)
}

func (s *Server) isToken(t string) bool {
	return subtle.ConstantTimeCompare([]byte(t), []byte(s.o.Token)) == 1
}

// hostIsMine accepts loopback, plain addresses and the names that were given: a name somebody else points here is none.
func (s *Server) hostIsMine(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = hostport
	}
	host = strings.Trim(strings.ToLower(host), "[]")
	return host == "localhost" || net.ParseIP(host) != nil || slices.Contains(s.o.Hosts, host)
}

func (s *Server) login(w http.ResponseWriter, r *http.Request) {
	token := r.URL.Query().Get("token")
	if r.Method == http.MethodPost {
		r.Body = http.MaxBytesReader(w, r.Body, 4096)
		token = r.PostFormValue("token")
	}
	token = strings.TrimSpace(token)
	switch {
	case token == "":
		s.askForToken(w, r, "")
		return
	case !s.isToken(token):
		s.askForToken(w, r, "That is not the token of this dashboard.")
		return
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: s.o.Token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

func (s *Server) askForToken(w http.ResponseWriter, r *http.Request, problem string) {
	w.WriteHeader(http.StatusUnauthorized)
	s.render(w, loginPage, struct {
		Problem, Host string
		Demo          bool
	}{problem, r.Host, s.o.Demo})
}

func (s *Server) render(w http.ResponseWriter, t *template.Template, data any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if err := t.Execute(w, data); err != nil {
		s.o.Logger.Debug("page", "err", err) // a browser that went away
	}
}
