package capacity

import "testing"

func TestInterfacesDiffer(t *testing.T) {
	plain, second := Interface{0, 0, "interface"}, Interface{1, 1, "efa-only"}
	for name, c := range map[string]struct {
		template, instance []Interface
		want               string
	}{
		"none described":    {nil, []Interface{plain}, ""},
		"in another order":  {[]Interface{plain, second}, []Interface{second, plain}, ""},
		"without EFA":       {[]Interface{plain, second}, []Interface{plain}, "has 1 × interface, where the launch template describes 1 × interface and 1 × efa-only"},
		"on another card":   {[]Interface{plain, second}, []Interface{plain, {2, 1, "efa-only"}}, "has 1 × interface and 1 × efa-only on other network cards, where the launch template describes 1 × interface and 1 × efa-only"},
		"EC2 says nothing":  {[]Interface{plain}, nil, "has no network interface, where the launch template describes 1 × interface"},
		"more than it said": {nil, []Interface{plain, second}, "has 1 × interface and 1 × efa-only, where the launch template describes 1 × interface"},
	} {
		if got := InterfacesDiffer(c.template, c.instance); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
