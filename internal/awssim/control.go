package awssim

import "net/http"

// routeControl adds the control requests under /_sim/.
func (s *Sim) routeControl(mux *http.ServeMux) {}
