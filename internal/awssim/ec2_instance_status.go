package awssim

import (
	"encoding/base64"
	"time"
)

type describeInstanceStatusInput struct{ listing }

func (s *Sim) statusObjects(c *call) (all []object) {
	for _, i := range shown(c.region, c.region.byLaunch(), func(i *instance) string { return i.ID }) {
		if i.State != stateRunning {
			continue
		}
		w := object{"InstanceId": i.ID, "AvailabilityZone": i.Zone, "InstanceState": stateObject(i.State), "SystemStatus": object{"Status": "ok"}}
		if i.HostFailed {
			w["SystemStatus"] = object{"Status": "impaired"}
		}
		if !i.retires.IsZero() {
			w["Events"] = []object{{"Code": "instance-retirement", "Description": "The instance is running on degraded hardware", "NotBefore": i.retires}}
		}
		all = append(all, w)
	}
	return all
}

// Retire has EC2 announce that it stops an instance then, because its host is degraded.
func (s *Sim) Retire(region, instanceID string, at time.Time) {
	s.do(func() { s.regions[region].instances[instanceID].retires = at })
}

type getConsoleOutputInput struct {
	InstanceId string
	Latest     bool
}

func (s *Sim) getConsoleOutput(c *call, in *getConsoleOutputInput) (any, error) {
	if c.region.instances[in.InstanceId] == nil || !c.region.shows(in.InstanceId) {
		return nil, instanceNotFound(in.InstanceId)
	}
	text := ""
	if s.console != nil {
		text = s.console(in.InstanceId)
	}
	return object{"InstanceId": in.InstanceId, "Timestamp": s.now, "Output": base64.StdEncoding.EncodeToString([]byte(text))}, nil
}

// OnConsole has an instance's console say what read returns. It may not call the simulator.
func (s *Sim) OnConsole(read func(instanceID string) string) { s.do(func() { s.console = read }) }
