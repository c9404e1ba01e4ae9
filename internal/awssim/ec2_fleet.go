package awssim

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
)

// This file has fleets of type instant that launch on demand: EC2 tries the overrides in the order
// of their priorities, and answers with what it launched and why not elsewhere, always with
// status 200. Of a fleet with a minimum nothing is launched below it.

type createFleetInput struct {
	Type                        string
	LaunchTemplateConfigs       []fleetTemplate
	TargetCapacitySpecification struct {
		TotalTargetCapacity       int
		DefaultTargetCapacityType string
	}
	OnDemandOptions struct {
		AllocationStrategy                         string
		SingleInstanceType, SingleAvailabilityZone bool
		MinTargetCapacity                          int
	}
	TagSpecifications []tagSpecification `form:"TagSpecification"`
	ClientToken       string
}

type fleetTemplate struct {
	LaunchTemplateSpecification templateReference
	Overrides                   []fleetOverride
}

type fleetOverride struct {
	InstanceType, SubnetId string
	Priority               string // a number
}

func (o fleetOverride) priority() float64 {
	n, _ := strconv.ParseFloat(o.Priority, 64)
	return n
}

type wireFleet struct {
	ID        string               `xml:"fleetId"`
	Instances []wireFleetInstances `xml:"fleetInstanceSet>item"`
	Errors    []wireFleetError     `xml:"errorSet>item"`
}

type wireFleetInstances struct {
	IDs       []string `xml:"instanceIds>item"`
	Type      string   `xml:"instanceType"`
	SubnetID  string   `xml:"subnetId"`
	Lifecycle string   `xml:"lifecycle"`
}

type wireFleetError struct {
	Code      string `xml:"errorCode"`
	Message   string `xml:"errorMessage"`
	Lifecycle string `xml:"lifecycle"`
}

func (s *Sim) createFleet(c *call, in *createFleetInput) (any, error) {
	total, o := in.TargetCapacitySpecification.TotalTargetCapacity, in.OnDemandOptions
	switch {
	case in.Type != "instant":
		return nil, apiErrorf("InvalidParameterValue", "Value (%s) for parameter Type is invalid: the simulator has instant fleets", in.Type)
	case cmp.Or(in.TargetCapacitySpecification.DefaultTargetCapacityType, "on-demand") != "on-demand":
		return nil, apiErrorf("InvalidParameterValue", "Value (%s) for parameter DefaultTargetCapacityType is invalid: the simulator has on-demand",
			in.TargetCapacitySpecification.DefaultTargetCapacityType)
	case len(in.LaunchTemplateConfigs) == 0:
		return nil, apiErrorf("MissingParameter", "The request must contain the parameter LaunchTemplateConfigs")
	case total < 1 || o.MinTargetCapacity > total || o.MinTargetCapacity > 1000:
		return nil, apiErrorf("InvalidParameterValue", "Value (%d) for parameter TotalTargetCapacity is invalid", total)
	case o.MinTargetCapacity > 0 && !o.SingleAvailabilityZone && !o.SingleInstanceType:
		return nil, apiErrorf("InvalidParameterCombination", "MinTargetCapacity needs SingleAvailabilityZone or SingleInstanceType")
	case o.SingleAvailabilityZone != o.SingleInstanceType:
		return nil, apiErrorf("InvalidParameterValue", "the simulator has SingleAvailabilityZone and SingleInstanceType together, or neither")
	}
	tags, err := specifiedTags(in.TagSpecifications, "instance", "fleet", "volume", "network-interface")
	if err != nil {
		return nil, err
	}
	return s.idempotent(c, in.ClientToken, func() (func() (any, error), error) {
		w := wireFleet{ID: s.newID("fleet")}
		for _, config := range in.LaunchTemplateConfigs {
			overrides := slices.SortedStableFunc(slices.Values(config.Overrides), func(a, b fleetOverride) int { return cmp.Compare(a.priority(), b.priority()) })
			for _, override := range overrides {
				order := launchOrder{min: max(1, o.MinTargetCapacity), max: total, subnet: override.SubnetId, tags: copyTags(tags)}
				order.InstanceType = override.InstanceType
				order.tags["aws:ec2:fleet-id"] = w.ID
				var made []*instance
				err := order.template(c.region, config.LaunchTemplateSpecification)
				if err == nil {
					made, err = s.run(c.region, order)
				}
				var refused *APIError
				if errors.As(err, &refused) {
					w.Errors = append(w.Errors, wireFleetError{refused.Code, refused.Message, "on-demand"})
					continue
				} else if err != nil {
					return nil, err
				}
				some := wireFleetInstances{Type: override.InstanceType, SubnetID: override.SubnetId, Lifecycle: "on-demand"}
				for _, i := range made {
					some.IDs = append(some.IDs, i.ID)
				}
				w.Instances = append(w.Instances, some)
				if len(made) < total {
					if errors.As(insufficientCapacity(override.InstanceType, made[0].Zone, ""), &refused) {
						w.Errors = append(w.Errors, wireFleetError{refused.Code, refused.Message, "on-demand"})
					}
				}
				if total -= len(made); total == 0 || o.SingleAvailabilityZone {
					return func() (any, error) { return w, nil }, nil
				}
			}
		}
		return func() (any, error) { return w, nil }, nil
	})
}
