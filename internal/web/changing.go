package web

import (
	"context"
	"mime"
	"net/http"
	"time"
)

// change is something to do. It returns where the browser goes then.
type change func(w http.ResponseWriter, r *request) (to string, err error)

// maxForm bounds a form, in bytes.
const maxForm = 16 << 10

// change does what a form asks for. Forms of other sites are refused before this.
func (d *Dashboard) change(do change) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/x-www-form-urlencoded" {
			d.fail(w, r, &mistaken{"use the form of a page, or the API below /api/v1"})
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if r.ParseForm() != nil {
			d.fail(w, r, &mistaken{"the form cannot be read, or is larger than 16 KiB"})
			return
		}
		to, err := do(w, &request{r, ctx, time.Now()})
		d.shared.forget() // also after an error: it may have been done
		if err != nil {
			d.fail(w, r, err)
			return
		}
		http.Redirect(w, r, to, http.StatusSeeOther)
	}
}
