package capacity

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// A reservation for another platform than the image's is passed over, however it was chosen, and
// a job that names it is refused with all that is needed to mend it. What nobody knows blocks
// nothing.
func TestPlatformOfTheImage(t *testing.T) {
	const rhel, other = "Red Hat Enterprise Linux", "cr-0000000000000000e"
	at := func(id, platform string) Reservation {
		return Reservation{ID: id, Kind: ODCR, State: StateActive, InstanceType: "p5.48xlarge", AZID: "az1", Total: 2, Available: 2, Platform: platform,
			Start: noon.Add(-time.Hour), Tags: map[string]string{"team": "nlp"}}
	}
	seen := Seen{Reservations: []Reservation{at(other, rhel), at("cr-0000000000000000f", LinuxUNIX)}, Subnets: []Subnet{{"subnet-1", "az1", "a"}},
		Now: noon}
	linux := map[string]ImagePlatform{"lt-1": {"lt-1:7", LinuxUNIX}}
	for name, choose := range map[string]func(*GroupSettings){
		"ids":  func(g *GroupSettings) { g.ReservationIDs = []string{other, "cr-0000000000000000f"} },
		"tags": func(g *GroupSettings) { g.Select = &Select{Tags: map[string]string{"team": "nlp"}} },
	} {
		for _, option := range []Kind{OnDemand, ODCR} {
			group := GroupSettings{Name: "gpu", InstanceType: "p5.48xlarge", SubnetIDs: []string{"subnet-1"}, PurchaseOption: option, MaxNodes: 2, LaunchTemplate: "lt-1"}
			choose(&group)
			settings := Settings{Submit: Submit{Strict: true, StaleAfter: minutes(10)}, Partitions: []PartitionSettings{{Name: "gpu", Provider: ProviderEC2, Groups: []GroupSettings{group}}}}
			decide := func(platforms map[string]ImagePlatform, comment string) (into []string, atLaunch, atSubmission Verdict, snap *Snapshot) {
				in := seen
				in.Platforms = platforms
				snap = Build(settings, in)
				snap.TakenAt = noon
				req := Request{Partitions: []string{"gpu"}, Nodes: 1, Comment: comment, TimeLimit: Minutes(10)}
				p := snap.Partitions[0]
				admitted, v := AdmitLaunch(req, p, p.Groups[0], p.Groups[0].Slots[0], snap, noon)
				for _, r := range admitted {
					into = append(into, r.ID)
				}
				return into, v, Admit(req, snap, noon), snap
			}
			all := []string{other, "cr-0000000000000000f"}
			want := all[1:]
			if option == OnDemand {
				want, all = append(slices.Clone(want), ""), append(all, "")
			}
			into, v, submitted, snap := decide(linux, "")
			if !slices.Equal(into, want) || v.Refused || submitted.Refused {
				t.Errorf("%s, %s: into %q, %+v, %+v", name, option, into, v, submitted)
			}
			req := Request{Partitions: []string{"gpu"}, Nodes: 1}
			if passed := PassedOver(req, snap, noon); len(passed) != 1 || passed[0].Code != "platform" || !strings.Contains(passed[0].Sentence, other) {
				t.Errorf("%s, %s: passed over %v", name, option, passed)
			}
			if got := snap.PlatformOf("lt-1:7"); got != LinuxUNIX || snap.PlatformOf("lt-1:8") != "" {
				t.Errorf("the snapshot has %q", got)
			}
			_, v, submitted, _ = decide(linux, "capacity_reservation_id="+other)
			for _, v := range []Verdict{v, submitted} {
				for _, says := range []string{other, rhel, "the image of node group gpu is for " + LinuxUNIX, "use an image for " + rhel} {
					if !v.Refused || v.Code != Mismatched || !strings.Contains(v.Message, says) {
						t.Errorf("%s, %s: %+v does not say %q", name, option, v, says)
					}
				}
			}
			if into, v, submitted, snap := decide(nil, ""); !slices.Equal(into, all) || v.Refused || submitted.Refused || len(PassedOver(req, snap, noon)) > 0 {
				t.Errorf("%s, %s, not known: into %q, %+v, %+v", name, option, into, v, submitted)
			}
		}
	}
	if (*Snapshot)(nil).PlatformOf("") != "" {
		t.Error("no snapshot knows a platform")
	}
}
