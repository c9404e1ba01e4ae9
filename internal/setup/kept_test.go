package setup_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
)

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
		"a conf server alone":        {said: func(r *setup.Request) { r.ConfServer = "head:6817" }},
		"--efa none and two subnets": {said: func(r *setup.Request) { r.SubnetIDs = []string{subnetA, subnetB}; r.EFA = capacity.NoEFA }},
		"all that --like has of its own": {likes: true, said: func(r *setup.Request) {
			r.AMI = "ami-0e200000000000d04"
		}},
	} {
		for _, provider := range []capacity.Provider{capacity.ProviderPCS, capacity.ProviderEC2} {
			t.Run(fmt.Sprint(name, " ", provider), func(t *testing.T) {
				w := newAccount(t, func(s *awssim.Scenario) {
					r := &s.Regions[0]
					r.Images = append(r.Images, awssim.ImageScenario{ID: "ami-0e200000000000d04", Name: "another, with cuda"})
					r.Subnets = append(r.Subnets, awssim.SubnetScenario{ID: subnetA2, VPC: r.Subnets[0].VPC, Zone: r.Subnets[0].Zone, CIDR: "10.2.64.0/20"})
				})
				first := setup.Request{Provider: provider, Cluster: "ml", Queue: "gpu", NodeGroup: "gpu", Reservation: openBlock, Like: "compute", ConfigPath: w.configPath()}
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
					if !p.Done() || len(p.Mismatches)+len(p.Warnings) > 0 && !strings.Contains(name, "--efa none") && !slices.Contains(first.SubnetIDs, subnetB) {
						t.Errorf("--like %q: %s %v %v\n%+v", bare.Like, actions(p), p.Mismatches, p.Warnings, p.Steps())
					}
				}
			})
		}
	}
}

// What the site has set in the file that setup has written stays, with the next block too.
func TestSetupKeepsEdits(t *testing.T) {
	for _, test := range []struct {
		provider      capacity.Provider
		top, ofGroup  string
		template      string
		wantsTemplate string
	}{
		{provider: capacity.ProviderPCS, top: "roll_over = true\nmin_time = \"2h\"\n"},
		{provider: capacity.ProviderEC2, top: "min_time = \"2h\"\n", ofGroup: "slots = 2\n", template: templateName + ":1", wantsTemplate: templateName + ":1"},
	} {
		w := newAccount(t, nil)
		first, next := w.request(openBlock), w.request(laterBlock)
		if test.provider == capacity.ProviderEC2 {
			first, next = w.requestOnEC2(openBlock), w.requestOnEC2(laterBlock)
		}
		w.run(first)
		file := filepath.Join(w.dir, "etc", "conf.d", "gpu.toml")
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		edited := regexp.MustCompile(`(?m)^ *(min_time|roll_over) = .*\n`).ReplaceAllString(string(text), "")
		edited = strings.Replace(edited, "[[partition]]\n", "[[partition]]\n"+test.top, 1)
		edited = strings.Replace(edited, "[[partition.node_group]]\n", "[[partition.node_group]]\n"+test.ofGroup, 1)
		edited = strings.Replace(edited, templateName+":$Latest", test.template, 1)
		if err := os.WriteFile(file, []byte(edited), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, r := range []setup.Request{first, next} {
			w.run(r)
			p, _ := w.config().Partition("gpu")
			g := p.Groups[0]
			if p.RollOver != (test.provider == capacity.ProviderPCS) || p.MinTime.Duration != 2*time.Hour || g.LaunchTemplate != test.wantsTemplate || (g.Slots == 2) != (test.ofGroup != "") {
				t.Errorf("%s with %s: %+v", test.provider, r.Reservation, p)
			}
		}
	}
}

// Of a run that was cut off after the tag, the size of the block before stays no longer than
// that block.
func TestSetupKeepsNoneOfTheBlockBefore(t *testing.T) {
	w := newAccount(t, nil)
	first := w.request(openBlock)
	first.MaxNodes = 2
	w.run(first)
	w.run(w.request(laterBlock))
	next := w.request(w.buyNextWeek())
	next.MaxNodes = 0
	w.sim.Clock().Advance(6 * 24 * time.Hour)
	w.fault(awssim.Fault{Effect: awssim.FailBefore, Operation: "UpdateComputeNodeGroup", Count: 1, Code: "AccessDeniedException"})
	if err := w.setup.Apply(t.Context(), w.plan(next)); err == nil {
		t.Fatal("it was not cut off")
	}
	w.sim.ClearFaults()
	w.run(next)
	if g := w.group("gpu-a"); g.Max != 4 {
		t.Errorf("%d nodes", g.Max)
	}
}
