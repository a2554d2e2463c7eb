package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"time"

	"github.com/orionjs/orion-go/internal/visible"
)

//go:embed assets templates
var files embed.FS

// assetsVersion changes with the assets, so that browsers may keep them for ever.
var assetsVersion = func() string {
	sum := sha256.New()
	for _, name := range []string{"console.css", "console.js", "icon.svg"} {
		text, err := files.ReadFile("assets/" + name)
		if err != nil {
			panic(err) // they are in the binary
		}
		sum.Write(text)
	}
	return hex.EncodeToString(sum.Sum(nil)[:6])
}()

var functions = template.FuncMap{
	"assets":    func() string { return assetsVersion },
	"icon":      icon,
	"number":    number,
	"perSecond": perSecond,
	"percent":   percent,
	"duration":  duration,
	"instant":   instant,
	"precise":   precise,
	"machine":   machine,
	"clock":     func(t time.Time) string { return t.UTC().Format("15:04:05") },
	"short":     short,
	"name":      visible.Name,
	"text":      visible.Text,
	"plural":    plural,
}

// icon refers to a drawing of templates/parts.html. A word stands beside each, so that it need not be read out.
func icon(name string) template.HTML {
	return template.HTML(`<svg aria-hidden="true" width="16" height="16"><use href="#i-` + template.HTMLEscapeString(name) + `"/></svg>`) //nolint:gosec // escaped
}

// pages are the templates, each in the layout.
var pages = func() map[string]*template.Template {
	pages := map[string]*template.Template{}
	for _, name := range []string{"overview", "subscription", "deliveries", "delivery", "confirm", "problem"} {
		pages[name] = template.Must(template.New(name).Funcs(functions).ParseFS(files, "templates/layout.html", "templates/parts.html", "templates/"+name+".html"))
	}
	return pages
}()

// liveSeconds is how often a page asks for its next state.
const liveSeconds = int(interval / time.Second)

// layout is what every page has.
type layout struct {
	Title, Place, Database string
	ReadWrite              bool
	// Live is after how many seconds the page brings itself up to date; 0 for never.
	Live int
	// Read is when what is shown was read, Trouble why nothing newer could be.
	Read    time.Time
	Trouble string
	// Done says what was changed just now.
	Done string
	// Token stands in forms.
	Token string
	Body  any
}

// render writes a page. It is complete before the first byte leaves, so that a failure is no half page.
func (c *Console) render(w http.ResponseWriter, r *http.Request, name string, page layout) {
	c.renderStatus(w, r, http.StatusOK, name, page)
}

func (c *Console) renderStatus(w http.ResponseWriter, r *http.Request, code int, name string, page layout) {
	page.Database, page.ReadWrite = c.config.Name, c.config.ReadWrite
	page.Done = done(r.URL.Query())
	var out bytes.Buffer
	if err := pages[name].ExecuteTemplate(&out, "layout", page); err != nil {
		http.Error(w, fmt.Sprintf("pulse/console: render the page: %v", err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(out.Bytes()) // whoever is gone needs no answer
}

// problem is a page that says what is wrong and where to go on.
type problem struct{ What, Text, Back, BackText string }

func (c *Console) problem(w http.ResponseWriter, r *http.Request, code int, p problem) {
	c.renderStatus(w, r, code, "problem", layout{Title: p.What, Body: p})
}

// unreadable says that the database gave no answer.
func (c *Console) unreadable(w http.ResponseWriter, r *http.Request, err error) {
	c.problem(w, r, http.StatusServiceUnavailable, problem{What: "MongoDB did not answer", Text: trouble(err), Back: "./", BackText: "Try again"})
}

func trouble(err error) string {
	if err == nil {
		return ""
	}
	return visible.Text(err.Error())
}

// assets serves the style sheet, the script and the icon.
func assets() http.Handler {
	sub, err := fs.Sub(files, "assets")
	if err != nil {
		panic(err) // it is in the binary
	}
	serve := http.StripPrefix("/assets", http.FileServerFS(sub))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/assets/" {
			http.NotFound(w, r)
			return
		}
		if r.URL.RawQuery == assetsVersion {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
		}
		serve.ServeHTTP(w, r)
	})
}
