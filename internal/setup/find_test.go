package setup

import (
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/pcs"
)

// Nobody has to name the node group to copy from where one is meant.
func TestLikeIsFound(t *testing.T) {
	group := func(name, instanceType string, tags map[string]string) pcs.NodeGroup {
		return pcs.NodeGroup{ID: "pcs_" + name, Name: name, Status: pcs.Active, InstanceTypes: []string{instanceType}, Tags: tags}
	}
	ours := map[string]string{capacity.TagCluster: ourMark}
	cpu, login := group("cpu", "c7i.4xlarge", nil), group("login", "c7i.large", nil)
	gone := group("old", "p5.48xlarge", nil)
	gone.Status = pcs.Deleting
	for name, c := range map[string]struct {
		groups []pcs.NodeGroup
		ask    func(*Request)
		like   string
		why    string
		fix    string
	}{
		"the only one":             {groups: []pcs.NodeGroup{cpu}, like: "cpu", why: "the only other node group"},
		"beside one that goes":     {groups: []pcs.NodeGroup{cpu, gone}, like: "cpu", why: "the only other node group"},
		"one of the family":        {groups: []pcs.NodeGroup{cpu, login, group("p5", "p5.48xlarge", nil)}, like: "p5", why: "the only one of its family"},
		"a pair of ours is one":    {groups: []pcs.NodeGroup{cpu, login, group("far-a", "p5.48xlarge", ours), group("far-b", "p5.48xlarge", ours)}, like: "far-a", why: "the only one of its family"},
		"p5en is another family":   {groups: []pcs.NodeGroup{login, cpu, group("p5en", "p5en.48xlarge", nil)}, like: "cpu", why: "the only one with a queue"},
		"login nodes have none":    {groups: []pcs.NodeGroup{login, cpu}, like: "cpu", why: "the only one with a queue"},
		"the other slot":           {groups: []pcs.NodeGroup{cpu, login, group("gpu-b", "p5.48xlarge", ours)}, like: "gpu-b"},
		"several":                  {groups: []pcs.NodeGroup{group("one", "p5.48xlarge", nil), group("two", "p5.4xlarge", nil)}, fix: "give --like with one of one, two"},
		"none":                     {},
		"one is named":             {groups: []pcs.NodeGroup{cpu, login}, ask: func(r *Request) { r.Like = "login" }, like: "login"},
		"names of others' slots":   {groups: []pcs.NodeGroup{cpu, group("gpu-a", "p5.48xlarge", nil)}, like: "cpu", why: "the only other node group"},
		"without a family to tell": {groups: []pcs.NodeGroup{group("one", "p4d.24xlarge", nil), group("two", "p4d.24xlarge", nil)}, fix: "give --like with one of one, two"},
	} {
		t.Run(name, func(t *testing.T) {
			r := askFor(now1)
			if r.Like = ""; c.ask != nil {
				c.ask(&r)
			}
			in := inspection{request: r, reservation: blockOf(now1, 0, 5)}
			in.inv = pcs.Inventory{Cluster: pcs.Cluster{Name: ourMark}, Groups: c.groups, Queues: []pcs.Queue{{Name: "cpu", GroupIDs: []string{"pcs_cpu"}}}}
			in.nameSlots()
			in.chooseLike()
			if in.like.Name != c.like || in.likeFound != c.why {
				t.Errorf("like %q, found as %q", in.like.Name, in.likeFound)
			}
			fix := ""
			for _, p := range in.problems {
				fix += p.Fix
			}
			if fix != c.fix {
				t.Errorf("fix %q", fix)
			}
		})
	}
	in := inspection{request: askFor(now1), unattended: true, inv: pcs.Inventory{Groups: []pcs.NodeGroup{cpu}}}
	in.request.Like = ""
	in.nameSlots()
	if in.chooseLike(); in.like.Name != "" {
		t.Errorf("a roll over copies from %s", in.like.Name)
	}
}

func TestClusterOfHost(t *testing.T) {
	clusters := []pcs.Cluster{{ID: "pcs_1", Name: "ml"}, {ID: "pcs_2", Name: "Chem"}}
	for _, c := range []struct{ slurm, id, name, from string }{
		{"", "", "", ""},
		{"other", "pcs_9", "", ""},
		{"chem", "", "Chem", "ClusterName"},
		{"PCS_1", "", "ml", "ClusterName"},
		{"chem", "pcs_1", "ml", "tag aws:pcs:cluster-id"},
	} {
		if name, from := clusterOfHost(clusters, c.slurm, c.id); name != c.name || !strings.HasPrefix(from, c.from) || (from == "") != (c.from == "") {
			t.Errorf("%+v: %q %q", c, name, from)
		}
	}
}

func TestNodeGroupOfAQueue(t *testing.T) {
	with := func(names ...string) *config.Config {
		p := capacity.PartitionSettings{Name: "gpu"}
		for _, name := range names {
			p.Groups = append(p.Groups, capacity.GroupSettings{Name: name})
		}
		return &config.Config{Partitions: []capacity.PartitionSettings{p}}
	}
	for _, c := range []struct {
		cfg  *config.Config
		want string
	}{{nil, "gpu"}, {&config.Config{}, "gpu"}, {with("big"), "big"}, {with("big", "gpu"), "gpu"}, {with("one", "two"), ""}} {
		got, err := NodeGroupOf(c.cfg, "gpu")
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%v: %q, %v", c.cfg, got, err)
		}
	}
}

func TestMissingCluster(t *testing.T) {
	two := []pcs.Cluster{{Name: "ml"}, {Name: "chem"}}
	for _, c := range []struct {
		name     string
		clusters []pcs.Cluster
		unread   error
		sentence string
		fix      string
	}{
		{"", two, nil, "no cluster is given", "name it with --cluster: ml, chem"},
		{"mp", two, nil, `there is no PCS cluster "mp" in us-east-2 (Gone)`, "use one of ml, chem"},
		{"", nil, nil, "no cluster is given", "check --region; there is no PCS cluster in us-east-2. For Slurm that you run yourself add --provider ec2"},
		{"", nil, errNoFence, "no cluster is given", "name one with --cluster; which there are is not known: " + errNoFence.Error()},
	} {
		if p := missingCluster(c.name, "us-east-2", "Gone", c.clusters, c.unread); p.Sentence != c.sentence || p.Fix != c.fix {
			t.Errorf("%+v: %s; %s", c, p.Sentence, p.Fix)
		}
	}
}
