package site

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
)

// right is a node group with which nothing is wrong.
func right() Launch {
	return Launch{
		Provider: capacity.ProviderPCS, Group: "gpu-a", Source: "ml-compute",
		Template: capacity.LaunchTemplate{Name: "pcs-capacity-ml-gpu-a", ImageID: "ami-1", InstanceType: "p5.48xlarge", InstanceTagKeys: []string{"CostCenter", "a-b_c+d=e,f.g@h:i", "pcs-capacity:cluster"}},
		Image:    ec2.Image{Architecture: "x86_64"},
		Type:     ec2.InstanceType{Name: "p5.48xlarge", Architectures: []string{"x86_64"}},
	}
}

func TestJudge(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*Launch)
		want   string // the codes
	}{
		"all is right":                    {func(*Launch) {}, "[]"},
		"nothing could be read":           {func(s *Launch) { *s = Launch{Provider: s.Provider} }, "[]"},
		"metadata shows keys that it may": {func(s *Launch) { s.Template.MetadataTags = true }, "[]"},
		"a key with a space, in secret":   {func(s *Launch) { s.Template.InstanceTagKeys = []string{"Cost Center"} }, "[]"},
		"a key with a space":              {func(s *Launch) { s.Template.MetadataTags, s.Template.InstanceTagKeys = true, []string{"Cost Center"} }, "[tag-key]"},
		"a key with a slash":              {func(s *Launch) { s.Template.MetadataTags, s.Template.InstanceTagKeys = true, []string{"a/b"} }, "[tag-key]"},
		"a reserved key":                  {func(s *Launch) { s.Template.MetadataTags, s.Template.InstanceTagKeys = true, []string{"_index"} }, "[tag-key]"},
		"a key, by the account's default": {func(s *Launch) { s.MetadataTags, s.Template.InstanceTagKeys = true, []string{"a b"} }, "[tag-key]"},
		"the template against the account": {func(s *Launch) {
			s.MetadataTags, s.Template.NoMetadataTags, s.Template.InstanceTagKeys = true, true, []string{"a b"}
		}, "[]"},
		"an image of another architecture": {func(s *Launch) { s.Image.Architecture = "arm64" }, "[architecture]"},
	} {
		t.Run(name, func(t *testing.T) {
			s := right()
			c.change(&s)
			codes := []capacity.Code{}
			for _, p := range Judge(s) {
				codes = append(codes, p.Code)
				if p.Fix == "" {
					t.Errorf("%s has no fix", p.Sentence)
				}
			}
			if got := fmt.Sprint(codes); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// The key is named, and who shows tags; on self-managed Slurm nodes learn their names there.
func TestTagKeyWords(t *testing.T) {
	s := right()
	s.Template.MetadataTags, s.Template.InstanceTagKeys = true, []string{"Cost Center", "ok", "team/a"}
	want := `launch template ml-compute tags instances with "Cost Center" and "team/a", and by the template their metadata shows tags: EC2 refuses every launch for such a key; ` +
		"rename the tag in the template with letters, digits and _.:=+-@, only, or set MetadataOptions.InstanceMetadataTags to disabled there"
	if diff := cmp.Diff(want, Judge(s)[0].Text()); diff != "" {
		t.Error(diff)
	}
	s.Provider, s.Template.MetadataTags, s.MetadataTags = capacity.ProviderEC2, false, true
	want = `launch template ml-compute tags instances with "Cost Center" and "team/a", and by the account's default their metadata shows tags: EC2 refuses every launch for such a key; ` +
		"rename the tag in the template with letters, digits and _.:=+-@, only"
	if diff := cmp.Diff(want, Judge(s)[0].Text()); diff != "" {
		t.Error(diff)
	}
}

func TestTried(t *testing.T) {
	const key = "'Cost Center' is not a valid tag key"
	for name, c := range map[string]struct {
		tried []ec2.Tried
		err   error
		want  string
	}{
		"nothing was asked": {nil, nil, ""},
		"all is well":       {[]ec2.Tried{{SubnetID: "a"}, {SubnetID: "b"}}, nil, "ok: EC2's dry run would launch a node of gpu into a or b; a dry run says nothing about room\n"},
		"before it opens": {[]ec2.Tried{{SubnetID: "a", Aside: true}}, nil,
			"ok: EC2's dry run would launch a node of gpu into a, tried without the reservation, which takes no launch now; a dry run says nothing about room\n"},
		"one subnet refuses": {[]ec2.Tried{{SubnetID: "a"}, {SubnetID: "b", Verdict: ec2.Refuses, Code: "InvalidSubnetID.NotFound", Says: "no b", Fix: "mend subnet_ids"}}, nil,
			"problem: EC2 would not launch a node of gpu into b: InvalidSubnetID.NotFound: no b; mend subnet_ids\n" +
				"ok: EC2's dry run would launch a node of gpu into a; a dry run says nothing about room\n"},
		"both refuse for one reason": {[]ec2.Tried{{SubnetID: "a", Verdict: ec2.Refuses, Code: "InvalidParameterValue", Says: key}, {SubnetID: "b", Verdict: ec2.Refuses, Code: "InvalidParameterValue", Says: key}}, nil,
			"problem: EC2 would not launch a node of gpu into a or b: InvalidParameterValue: 'Cost Center' is not a valid tag key; mend what EC2 names in the launch template or in the flags\n"},
		"no answer":   {[]ec2.Tried{{SubnetID: "a", Verdict: ec2.Silent, Says: "oops"}}, nil, "unasked: EC2 did not say whether it would launch a node of gpu: oops\n"},
		"no template": {nil, errors.New("no lt"), "unasked: EC2 did not say whether it would launch a node of gpu: no lt\n"},
		"not allowed": {[]ec2.Tried{{SubnetID: "a", Verdict: ec2.Denied, Says: "ec2:RunInstances"}}, nil,
			"unasked: whether EC2 would launch a node of gpu was not asked: ec2:RunInstances is not allowed here\n"},
	} {
		t.Run(name, func(t *testing.T) {
			a, got := Tried("gpu", c.tried, c.err), ""
			for _, p := range a.Refusals {
				got += p.String() + "\n"
			}
			if a.OK != "" {
				got += "ok: " + a.OK + "\n"
			}
			if a.Unasked != "" {
				got += "unasked: " + a.Unasked + "\n"
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}
