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
	Names            []string `form:"KeyName"`
	IDs              []string `form:"KeyPairId"`
	Filters          []filter `form:"Filter"`
	IncludePublicKey bool
}

type wireKeyPair struct {
	ID   string `xml:"keyPairId"`
	Type string `xml:"keyType"`
	Name string `xml:"keyName"`
}

func (s *Sim) describeKeyPairs(c *call, in *describeKeyPairsInput) (any, error) {
	items, err := byID(c.region.keyPairs, in.IDs, func(k KeyPairScenario) string { return k.ID }, func(id string) error {
		return apiErrorf("InvalidKeyPair.NotFound", "The key pair ID '%s' does not exist", id)
	})
	if err == nil {
		items, err = byID(items, in.Names, func(k KeyPairScenario) string { return k.Name }, keyPairNotFound)
	}
	if err != nil {
		return nil, err
	}
	names := filterNames[KeyPairScenario]{values: map[string]func(KeyPairScenario) []string{
		"key-name":    one(func(k KeyPairScenario) string { return k.Name }),
		"key-pair-id": one(func(k KeyPairScenario) string { return k.ID }),
	}}
	if items, err = names.apply(in.Filters, items); err != nil {
		return nil, err
	}
	var out struct {
		Keys []wireKeyPair `xml:"keySet>item"`
	}
	for _, k := range items {
		out.Keys = append(out.Keys, wireKeyPair{k.ID, "ed25519", k.Name})
	}
	return out, nil
}

type describePlacementGroupsInput struct {
	Names   []string `form:"GroupName"`
	IDs     []string `form:"GroupId"`
	Filters []filter `form:"Filter"`
}

type wirePlacementGroup struct {
	ID       string `xml:"groupId"`
	Name     string `xml:"groupName"`
	ARN      string `xml:"groupArn"`
	State    string `xml:"state"`
	Strategy string `xml:"strategy"`
}

func (s *Sim) describePlacementGroups(c *call, in *describePlacementGroupsInput) (any, error) {
	items, err := byID(c.region.placementGroups, in.IDs, func(g PlacementGroupScenario) string { return g.ID }, placementGroupUnknown)
	if err == nil {
		items, err = byID(items, in.Names, func(g PlacementGroupScenario) string { return g.Name }, placementGroupUnknown)
	}
	if err != nil {
		return nil, err
	}
	names := filterNames[PlacementGroupScenario]{values: map[string]func(PlacementGroupScenario) []string{
		"group-name": one(func(g PlacementGroupScenario) string { return g.Name }),
		"strategy":   one(func(g PlacementGroupScenario) string { return g.Strategy }),
		"state":      one(func(PlacementGroupScenario) string { return "available" }),
	}}
	if items, err = names.apply(in.Filters, items); err != nil {
		return nil, err
	}
	var out struct {
		Groups []wirePlacementGroup `xml:"placementGroupSet>item"`
	}
	for _, g := range items {
		out.Groups = append(out.Groups, wirePlacementGroup{g.ID, g.Name, s.placementGroupARN(c.Region, g.Name), "available", g.Strategy})
	}
	return out, nil
}

func (s *Sim) placementGroupARN(region, name string) string {
	return s.arn("ec2", region, "placement-group/"+name)
}

// groupOfARN is the name in the ARN of a placement group; "" for "".
func groupOfARN(arn string) string {
	_, name, _ := strings.Cut(arn, ":placement-group/")
	return name
}
