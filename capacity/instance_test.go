package capacity

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The hostlist of a launch is expanded once, and the tags of the instances that were given stay as they are.
func TestWithNodes(t *testing.T) {
	launch := map[string]string{TagNodes: "n[1-2]"}
	given := []Instance{{Tags: launch}, {Tags: launch, LaunchIndex: 1}, {Tags: launch, LaunchIndex: 2}, {Tags: map[string]string{TagNode: "own"}}, {}, {Tags: map[string]string{TagNodes: "bad["}}}
	asked := map[string]int{}
	expand := func(list string) ([]string, error) {
		asked[list]++
		if list != "n[1-2]" {
			return nil, errors.New("no hostlist")
		}
		return []string{"n1", "n2"}, nil
	}
	var got []string
	for _, i := range WithNodes(given, expand) {
		got = append(got, i.Tags[TagNode])
	}
	if strings.Join(got, ",") != "n1,n2,,own,," {
		t.Errorf("nodes %q", got)
	}
	if asked["n[1-2]"] != 1 || launch[TagNode] != "" {
		t.Errorf("asked %v, given %v", asked, launch)
	}
}

// What a node does. One that is on its way down, or back, is not powered down: its instance may be there still.
func TestNodeStates(t *testing.T) {
	for state, want := range map[string]struct {
		word              string
		up, off, busy     bool
		out               string
		givenUp, timedOut bool
	}{
		"IDLE":                                     {word: "idle", up: true},
		"MIXED+CLOUD":                              {word: "mixed", up: true, busy: true},
		"ALLOCATED":                                {word: "allocated", up: true, busy: true},
		"IDLE+COMPLETING":                          {word: "idle", up: true, busy: true},
		"IDLE+CLOUD+NOT_RESPONDING":                {word: "not-responding"},
		"IDLE+CLOUD+POWERED_DOWN":                  {word: "powered-down", off: true},
		"IDLE+CLOUD+POWERING_DOWN":                 {word: "powering-down"},
		"IDLE+CLOUD+POWERED_DOWN+POWERING_DOWN":    {word: "powering-down"},
		"IDLE+CLOUD+POWERED_DOWN+POWER_DOWN":       {word: "power-down"},
		"IDLE+CLOUD+POWERED_DOWN+POWER_UP":         {word: "power-up"},
		"ALLOCATED+CLOUD+POWERING_UP":              {word: "powering-up", busy: true},
		"IDLE+DRAIN":                               {word: "drain", out: "drained"},
		"IDLE+FAIL":                                {word: "idle", up: true, out: "failed"},
		"DOWN":                                     {word: "down", out: "down"},
		"DOWN+CLOUD+POWERED_DOWN":                  {word: "powered-down", off: true, givenUp: true, timedOut: true},
		"DOWN+CLOUD+POWERED_DOWN+POWERING_DOWN":    {word: "powering-down"},
		"MIXED+CLOUD+DRAIN+POWER_DOWN+POWERING_UP": {word: "power-down", busy: true}, // let go
		"POWERED_DOWN":                             {word: "powered-down"},           // no flag, and no state of Slurm
		"":                                         {},
	} {
		n := Node{State: state, Reason: "ResumeTimeout reached [slurm@now]"}
		if n.Word() != want.word || n.Up() != want.up || n.PoweredDown() != want.off || n.Busy() != want.busy || n.Out() != want.out ||
			n.GivenUp() != want.givenUp || n.TimedOut() != want.timedOut {
			t.Errorf("%s: %s, up %t, off %t, busy %t, out %q, given up %t, timed out %t", state, n.Word(), n.Up(), n.PoweredDown(), n.Busy(), n.Out(), n.GivenUp(), n.TimedOut())
		}
	}
	if n := (Node{State: "DOWN+CLOUD+POWERED_DOWN", Reason: "bad disk"}); n.TimedOut() || !n.GivenUp() {
		t.Error("a node that an administrator sent down counts as timed out")
	}
}

func TestGPUs(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "(null)": 0, "gpu:8": 8, "gpu:h100:8(S:0-1)": 8, "gpu:h100:4(S:0),gpu:a100:2(S:1),shard:16": 6, "shard:64": 0,
		"gpu:a100:1(IDX:0,2),craynetwork:4": 1, "gres:gpu:24": 24, "gres/gpu:24": 24, "gres/gpu=4": 4, "gres/gpu:h100=4,gres/shard=2": 4,
		"gpu": 1, "gpu:h100": 1, "gres:gpu:gpu:4": 4, "gres:none": 0, "gpu:0": 0, ",,gpu:2,": 2,
	} {
		if got := GPUs(text); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

func TestTopologyConf(t *testing.T) {
	for name, c := range map[string]struct {
		leaves []Leaf
		want   string
	}{
		"none": {},
		"one reservation": {[]Leaf{{"gpu-[1-4]", []string{"nn-1", "nn-2", "nn-3"}}},
			"SwitchName=nn-3 Nodes=gpu-[1-4]\nSwitchName=nn-1 Switches=nn-2\nSwitchName=nn-2 Switches=nn-3\n"},
		"two that meet in the middle": {[]Leaf{{"a-[1-2]", []string{"nn-1", "nn-2", "nn-3"}}, {"b-[1-2]", []string{"nn-1", "nn-2", "nn-4"}}},
			"SwitchName=nn-3 Nodes=a-[1-2]\nSwitchName=nn-4 Nodes=b-[1-2]\nSwitchName=nn-1 Switches=nn-2\nSwitchName=nn-2 Switches=nn-3,nn-4\n"},
		"two that meet nowhere, and one that is not known": {[]Leaf{{"a-1", []string{"nn-1", "nn-3"}}, {"b-1", []string{"nn-2", "nn-4"}}, {"c-1", nil}},
			"SwitchName=nn-3 Nodes=a-1\nSwitchName=nn-4 Nodes=b-1\nSwitchName=pcs-capacity-unknown Nodes=c-1\n" +
				"SwitchName=nn-1 Switches=nn-3\nSwitchName=nn-2 Switches=nn-4\nSwitchName=pcs-capacity-root Switches=nn-1,nn-2,pcs-capacity-unknown\n"},
		"one above another": {[]Leaf{{"a-1", []string{"nn-1", "nn-2"}}, {"b-1", []string{"nn-1", "nn-2", "nn-3"}}},
			"SwitchName=nn-2-nodes Nodes=a-1\nSwitchName=nn-3 Nodes=b-1\nSwitchName=nn-1 Switches=nn-2\nSwitchName=nn-2 Switches=nn-2-nodes,nn-3\n"},
		"two behind one switch": {[]Leaf{{"a-1", []string{"nn-1"}}, {"b-1", []string{"nn-1"}}}, "SwitchName=nn-1 Nodes=a-1,b-1\n"},
	} {
		if diff := cmp.Diff(c.want, TopologyConf(c.leaves)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestRankOrder(t *testing.T) {
	leaves := []Leaf{{"n1", nil}, {"n2", []string{"a", "c", "x"}}, {"n3", []string{"a", "b", "y"}}, {"n4", []string{"a", "c", "x"}}, {"n5", nil}, {"n6", []string{"a", "b", "w"}}, {"n7", []string{"a", "b"}}}
	RankOrder(leaves)
	var got []string
	for _, l := range leaves {
		got = append(got, l.Nodes)
	}
	if diff := cmp.Diff([]string{"n7", "n6", "n3", "n2", "n4", "n1", "n5"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAWSPartitionOf(t *testing.T) {
	for region, want := range map[string]string{"us-east-2": "aws", "cn-north-1": "aws-cn", "us-gov-east-1": "aws-us-gov", "us-iso-west-1": "aws-iso",
		"us-isob-east-1": "aws-iso-b", "eusc-de-east-1": "aws-eusc", "xx-new-1": "aws", "": "aws"} {
		if got := AWSPartitionOf(region); got.Name != want {
			t.Errorf("%s is in %s, want %s", region, got.Name, want)
		}
	}
}

// A hostlist that no tag can hold is in several, in order.
func TestHostlistInSeveralTags(t *testing.T) {
	for want, tags := range map[string]map[string]string{
		"":                               {"Name": "x"},
		"gpu-[1-2]":                      {TagNodes: "gpu-[1-2]"},
		"gpu-[1-2],gpu-9,other-[1-9,12]": {TagNodes: "gpu-[1-2]", TagNodes + "-2": "gpu-9", TagNodes + "-3": "other-[1-9,12]"},
	} {
		if got := LaunchedNodes(tags); got != want {
			t.Errorf("%v: %q, want %q", tags, got, want)
		}
	}
	want := map[string]string{TagNodes: "a", TagNodes + "-2": "b", TagNodes + "-3": "c"}
	if diff := cmp.Diff(want, NodesTags([]string{"a", "b", "c"})); diff != "" {
		t.Error(diff)
	}
}
