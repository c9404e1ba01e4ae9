package setup_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// TestLifecycleActions: what nodes run at their boot is copied as PCS says it, though the SDK has no field for it:
// without, GPU nodes boot without /home. The next block gets those of the slot changed last; a slot keeps its own.
func TestLifecycleActions(t *testing.T) {
	w := newAccount(t, nil)
	actions := func(script, argument string) string {
		return `{"scriptCachingPolicy":"REFRESH_ON_REBOOT","stages":{"nodeBootstrapped":[{"name":"` + script +
			`","executionPolicy":"EVERY_BOOT","onError":"CONTINUE",` +
			`"arguments":["` + argument +
			`","a&b"],"scriptSource":{"scriptLocation":"s3://bucket/mount.sh","s3VersionId":"v1"}}]}}`
	}
	change := func(group, actions string) {
		w.sim.Clock().Advance(time.Minute)
		w.post(
			"UpdateComputeNodeGroup",
			`{"clusterIdentifier":"ml","computeNodeGroupIdentifier":"`+group+`","nodeLifecycleActions":`+actions+`}`,
		)
	}
	has := func(when, group, actions string) {
		t.Helper()

		var want pcs.LifecycleActions
		if err := json.Unmarshal([]byte(actions), &want); err != nil {
			t.Fatal(err)
		}

		if g := w.group(group); !maps.EqualFunc(g.Actions, want, reflect.DeepEqual) {
			t.Errorf("%s, %s has %s", when, group, g.Actions)
		}
	}
	said := func(p *setup.Plan) string {
		for _, s := range p.Steps() {
			for _, d := range s.Details {
				if d.Key == "lifecycle actions" {
					return string(s.Verb) + ": " + d.Value
				}
			}
		}

		return ""
	}

	change("compute", actions("home", "fs-1"))
	w.written()

	p := w.run(w.request(openBlock))
	if says := said(p); says != "create: nodeBootstrapped: home" || len(p.Texts(capacity.Note)) > 0 {
		t.Errorf("the plan says %q, %v", says, p.Texts(capacity.Note))
	}

	has("with --like", "gpu-a", actions("home", "fs-1"))

	if wrote := w.written(); slices.Contains(wrote, "UpdateComputeNodeGroup") {
		t.Errorf("made without, and updated then: %v", wrote)
	}

	next := w.request(laterBlock)
	next.Like = ""

	change("gpu-a", actions("home", "fs-2"))
	w.run(next)
	has("as the other slot", "gpu-b", actions("home", "fs-2"))
	change("gpu-a", actions("home", "fs-3"))

	if p := w.plan(next); !p.Done() {
		t.Errorf("not asked for: %s", fmt.Sprint(p.Steps()))
	}

	next.Like = "gpu-a"
	if p := w.plan(next); said(p) != "update: nodeBootstrapped: home → nodeBootstrapped: home (changed)" {
		t.Errorf("the plan says %q, %v", said(p), p.Mismatches())
	}

	w.run(next)
	has("after a change of the other slot", "gpu-b", actions("home", "fs-3"))

	if p := w.plan(next); !p.Done() {
		t.Errorf("again: %s", fmt.Sprint(p.Steps()))
	}

	if _, err := w.sim.LaunchForNodeGroup("ml", "gpu-a", "gpu-a-1"); err != nil {
		t.Fatal(err)
	}

	own := w.request(openBlock)
	own.Like = "gpu-b"

	change("gpu-b", actions("runtime", "fs-3"))

	if p := w.plan(own); !slices.Equal(codes(p), []string{"in-use"}) ||
		!strings.HasSuffix(p.Mismatches()[0].Sentence, ": lifecycle actions") {
		t.Errorf("under jobs: %v", p.Mismatches())
	}
}

// TestGroupsWithoutATemplateOfTheirOwn: PCS keeps their launch template, and image, security groups and key pair stand
// on the group. EC2 is asked for no template without a name.
func TestGroupsWithoutATemplateOfTheirOwn(t *testing.T) {
	w := newAccount(t, func(s *awssim.Scenario) {
		s.Regions[0].Clusters[0].NodeGroups[0].Type = "p5.48xlarge"
		s.Regions[0].KeyPairs = append(s.Regions[0].KeyPairs, "ops")
	})
	managed := func(of string) {
		w.rewrite = func(operation string, answer []byte) []byte {
			if operation != "GetComputeNodeGroup" || !bytes.Contains(answer, []byte(`"name":"`+of+`"`)) {
				return answer
			}

			answer = regexp.MustCompile(`"customLaunchTemplate":\{[^}]*\},?`).ReplaceAll(answer, nil)

			return bytes.Replace(
				answer,
				[]byte(`"status":`),
				[]byte(
					`"launchTemplateMode":"MANAGED","securityGroupIds":["sg-0e2000000000000a1"],`+
						`"sshKeyName":"ops","amiId":"`+image+`","status":`,
				),
				1,
			)
		}
	}
	managed("compute")

	r := w.request(openBlock)
	r.MaxNodes = 0

	p := w.plan(r)
	if len(p.Mismatches()) > 0 ||
		!slices.Equal(
			p.Texts(capacity.Note),
			[]string{
				"node group compute has no launch template of its own; image, instance profile and security groups " +
					"are taken from the group",
			},
		) {
		t.Errorf("%v, %v", p.Texts(capacity.Note), p.Mismatches())
	}

	w.run(r)

	g := w.group("gpu-a")
	if has := w.template(g); g.Max != 16 || !slices.Equal(has.SecurityGroupIDs, []string{"sg-0e2000000000000a1"}) ||
		has.KeyName != "ops" ||
		has.ImageID != image {
		t.Errorf("%d nodes, %+v", g.Max, has)
	}

	if p := w.plan(r); !p.Done() {
		t.Errorf("again: %s, %v", actions(p), p.Mismatches())
	}

	managed("gpu-a") // a slot that somebody has handed over

	r.Like, r.MaxNodes = "", 4
	if p := w.plan(r); codes(p)[0] != "no-launch-template" ||
		!strings.Contains(p.Mismatches()[0].Sentence, "node group gpu-a has no launch template of its own") {
		t.Errorf("%v", p.Mismatches())
	}
}

const subnetA2 = "subnet-0e200000000000a02"

// A second setup of the same reservation leaves what is not said to it, with --like and without.
func TestSetupKeeps(t *testing.T) {
	for name, test := range map[string]struct {
		// said are flags of the first run.
		said func(r *setup.Request)
		// likes: --like brings its own, so that only a run without it keeps.
		likes bool
	}{
		"nothing": {said: func(*setup.Request) {}},
		"nodes, EFA and subnet": {said: func(r *setup.Request) {
			r.MaxNodes, r.EFA, r.SubnetIDs, r.AllowAccounts = 2, capacity.EFAOnly, []string{subnetA2}, []string{"nlp"}
			if r.Provider == capacity.ProviderEC2 {
				r.ConfServer = "head"
			}
		}},
		"a conf server alone": {said: func(r *setup.Request) { r.ConfServer = "head:6817" }},
		"--efa none and two subnets": {
			said: func(r *setup.Request) { r.SubnetIDs = []string{subnetA, subnetB}; r.EFA = capacity.NoEFA },
		},
		"all that --like has of its own": {likes: true, said: func(r *setup.Request) {
			r.AMI = "ami-0e200000000000d04"
		}},
	} {
		for _, provider := range []capacity.Provider{capacity.ProviderPCS, capacity.ProviderEC2} {
			t.Run(fmt.Sprint(name, " ", provider), func(t *testing.T) {
				w := newAccount(t, func(s *awssim.Scenario) {
					r := &s.Regions[0]
					r.Images = append(
						r.Images,
						awssim.ImageScenario{ID: "ami-0e200000000000d04", Name: "another, with cuda"},
					)
					r.Subnets = append(
						r.Subnets,
						awssim.SubnetScenario{
							ID:   subnetA2,
							VPC:  r.Subnets[0].VPC,
							Zone: r.Subnets[0].Zone,
							CIDR: "10.2.64.0/20",
						},
					)
				})

				first := setup.Request{
					Provider:    provider,
					Cluster:     "ml",
					Queue:       "gpu",
					NodeGroup:   "gpu",
					Reservation: openBlock,
					Like:        "compute",
					ConfigPath:  w.configPath(),
				}
				if provider == capacity.ProviderEC2 {
					first.Cluster, first.Mark, first.Like, first.SubnetIDs = "", mark, "ec2-nodes", []string{subnetA}
				}

				bare := first
				test.said(&first)

				if provider == capacity.ProviderPCS && first.ConfServer != "" {
					t.Skip("PCS has none")
				}

				w.run(first)
				w.written()

				likes := []string{"", bare.Like}
				if test.likes {
					likes = likes[:1]
				}

				for _, bare.Like = range likes {
					bare.SubnetIDs = nil
					p := w.plan(bare)
					if !p.Done() ||
						len(p.Mismatches())+len(p.Texts(capacity.Note)) > 0 && !strings.Contains(name, "--efa none") &&
							!slices.Contains(first.SubnetIDs, subnetB) {
						t.Errorf(
							"--like %q: %s %v %v\n%+v",
							bare.Like,
							actions(p),
							p.Mismatches(),
							p.Texts(capacity.Note),
							p.Steps(),
						)
					}
				}
			})
		}
	}
}

// Of a run that was cut off after the tag, the size of the block before stays no longer than that block.
func TestSetupKeepsNoneOfTheBlockBefore(t *testing.T) {
	w := newAccount(t, nil)
	first := w.request(openBlock)
	first.MaxNodes = 2
	w.run(first)
	w.run(w.request(laterBlock))
	next := w.request(w.buyNextWeek())
	next.MaxNodes = 0

	w.sim.Clock().Advance(6 * 24 * time.Hour)
	w.fault(
		awssim.Fault{
			Effect:    awssim.FailBefore,
			Operation: "UpdateComputeNodeGroup",
			Count:     1,
			Code:      "AccessDeniedException",
		},
	)

	if err := w.setup.Apply(t.Context(), w.plan(next)); err == nil {
		t.Fatal("it was not cut off")
	}

	w.sim.ClearFaults()
	w.run(next)

	if g := w.group("gpu-a"); g.Max != 4 {
		t.Errorf("%d nodes", g.Max)
	}
}
