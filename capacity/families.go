package capacity

import "strings"

// families are the instance families that EC2 sells as Capacity Blocks, with what AWS documents of them and no API
// tells everybody. EC2 User Guide, "Capacity Blocks"; for pcs: AWS PCS User Guide, "Capacity Blocks".
var families = []struct {
	name         string
	ultraServers bool // the family exists in UltraServers only
	pcs          bool // PCS documents Capacity Blocks of the family
}{
	{name: "p6-b300", pcs: true},
	{name: "p6-b200", pcs: true},
	{name: "p5en", pcs: true},
	{name: "p5e", pcs: true},
	{name: "p5", pcs: true},
	{name: "p4d", pcs: true},
	{name: "p4de"},
	{name: "trn1"},
	{name: "trn2"},
	{name: "trn2u", ultraServers: true},
	{name: "p6e-gb200", ultraServers: true},
	{name: "p6e-gb300", ultraServers: true},
}

// OnlyInUltraServers reports whether an instance type exists in UltraServers only. known is false for a family that
// is new: EC2 has to say what a block of it is.
func OnlyInUltraServers(instanceType string) (only, known bool) {
	name, _, _ := strings.Cut(instanceType, ".")
	for _, f := range families {
		if f.name == name {
			return f.ultraServers, true
		}
	}
	return false, false
}

// FamiliesOfPCS are the families that PCS documents for Capacity Blocks. Others have been seen to work.
func FamiliesOfPCS() []string {
	var names []string
	for _, f := range families {
		if f.pcs {
			names = append(names, f.name)
		}
	}
	return names
}
