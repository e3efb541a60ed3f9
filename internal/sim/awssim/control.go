package awssim

import (
	"encoding/json"
	"io"
	"net/http"
)

// serveControl is the endpoint that people and scripts set faults by:
// POST /_awssim/faults with a scenario, DELETE /_awssim/faults, and GET /_awssim/calls,
// /_awssim/instances and /_awssim/account to look.
func (s *Sim) serveControl(w http.ResponseWriter, r *http.Request) {
	switch r.Method + " " + r.URL.Path {
	case "POST /_awssim/faults":
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, bodyMax))
		if err == nil {
			var sc Scenario
			if sc, err = ReadScenario(body); err == nil {
				err = s.Inject(sc.Faults...)
			}
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	case "DELETE /_awssim/faults":
		s.Clear()
		w.WriteHeader(http.StatusNoContent)
	case "GET /_awssim/calls":
		writeJSON(w, map[string]any{"calls": s.Calls(), "refused": s.Refused(), "unknown": s.Unknown()})
	case "GET /_awssim/instances":
		writeJSON(w, s.Instances())
	case "GET /_awssim/account":
		writeJSON(w, map[string]any{
			"launchTemplates": s.Templates(), "instanceProfiles": s.Profiles(), "queueLength": s.QueueLength(), "spent": s.Spent(),
		})
	default:
		http.Error(w, "awssim has POST and DELETE /_awssim/faults, and GET /_awssim/calls, instances and account", http.StatusNotFound)
	}
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	// A caller that is gone does not read the answer.
	_ = json.NewEncoder(w).Encode(v)
}
