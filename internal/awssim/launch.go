package awssim

import (
	"slices"
	"strings"
)

// LaunchRequest asks for instances as a service of AWS would, in the process.
type LaunchRequest struct {
	Region                string
	MinCount, MaxCount    int    // MinCount instances or none
	LaunchTemplateID      string // optional; the fields below that are set override it
	LaunchTemplateVersion string // number, $Latest or $Default (the default)
	InstanceType          string
	ImageID               string
	SubnetID              string
	MarketType            string // capacity-block, interruptible-capacity-reservation or empty
	ReservationID         string // targeted reservation
	UserData              string // base64
	ClientToken           string
	Tags                  map[string]string // of the instances; services may set aws: tags
}

// Launch runs instances. An error is an *APIError with EC2's code.
func (s *Sim) Launch(req LaunchRequest) (launched []Instance, err error) {
	s.do(func() {
		var made []*instance
		made, err = s.launch(req)
		for _, i := range made {
			launched = append(launched, i.view())
		}
	})
	return launched, err
}

// Terminate ends instances; those that are terminated already are left alone.
func (s *Sim) Terminate(regionName string, ids []string, reason string) (err error) {
	s.do(func() { err = s.terminateIDs(regionName, ids, reason) })
	return err
}

// Instances lists the instances of a region, or of all with an empty name, in the order of launch.
// Terminated ones stay in the list for an hour.
func (s *Sim) Instances(regionName string) []Instance {
	var out []Instance
	s.do(func() {
		for _, name := range s.order {
			if regionName != "" && name != regionName {
				continue
			}
			for _, i := range s.regions[name].instances {
				out = append(out, i.view())
			}
		}
	})
	slices.SortFunc(out, func(a, b Instance) int {
		if c := a.LaunchTime.Compare(b.LaunchTime); c != 0 {
			return c
		}
		if c := strings.Compare(a.LaunchID, b.LaunchID); c != 0 {
			return c
		}
		return a.AMILaunchIndex - b.AMILaunchIndex
	})
	return out
}

type instance struct{ Instance }

func (i *instance) view() Instance { return i.Instance }

// launch is Launch for callers that hold mu.
func (s *Sim) launch(req LaunchRequest) ([]*instance, error) {
	return nil, apiErrorf("Unsupported", "not yet")
}

// terminateIDs is Terminate for callers that hold mu.
func (s *Sim) terminateIDs(regionName string, ids []string, reason string) error { return nil }
