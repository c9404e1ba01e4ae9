package awssim

// pcsState is what PCS has in one region.
type pcsState struct{}

// buildPCS makes the clusters of the scenario. Called with mu held, after the rest of the region.
func (s *Sim) buildPCS(r *region, sc RegionScenario) error { return nil }

// pcsOperations names every operation of PCS.
func (s *Sim) pcsOperations() map[string]operation { return map[string]operation{} }
