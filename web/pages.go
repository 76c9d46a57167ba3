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
type page struct{ path, name, title string }

var pages = []page{
	{"/{$}", "overview", "Overview"},
	{"/jobs", "jobs", "Jobs"},
	{"/jobs/{id}", "job", "Job"},
	{"/groups", "groups", "Groups"},
	{"/machines", "machines", "Machines"},
	{"/leases", "leases", "Leases"},
	{"/dead", "dead", "Dead letters"},
	{"/usage", "usage", "Usage"},
	{"/audit", "audit", "Events"},
	{"/submit", "submit", "Submit"},
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

// Name and Title are for the template.
func (p page) Name() string  { return p.name }
func (p page) Title() string { return p.title }

// InMenu keeps the page of a single job out.
func (p page) InMenu() bool { return p.name != "job" }
