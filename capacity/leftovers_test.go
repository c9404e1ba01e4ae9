package capacity

import (
	"slices"
	"strings"
	"testing"
)

// What setup made and no settings name any more is named, with what removes it.
func TestLeftovers(t *testing.T) {
	group := func(slot, queue string) Made {
		return Made{What: MadeNodeGroup, Name: slot, ID: "pcs_" + slot, Slot: slot, Queue: queue, Reservation: "cr-1"}
	}
	template := func(slot, queue string) Made {
		return Made{What: MadeTemplate, Name: "pcs-capacity-ml-" + slot, ID: "lt-" + slot, Slot: slot, Queue: queue}
	}
	queue := func(name string) Made { return Made{What: MadeQueue, Name: name, ID: "pcs_" + name, Queue: name} }
	settings := func(provider Provider, queue string, groups ...GroupSettings) Settings {
		return Settings{Partitions: []PartitionSettings{{Name: queue, Provider: provider, Groups: groups}}}
	}
	gpu := settings(ProviderPCS, "gpu", GroupSettings{Name: "gpu"})
	self := settings(ProviderEC2, "gpu", GroupSettings{Name: "gpu", LaunchTemplate: "pcs-capacity-ml-gpu:$Latest"})
	for name, test := range map[string]struct {
		made     []Made
		settings Settings
		want     []string // of each command the things that it removes
	}{
		"all is named":                    {[]Made{group("gpu-a", "gpu"), group("gpu-b", "gpu"), template("gpu-a", "gpu"), queue("gpu")}, gpu, nil},
		"named in another partition":      {[]Made{group("gpu-a", "old")}, gpu, nil},
		"no settings at all":              {[]Made{group("gpu-a", "gpu"), template("gpu-a", "gpu"), queue("gpu")}, Settings{}, []string{"pcs-capacity teardown --queue gpu: gpu-a pcs-capacity-ml-gpu-a gpu"}},
		"an empty queue":                  {[]Made{group("gpu-a", "gpu"), queue("gpu"), queue("big")}, gpu, []string{"pcs-capacity teardown --queue big: big"}},
		"a partition is lost":             {[]Made{group("gpu-a", "gpu"), group("big-a", "big"), group("big-b", "big"), queue("big")}, gpu, []string{"pcs-capacity teardown --queue big: big-a big-b big"}},
		"a node group is lost":            {[]Made{group("gpu-a", "gpu"), group("big-b", "gpu"), template("big-a", "gpu"), queue("gpu")}, gpu, []string{"pcs-capacity teardown --queue gpu --node-group big: big-b pcs-capacity-ml-big-a"}},
		"a template alone":                {[]Made{template("big-a", "big")}, gpu, []string{"pcs-capacity teardown --queue big: pcs-capacity-ml-big-a"}},
		"its queue has one that is kept":  {[]Made{group("gpu-a", "old"), group("big-a", "old")}, gpu, []string{"pcs-capacity teardown --queue old --node-group big: big-a"}},
		"so has this queue":               {[]Made{group("gpu-a", "old"), queue("old")}, gpu, []string{"aws pcs delete-queue --cluster-identifier pcs_1 --queue-identifier pcs_old: old"}},
		"not the name of a slot":          {[]Made{group("gpu", "gpu")}, gpu, []string{"aws pcs delete-compute-node-group --cluster-identifier pcs_1 --compute-node-group-identifier pcs_gpu: gpu"}},
		"made for no queue":               {[]Made{group("big-a", ""), template("big-a", "")}, gpu, []string{"aws pcs delete-compute-node-group --cluster-identifier pcs_1 --compute-node-group-identifier pcs_big-a: big-a", "aws ec2 delete-launch-template --launch-template-id lt-big-a: pcs-capacity-ml-big-a"}},
		"ec2: named":                      {[]Made{template("gpu", "gpu")}, self, nil},
		"ec2: named by id":                {[]Made{template("gpu", "gpu")}, settings(ProviderEC2, "gpu", GroupSettings{Name: "gpu", LaunchTemplate: "lt-gpu"}), nil},
		"ec2: a partition is lost":        {[]Made{template("gpu", "gpu"), template("big", "big")}, self, []string{"pcs-capacity teardown --queue big: pcs-capacity-ml-big"}},
		"ec2: a node group is lost":       {[]Made{template("gpu", "gpu"), template("big", "gpu")}, self, []string{"pcs-capacity teardown --queue gpu --node-group big: pcs-capacity-ml-big"}},
		"ec2: launched from another":      {[]Made{template("gpu", "gpu")}, settings(ProviderEC2, "gpu", GroupSettings{Name: "gpu", LaunchTemplate: "lt-own"}), []string{"aws ec2 delete-launch-template --launch-template-id lt-gpu: pcs-capacity-ml-gpu"}},
		"ec2: its slots have such a name": {[]Made{template("gpu-a", "gpu")}, settings(ProviderEC2, "gpu", GroupSettings{Name: "gpu", Slots: 2, LaunchTemplate: "lt-own"}), []string{"aws ec2 delete-launch-template --launch-template-id lt-gpu-a: pcs-capacity-ml-gpu-a"}},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := "pcs_1"
			if strings.HasPrefix(name, "ec2") {
				cluster = ""
			}
			left := Leftovers(test.made, test.settings, cluster)
			var got []string
			for _, l := range left {
				at := slices.IndexFunc(got, func(line string) bool { return strings.HasPrefix(line, l.Remove+":") })
				if at < 0 {
					at, got = len(got), append(got, l.Remove+":")
				}
				got[at] += " " + l.Name
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(test.want, "\n"))
			}
			if told := OfLeftovers(left); len(told) != len(test.want) {
				t.Errorf("told %v", told)
			}
		})
	}
	told := OfLeftovers(Leftovers([]Made{group("big-a", "big"), queue("big")}, gpu, "pcs_1"))
	if want := "compute node group big-a (cr-1) and queue big carry the tag of pcs-capacity, and the settings do not name them, so sync does not manage them; " +
		"add them to the settings again, or remove them with `pcs-capacity teardown --queue big`"; len(told) != 1 || told[0].Text() != want {
		t.Errorf("told %v, want %s", told, want)
	}
}
