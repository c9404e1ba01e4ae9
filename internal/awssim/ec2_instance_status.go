package awssim

import "time"

type describeInstanceStatusInput struct {
	Filters []filter `form:"Filter"`
	paging
}

type wireStatus struct {
	Status string `xml:"status"`
}

type wireStatusEvent struct {
	Code        string    `xml:"code"`
	Description string    `xml:"description"`
	NotBefore   time.Time `xml:"notBefore"`
}

type wireInstanceStatus struct {
	ID     string            `xml:"instanceId"`
	Zone   string            `xml:"availabilityZone"`
	State  wireState         `xml:"instanceState"`
	System wireStatus        `xml:"systemStatus"`
	Events []wireStatusEvent `xml:"eventsSet>item"`
}

var instanceStatusFilters = filterNames[wireInstanceStatus]{values: map[string]func(wireInstanceStatus) []string{
	"system-status.status": one(func(w wireInstanceStatus) string { return w.System.Status }),
	"event.code": func(w wireInstanceStatus) (codes []string) {
		for _, e := range w.Events {
			codes = append(codes, e.Code)
		}
		return codes
	},
}}

func (s *Sim) describeInstanceStatus(c *call, in *describeInstanceStatusInput) (any, error) {
	var all []wireInstanceStatus
	for _, i := range shown(c.region, c.region.byLaunch(), func(i *instance) string { return i.ID }) {
		if i.State != stateRunning {
			continue
		}
		w := wireInstanceStatus{ID: i.ID, Zone: i.Zone, State: wireState{stateCodes[i.State], i.State}, System: wireStatus{"ok"}}
		if i.HostFailed {
			w.System.Status = "impaired"
		}
		if !i.retires.IsZero() {
			w.Events = []wireStatusEvent{{"instance-retirement", "The instance is running on degraded hardware", i.retires}}
		}
		all = append(all, w)
	}
	all, err := instanceStatusFilters.apply(in.Filters, all)
	if err != nil {
		return nil, err
	}
	part, next, err := page(c, in.paging, 5, 1000, false, all)
	return struct {
		Statuses []wireInstanceStatus `xml:"instanceStatusSet>item"`
		Next     string               `xml:"nextToken,omitempty"`
	}{part, next}, err
}

// Retire has EC2 announce that it stops an instance then, because its host is degraded.
func (s *Sim) Retire(region, instanceID string, at time.Time) {
	s.do(func() { s.regions[region].instances[instanceID].retires = at })
}
