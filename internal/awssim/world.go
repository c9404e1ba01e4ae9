package awssim

import (
	"fmt"
)

// region is what one region holds. Guarded by Sim.mu.
type region struct {
	name      string
	scenario  RegionScenario
	instances map[string]*instance
	pcs       pcsState
}

type tokenKey struct{ region, operation, token string }

type tokenUse struct {
	params string
	replay func() ([]byte, error)
}

// build makes the world of the scenario.
func (s *Sim) build() error {
	if len(s.scenario.Regions) == 0 {
		return fmt.Errorf("no regions")
	}
	for _, sc := range s.scenario.Regions {
		r := &region{name: sc.Name, scenario: sc, instances: map[string]*instance{}}
		s.regions[r.name] = r
		s.order = append(s.order, r.name)
		if err := s.buildPCS(r, sc); err != nil {
			return fmt.Errorf("region %s: %w", r.name, err)
		}
	}
	return nil
}

// newID makes an id such as i-0123456789abcdef0 that is the same in every run of the same scenario.
func (s *Sim) newID(prefix string) string {
	s.serial++
	z := s.serial * 0x9e3779b97f4a7c15 // splitmix64: distinct for distinct serials
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return fmt.Sprintf("%s-0%016x", prefix, z^(z>>31))
}
