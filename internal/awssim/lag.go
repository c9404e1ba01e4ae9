package awssim

import (
	"maps"
	"time"
)

// Lag is EC2's eventual consistency: for how long calls that follow a change do not see it yet, in simulated time.
// What is not visible is in no list, and a call that names it answers that there is no such thing (EC2 Developer
// Guide, "Eventual consistency"). POST /_sim/lag takes it; fields left out stay.
type Lag struct {
	Instances    *Duration `json:"instances,omitempty" toml:"instances"`       // new instances
	Templates    *Duration `json:"templates,omitempty" toml:"templates"`       // new launch templates and versions
	Tags         *Duration `json:"tags,omitempty" toml:"tags"`                 // of CreateTags and DeleteTags; new things have theirs at once
	Reservations *Duration `json:"reservations,omitempty" toml:"reservations"` // new ODCRs
	Purchases    *Duration `json:"purchases,omitempty" toml:"purchases"`       // purchased blocks
}

// lags is Lag with everything set.
type lags struct{ instances, templates, tags, reservations, purchases time.Duration }

func (l *lags) set(change Lag) {
	for to, d := range map[*time.Duration]*Duration{&l.instances: change.Instances, &l.templates: change.Templates, &l.tags: change.Tags,
		&l.reservations: change.Reservations, &l.purchases: change.Purchases} {
		if d != nil {
			*to = time.Duration(*d)
		}
	}
}

// SetLag changes how long later changes stay invisible.
func (s *Sim) SetLag(change Lag) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lag.set(change)
}

// oldTags are the tags that a resource shows until a change of its tags is visible.
type oldTags struct {
	tags  map[string]string
	until time.Time
}

// hide keeps a new thing invisible for a while. Called with mu held.
func (r *region) hide(id string, lag time.Duration) {
	if lag > 0 {
		r.hidden[id] = r.sim.now.Add(lag)
	}
}

// shows tells whether a thing is visible yet.
func (r *region) shows(id string) bool { return !r.sim.now.Before(r.hidden[id]) }

// keepTags has a resource show its present tags for a while. Called before they change.
func (r *region) keepTags(id string, tags map[string]string) {
	if lag := r.sim.lag.tags; lag > 0 {
		r.oldTags[id] = oldTags{maps.Clone(r.shownTags(id, tags)), r.sim.now.Add(lag)}
	}
}

// shownTags are the tags that a resource with these tags shows.
func (r *region) shownTags(id string, tags map[string]string) map[string]string {
	if old, ok := r.oldTags[id]; ok && r.sim.now.Before(old.until) {
		return old.tags
	}
	return tags
}

// shown keeps the items that are visible.
func shown[T any](r *region, items []T, id func(T) string) []T {
	var out []T
	for _, item := range items {
		if r.shows(id(item)) {
			out = append(out, item)
		}
	}
	return out
}
