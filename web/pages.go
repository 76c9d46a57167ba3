package web

import (
	"embed"
	"html/template"
	"net/http"
)

//go:embed templates
var templates embed.FS

var (
	shellPage = template.Must(template.ParseFS(templates, "templates/page.html"))
	loginPage = template.Must(template.ParseFS(templates, "templates/login.html"))
)

// page is one address a browser may ask for. They share a shell; the script of that name fills it.
type page struct {
	path, name, title string
	icon              string // the path of a drawing of 24 by 24
}

var pages = []page{
	{"/{$}", "overview", "Overview", "M4 13h6V4H4zM14 20h6v-9h-6zM14 7h6V4h-6zM4 20h6v-3H4z"},
	{"/jobs", "jobs", "Jobs", "M9 6h11M9 12h11M9 18h11M4 6h.01M4 12h.01M4 18h.01"},
	{"/jobs/{id}", "job", "Job", ""},
	{"/groups", "groups", "Groups", "M4 4h6v6H4zM14 4h6v6h-6zM4 14h6v6H4zM14 14h6v6h-6z"},
	{"/machines", "machines", "Machines", "M7 7h10v10H7zM10 3v4M14 3v4M10 17v4M14 17v4M3 10h4M3 14h4M17 10h4M17 14h4"},
	{"/leases", "leases", "Leases", "M6 11h12v9H6zM8.5 11V8a3.5 3.5 0 0 1 7 0v3"},
	{"/dead", "dead", "Dead letters", "M12 4 3 20h18zM12 10v4M12 17h.01"},
	{"/usage", "usage", "Usage", "M5 20V11M12 20V4M19 20v-6"},
	{"/audit", "audit", "Events", "M12 3a9 9 0 1 0 .01 0zM12 7v5l3 2"},
	{"/submit", "submit", "Submit", "M12 5v14M5 12h14"},
}

func (s *Server) page(p page) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.render(w, shellPage, struct {
			Page, Title, ID string
			Pages           []page
			MayAct, Demo    bool
		}{p.name, p.title, r.PathValue("id"), pages, s.knows(r), s.o.Demo})
	}
}

// Path is where the menu leads.
func (p page) Path() string {
	if p.name == "overview" {
		return "/"
	}
	return p.path
}

// Name, Title and Icon are for the template.
func (p page) Name() string  { return p.name }
func (p page) Title() string { return p.title }
func (p page) Icon() string  { return p.icon }

// InMenu keeps the page of a single job out.
func (p page) InMenu() bool { return p.name != "job" }
