package awssim

// pcsWireError is one ErrorInfo of PCS.
type pcsWireError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// FailNodeGroups lets the next n creations and updates of compute node groups, which PCS has accepted, end in
// CREATE_FAILED or UPDATE_FAILED with this errorInfo.
func (s *Sim) FailNodeGroups(n int, code, message string) {
	s.do(func() {
		for range n {
			s.groupFailures = append(s.groupFailures, pcsWireError{code, message})
		}
	})
}

// settleGroup ends the operation of PCS on a node group: ACTIVE, or failed if that was asked for.
func (s *Sim) settleGroup(g *pcsGroup, failed string) {
	g.Status, g.ModifiedAt, g.ErrorInfo = statusActive, s.pcsNow(), nil
	if len(s.groupFailures) > 0 {
		g.Status, g.ErrorInfo = failed, s.groupFailures[:1:1]
		s.groupFailures = s.groupFailures[1:]
	}
}
