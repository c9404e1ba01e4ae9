package capacity

import (
	"fmt"
	"slices"
	"strings"
)

// Interface is a network interface of an instance, or of a launch template.
type Interface struct {
	Card   int `json:"card"`
	Device int `json:"device"`
	// Type is EC2's InterfaceType: interface, efa, efa-only.
	Type string `json:"type"`
}

// InterfacesDiffer says how an instance's interfaces differ from its launch template's; "" if they do not. A template
// without interfaces stands for one plain interface.
func InterfacesDiffer(template, instance []Interface) string {
	if len(template) == 0 {
		template = []Interface{{Type: plainInterface}}
	}
	same := func(a, b Interface) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) }
	if slices.Equal(slices.SortedFunc(slices.Values(template), same), slices.SortedFunc(slices.Values(instance), same)) {
		return ""
	}
	asked, has := interfacesWord(template), interfacesWord(instance)
	if asked == has {
		has += " on other network cards"
	}
	return fmt.Sprintf("has %s, where the launch template describes %s", has, asked)
}

const plainInterface = "interface"

// interfacesWord counts interfaces by type: "1 × interface and 16 × efa-only".
func interfacesWord(all []Interface) string {
	counts := map[string]int{}
	var types []string
	for _, one := range all {
		if counts[one.Type] == 0 {
			types = append(types, one.Type)
		}
		counts[one.Type]++
	}
	if len(types) == 0 {
		return "no network interface"
	}
	slices.SortFunc(types, func(a, b string) int { return strings.Compare(b, a) })
	var words []string
	for _, t := range types {
		words = append(words, fmt.Sprintf("%d × %s", counts[t], t))
	}
	return strings.Join(words, " and ")
}
