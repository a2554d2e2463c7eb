package console

import (
	"crypto/rand"
	"crypto/subtle"
	"net/http"
)

// tokenCookie holds the token that a form repeats. Any replica of a service can check it, since nothing about it is
// kept.
const tokenCookie = "pulse_console"

// token returns the viewer's token, and gives them one if they have none. A page of another site can neither read
// the cookie nor make the browser send it, as it is SameSite=Strict.
func token(w http.ResponseWriter, r *http.Request) string {
	if cookie, err := r.Cookie(tokenCookie); err == nil && len(cookie.Value) >= 26 {
		return cookie.Value
	}
	value := rand.Text()
	http.SetCookie(w, &http.Cookie{
		Name: tokenCookie, Value: value, HttpOnly: true, Secure: r.TLS != nil, SameSite: http.SameSiteStrictMode,
	})
	return value
}

// genuine tells that a form came from a page of this console.
func genuine(r *http.Request) bool {
	cookie, err := r.Cookie(tokenCookie)
	return err == nil && len(cookie.Value) >= 26 && subtle.ConstantTimeCompare([]byte(cookie.Value), []byte(r.PostFormValue("token"))) == 1
}
