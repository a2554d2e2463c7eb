package main

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"
)

// health answers the probes of an orchestrator.
//
//   - /livez: the process lives. It asks for nothing else: a service that is restarted because its database is away
//     does not get it back by that.
//   - /readyz: the service handles events and its database answers. It turns red first when the service is to stop.
type health struct {
	ready atomic.Bool
	ping  func(context.Context) error
}

func (h *health) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", func(w http.ResponseWriter, _ *http.Request) { answer(w, true, "alive") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if !h.ready.Load() {
			answer(w, false, "starting or stopping")
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
		defer cancel()
		if err := h.ping(ctx); err != nil {
			answer(w, false, "the database does not answer")
			return
		}
		answer(w, true, "ready")
	})
	return mux
}

func answer(w http.ResponseWriter, ok bool, text string) {
	if !ok {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	_, _ = w.Write([]byte(text + "\n"))
}
