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

type describeKeyPairsInput struct {
	KeyNames         []string
	KeyPairIds       []string
	Filters          []filter
	IncludePublicKey bool
}

func (s *Sim) describeKeyPairs(c *call, in *describeKeyPairsInput) (any, error) {
	items, err := byID(c.region.keyPairs, in.KeyPairIds, func(k KeyPairScenario) string { return k.ID }, func(id string) error {
		return apiErrorf("InvalidKeyPair.NotFound", "The key pair ID '%s' does not exist", id)
	})
	if err == nil {
		items, err = byID(items, in.KeyNames, func(k KeyPairScenario) string { return k.Name }, keyPairNotFound)
	}
	if err != nil {
		return nil, err
	}
	var all []object
	for _, k := range items {
		all = append(all, object{"KeyPairId": k.ID, "KeyType": "ed25519", "KeyName": k.Name})
	}
	all, _, err = list(c, listing{Filters: in.Filters}, 1, len(all), true, "key-name key-pair-id", all)
	return object{"KeyPairs": all}, err
}

type describePlacementGroupsInput struct {
	GroupNames []string
	GroupIds   []string
	Filters    []filter
}

func (s *Sim) describePlacementGroups(c *call, in *describePlacementGroupsInput) (any, error) {
	items, err := byID(c.region.placementGroups, in.GroupIds, func(g PlacementGroupScenario) string { return g.ID }, placementGroupUnknown)
	if err == nil {
		items, err = byID(items, in.GroupNames, func(g PlacementGroupScenario) string { return g.Name }, placementGroupUnknown)
	}
	if err != nil {
		return nil, err
	}
	var all []object
	for _, g := range items {
		all = append(all, object{"GroupId": g.ID, "GroupName": g.Name, "GroupArn": s.placementGroupARN(c.Region, g.Name), "State": "available", "Strategy": g.Strategy})
	}
	all, _, err = list(c, listing{Filters: in.Filters}, 1, len(all), true, "group-name strategy state", all)
	return object{"PlacementGroups": all}, err
}

func (s *Sim) placementGroupARN(region, name string) string {
	return s.arn("ec2", region, "placement-group/"+name)
}

// groupOfARN is the name in the ARN of a placement group; "" for "".
func groupOfARN(arn string) string {
	_, name, _ := strings.Cut(arn, ":placement-group/")
	return name
}
