package permissions

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

const page = "../../docs/permissions.md"

// The tables of docs/permissions.md are those of this package. UPDATE_TRANSCRIPTS=1 writes them.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- tables: UPDATE_TRANSCRIPTS=1 go test ./internal/permissions -->\n", "<!-- end of tables -->"
	before, rest, found := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no tables", page)
	}
	want := before + begin + tables() + end + after
	if os.Getenv("UPDATE_TRANSCRIPTS") != "" {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(strings.Split(string(text), "\n"), strings.Split(want, "\n")); diff != "" {
		t.Errorf("%s is not what this package says; UPDATE_TRANSCRIPTS=1 writes it:\n%s", page, diff)
	}
}

// tables are one for each role, with the programs that no role before it has, and the purpose of each action.
func tables() string {
	var b strings.Builder
	row := func(cells ...string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	in := map[Program]Role{} // the role whose table has it
	for _, role := range []Role{Loop, LoopRollOver, Hooks, HooksReserve, HooksPCS, Node, Admin} {
		var rows [][]string
		above := map[Role][]string{}
		var reads []string // programs that change nothing
		for _, p := range role.Programs() {
			if there, shown := in[p]; shown {
				above[there] = append(above[there], "`"+string(p)+"`")
				continue
			}
			in[p] = role
			without := map[Effect][]string{}
			for _, a := range Actions {
				if role != Admin || changes(a) {
					without[a.Effect(p)] = append(without[a.Effect(p)], a.Name)
				}
			}
			if len(without[Stops])+len(without[Lessens]) == 0 {
				reads = append(reads, "`"+string(p)+"`")
				continue
			}
			rows = append(rows, []string{"`" + string(p) + "`", strings.Join(without[Stops], ", "), strings.Join(without[Lessens], ", ")})
		}
		fmt.Fprintf(&b, "\n### `%s`\n\n", role)
		if role == Admin {
			b.WriteString("Only what changes something; a command names each read that it lacks.\n\n")
		}
		row("program", "fails without", "goes on with less without")
		b.WriteString("|---|---|---|\n")
		for _, cells := range rows {
			row(cells...)
		}
		if reads != nil {
			fmt.Fprintf(&b, "\nThese only read: %s.\n", strings.Join(reads, ", "))
		}
		for _, there := range slices.Sorted(maps.Keys(above)) {
			fmt.Fprintf(&b, "\nAnd those of `%s`: %s.\n", there, strings.Join(above[there], ", "))
		}
	}
	b.WriteString("\n## The purpose of each action\n\n")
	var reads []string
	for _, a := range Actions {
		if !changes(a) {
			reads = append(reads, a.Name)
			continue
		}
		fmt.Fprintf(&b, "- %s: %s\n", a.Name, a.Why)
	}
	fmt.Fprintf(&b, "\nThe others only read: %s.\n", strings.Join(reads, ", "))
	return b.String()
}

// changes reports whether an action changes something.
func changes(a Action) bool {
	_, name, _ := strings.Cut(a.Name, ":")
	return !slices.ContainsFunc([]string{"Describe", "Get", "List", "Simulate"}, func(reads string) bool { return strings.HasPrefix(name, reads) })
}

// Each program is named, and each action has a purpose, in the page that is written of them.
func TestDocsHaveAll(t *testing.T) {
	written := tables()
	for _, p := range Programs {
		if n := strings.Count(written, "`"+string(p)+"`"); n == 0 {
			t.Errorf("%s is not named", p)
		}
	}
	for _, a := range Actions {
		if a.Why == "" || changes(a) && strings.Count(written, "- "+a.Name+": ") != 1 || !strings.Contains(written, a.Name) {
			t.Errorf("%s has no purpose", a.Name)
		}
	}
}

// A managed policy of IAM has at most 6,144 characters, without white space (IAM User
// Guide, "IAM and AWS STS quotas").
func TestPoliciesFit(t *testing.T) {
	for _, role := range []Role{Admin, Loop, LoopRollOver, Hooks, HooksReserve, HooksPCS, Node} {
		text, err := json.Marshal(Policy(Place{Partition: capacity.AWSPartitionOf("us-gov-west-1"), Cluster: strings.Repeat("c", 40), Reservations: slices.Repeat([]string{"cr-0123456789abcdef0"}, 50)}, role.Programs()))
		if err != nil {
			t.Fatal(err)
		}
		if len(role.Programs()) == 0 || len(text) > 6144 {
			t.Errorf("%s: %d programs, %d characters", role, len(role.Programs()), len(text))
		}
		t.Logf("%s: %d characters", role, len(text))
	}
}

func TestActions(t *testing.T) {
	names := Of(Programs...)
	if !slices.IsSorted(names) || len(names) != len(Actions) {
		t.Errorf("not in order, or used by nobody: %v", names)
	}
	for _, a := range Actions {
		for _, p := range slices.Concat(a.stops, a.lessens) {
			if !slices.Contains(Programs, p) || slices.Contains(a.stops, p) && slices.Contains(a.lessens, p) {
				t.Errorf("%s: program %s", a.Name, p)
			}
		}
		for _, p := range Programs {
			if a.Effect(p) != Unused && len(a.scopes([]Program{p})) == 0 {
				t.Errorf("%s is granted nowhere to %s", a.Name, p)
			}
		}
	}
}

func TestConditions(t *testing.T) {
	for cluster, want := range map[string][]string{"": {"*"}, "ml": {"ml", "ml/*"}} {
		for _, s := range Policy(Place{Cluster: cluster}, programs{Suspend}).Statement {
			if got := s.Condition["StringLike"]["aws:ResourceTag/pcs-capacity:cluster"]; s.Sid == "OurInstances" && !slices.Equal(got, want) {
				t.Errorf("cluster %q: %v, want %v", cluster, got, want)
			}
		}
	}
}

func TestPolicyOfAPartition(t *testing.T) {
	for region, want := range map[string]string{"us-east-2": "arn:aws:", "us-gov-west-1": "arn:aws-us-gov:", "cn-north-1": "arn:aws-cn:"} {
		services := []string{"ec2.amazonaws.com"}
		if region == "cn-north-1" {
			services = append(services, "ec2.amazonaws.com.cn")
		}
		for _, s := range Policy(Place{Partition: capacity.AWSPartitionOf(region), Cluster: "ml"}, Admin.Programs()).Statement {
			if got := s.Condition["StringLike"]["iam:PassedToService"]; got != nil && !slices.Equal(got, services) {
				t.Errorf("%s: roles for %v, want %v", region, got, services)
			}
			for _, r := range s.Resource {
				if r != "*" && !strings.HasPrefix(r, want) {
					t.Errorf("%s: %s", region, r)
				}
			}
		}
	}
}
