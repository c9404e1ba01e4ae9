package awssim

import (
	"slices"
	"strings"
)

// Key pairs and placement groups: EC2 looks them up when it launches, not when a launch template is made. Codes: EC2
// API Reference, "Error codes".

// KeyPairScenario is one key pair.
type KeyPairScenario struct {
	ID   string `toml:"id"`
	Name string `toml:"name"`
}

// PlacementGroupScenario is one placement group.
type PlacementGroupScenario struct {
	ID       string `toml:"id"`
	Name     string `toml:"name"`
	Strategy string `toml:"strategy"` // default cluster
}

func keyPairNotFound(name string) error {
	return apiErrorf("InvalidKeyPair.NotFound", "The key pair '%s' does not exist", name)
}

func placementGroupUnknown(name string) error {
	return apiErrorf("InvalidPlacementGroup.Unknown", "The Placement Group '%s' is unknown.", name)
}

func (r *region) placementGroup(name string) *PlacementGroupScenario {
	i := slices.IndexFunc(r.placementGroups, func(g PlacementGroupScenario) bool { return g.Name == name })
	if i < 0 {
		return nil
	}
	return &r.placementGroups[i]
}

// checkNames refuses a launch with a key pair or a placement group that is not there.
func (r *region) checkNames(o launchOrder) error {
	if o.KeyName != "" && !slices.ContainsFunc(r.keyPairs, func(k KeyPairScenario) bool { return k.Name == o.KeyName }) {
		return keyPairNotFound(o.KeyName)
	}
	if p := o.Placement; p != nil && p.GroupName != "" && r.placementGroup(p.GroupName) == nil {
		return placementGroupUnknown(p.GroupName)
	}
	return nil
}

func (s *Sim) keyPairObjects(c *call) (all []object) {
	for _, k := range c.region.keyPairs {
		all = append(all, object{"KeyPairId": k.ID, "KeyType": "ed25519", "KeyName": k.Name})
	}
	return all
}

func (s *Sim) placementGroupObjects(c *call) (all []object) {
	for _, g := range c.region.placementGroups {
		all = append(all, object{"GroupId": g.ID, "GroupName": g.Name, "GroupArn": s.placementGroupARN(c.Region, g.Name), "State": "available", "Strategy": g.Strategy})
	}
	return all
}

func (s *Sim) placementGroupARN(region, name string) string {
	return s.arn("ec2", region, "placement-group/"+name)
}

// groupOfARN is the name in the ARN of a placement group; "" for "".
func groupOfARN(arn string) string {
	_, name, _ := strings.Cut(arn, ":placement-group/")
	return name
}
