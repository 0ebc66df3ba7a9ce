package admin

import "net/http"

// Guard puts the checks that this package's own endpoints have in front of another one,
// which a program serves beside [Admin.Handler]: the name by which the listener is
// addressed, the page that asks, the token or the peer's address, and the role.
func (a *Admin) Guard(role Role, next http.Handler) http.Handler {
	return harden(a.guard.need(role, func(w http.ResponseWriter, r *http.Request, _ string) { next.ServeHTTP(w, r) }))
}
