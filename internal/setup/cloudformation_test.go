package setup_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
)

// inSpec are the properties that CloudFormation's resource specification has, of those that
// a plan may say.
var inSpec = map[string]string{
	"AWS::EC2::LaunchTemplate":                    "LaunchTemplateData LaunchTemplateName TagSpecifications VersionDescription",
	"AWS::EC2::LaunchTemplate LaunchTemplateData": "BlockDeviceMappings CapacityReservationSpecification IamInstanceProfile ImageId InstanceMarketOptions InstanceType KeyName MetadataOptions NetworkInterfaces Placement SecurityGroupIds TagSpecifications UserData",
	"AWS::PCS::ComputeNodeGroup":                  "AmiId ClusterId CustomLaunchTemplate IamInstanceProfileArn InstanceConfigs Name NodeLifecycleActions PurchaseOption ScalingConfiguration SlurmConfiguration SubnetIds Tags",
}

// wireNames are those of EC2's query protocol, where they differ from CloudFormation's.
var wireNames = map[string]string{"NetworkInterfaces": "NetworkInterface", "Groups": "SecurityGroupId", "SecurityGroupIds": "SecurityGroupId",
	"BlockDeviceMappings": "BlockDeviceMapping", "TagSpecifications": "TagSpecification", "Tags": "Tag"}

// flat writes a tree of properties as the fields of EC2's query protocol.
func flat(tree any, prefix string, fields map[string]string) {
	switch v := tree.(type) {
	case map[string]any:
		for key, value := range v {
			if name, differs := wireNames[key]; differs {
				key = name
			}
			flat(value, strings.TrimPrefix(prefix+"."+key, "."), fields)
		}
	case []any:
		for i, value := range v {
			flat(value, fmt.Sprintf("%s.%d", prefix, i+1), fields)
		}
	default:
		fields[prefix] = fmt.Sprint(v)
	}
}

// emitted is the plan's template, as it is printed and parsed again.
func (w *account) emitted(r setup.Request) map[string]map[string]any {
	w.Helper()
	w.written()
	stack, err := w.setup.CloudFormation(w.Context(), w.plan(r))
	if err != nil {
		w.Fatal(err)
	}
	if sent := w.written(); len(sent) > 0 || w.config() != nil {
		w.Errorf("printing a template changed something: %v, settings %v", sent, w.config())
	}
	if text, _ := stack["Description"].(string); !strings.Contains(text, " for queue gpu;") {
		w.Errorf("description %q", text)
	}
	text, err := json.Marshal(stack)
	if err == nil {
		text, err = yaml.JSONToYAML(text) // as the command prints it
	}
	if err != nil {
		w.Fatal(err)
	}
	var parsed struct {
		AWSTemplateFormatVersion string
		Resources                map[string]struct {
			Type       string
			Properties map[string]any
		}
	}
	text, err = yaml.YAMLToJSON(text)
	if err == nil {
		err = json.Unmarshal(text, &parsed)
	}
	if err != nil || parsed.AWSTemplateFormatVersion != "2010-09-09" {
		w.Fatalf("%v: %s", err, text)
	}
	found := map[string]map[string]any{}
	for _, r := range parsed.Resources {
		found[r.Type] = r.Properties
	}
	return found
}

// created compares a template of CloudFormation with what setup sends for the same plan.
func (w *account) created(resources map[string]map[string]any) {
	w.Helper()
	for kind, properties := range resources {
		for _, at := range []string{kind, kind + " LaunchTemplateData"} {
			inner := properties
			if at != kind {
				inner, _ = properties["LaunchTemplateData"].(map[string]any)
			}
			for name := range inner {
				if !slices.Contains(strings.Fields(inSpec[at]), name) {
					w.Errorf("%s has no property %s", at, name)
				}
			}
		}
	}
	sent, err := url.ParseQuery(w.bodies["CreateLaunchTemplate"])
	if err != nil {
		w.Fatal(err)
	}
	want := map[string]string{}
	for key := range sent {
		if key != "Action" && key != "Version" && key != "ClientToken" {
			want[key] = sent.Get(key)
		}
	}
	got := map[string]string{}
	flat(resources["AWS::EC2::LaunchTemplate"], "", got)
	if diff := cmp.Diff(want, got); diff != "" || len(got) < 8 {
		w.Errorf("launch template (-sent +template):\n%s", diff)
	}
	for operation, r := range map[string]struct {
		kind  string
		names map[string]string
	}{
		"CreateComputeNodeGroup": {"AWS::PCS::ComputeNodeGroup", map[string]string{"clusterIdentifier": "ClusterId", "computeNodeGroupName": "Name"}},
	} {
		var sent map[string]any
		if body, was := w.bodies[operation]; was {
			if err := json.Unmarshal([]byte(body), &sent); err != nil {
				w.Fatal(err)
			}
		}
		delete(sent, "clientToken")
		// What one resource is to another is a reference in the template, and an id in the call.
		if template, ok := sent["customLaunchTemplate"].(map[string]any); ok && template["version"] == "1" {
			sent["customLaunchTemplate"] = map[string]any{"templateId": map[string]any{"Ref": "LaunchTemplate"},
				"version": map[string]any{"Fn::GetAtt": []any{"LaunchTemplate", "LatestVersionNumber"}}}
		}
		want := capitals(sent, r.names)
		if diff := cmp.Diff(want, any(resources[r.kind])); diff != "" && (sent != nil || resources[r.kind] != nil) {
			w.Errorf("%s (-sent +template):\n%s", operation, diff)
		}
	}
}

// capitals begins names with capital letters, but for keys of tags.
func capitals(tree any, names map[string]string) any {
	switch v := tree.(type) {
	case map[string]any:
		out := map[string]any{}
		for key, value := range v {
			name, renamed := names[key]
			switch {
			case key == "tags" || key == "Ref" || strings.HasPrefix(key, "Fn:"):
				out[strings.ToUpper(key[:1])+key[1:]] = value
				continue
			case !renamed:
				name = strings.ToUpper(key[:1]) + key[1:]
			}
			out[name] = capitals(value, names)
		}
		return out
	case []any:
		out := []any{}
		for _, value := range v {
			out = append(out, capitals(value, names))
		}
		return out
	}
	return tree
}

// The template of CloudFormation and setup make the same, each property of it, but for the
// queue, which nothing makes before its fence stands.
func TestCloudFormationIsWhatSetupCreates(t *testing.T) {
	for name, change := range map[string]func(*setup.Request){
		"a block":      func(*setup.Request) {},
		"dynamic":      func(r *setup.Request) { r.Dynamic, r.MaxNodes = true, 7 },
		"an ODCR":      func(r *setup.Request) { r.Reservation = gpuODCR },
		"every option": everyOption,
		"a script":     func(r *setup.Request) { r.InstallFrom = scriptAt },
		"without EFA":  func(r *setup.Request) { r.EFA = capacity.NoEFA },
		"self-managed": func(r *setup.Request) {
			*r = setup.Request{Provider: capacity.ProviderEC2, Mark: "lab/1", Queue: "gpu", NodeGroup: "gpu", Reservation: openBlock, AMI: image,
				SecurityGroups: []string{"sg-0e2000000000000a1"}, SubnetIDs: []string{subnetA}, ConfigPath: r.ConfigPath}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newAccount(t, nil)
			r := w.request(openBlock)
			change(&r)
			template := w.emitted(r)
			kinds := slices.Sorted(maps.Keys(template))
			want := []string{"AWS::EC2::LaunchTemplate", "AWS::PCS::ComputeNodeGroup"}
			if name == "self-managed" {
				want = want[:1]
			}
			if !slices.Equal(kinds, want) {
				t.Errorf("resources %v", kinds)
			}
			w.run(r)
			w.created(template)
		})
	}
}

func everyOption(r *setup.Request) {
	r.SecurityGroups, r.UserData = []string{"sg-0e2000000000000a1"}, []byte("#!/bin/sh\nmount /shared\n")
	r.RootVolume = capacity.RootVolume{GiB: 200, Type: "gp3"}
	r.AllowAccounts, r.EFA = []string{"nlp", "vision"}, capacity.EFAOnly
	r.InstanceProfile = "arn:aws:iam::111122223333:instance-profile/AWSPCS-nodes"
}

// What is there is said, since CloudFormation does not take it over by itself. What is in the
// way leaves nothing to print.
func TestCloudFormationOfWhatIsThere(t *testing.T) {
	w := newAccount(t, nil)
	r := w.request(openBlock)
	w.run(r)
	if there := w.plan(r).There(); len(there) != 2 || there[0].What != setup.WhatTemplate || there[1].What != setup.WhatNodeGroup {
		t.Errorf("there: %+v", there)
	}
	r.Like, r.AMI, r.Reservation = "", "ami-0000000000000beef", laterBlock
	if p := w.plan(r); len(p.Mismatches) == 0 {
		t.Fatal("an image that is not there is taken")
	} else if _, err := w.setup.CloudFormation(t.Context(), p); err == nil {
		t.Error("a plan with mismatches has a template")
	}
}
