package permissions

import (
	"encoding/json"
	"fmt"
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

func tables() string {
	var b strings.Builder
	header := []string{"action"}
	for _, p := range Programs {
		header = append(header, string(p))
	}
	row := func(cells ...string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	rule := func(n int) { row(slices.Repeat([]string{"---"}, n)...) }
	row(header...)
	rule(len(header))
	for _, a := range Actions {
		cells := []string{a.Name}
		for _, p := range Programs {
			cells = append(cells, map[Effect]string{Stops: "●", Lessens: "○", Unused: ""}[a.Effect(p)])
		}
		row(cells...)
	}
	b.WriteString("\n## What each is for, and where it is granted\n\n")
	row("action", "for", "granted")
	rule(3)
	for _, a := range Actions {
		var granted []string
		for _, s := range a.scopes(Programs) {
			granted = append(granted, s.sid)
		}
		for _, g := range a.grants { // those that a wider one makes needless for some programs
			if !slices.Contains(granted, g.sid) {
				granted = append(granted, g.sid)
			}
		}
		row(a.Name, a.Why, strings.Join(granted, ", "))
	}
	b.WriteString("\n## The statements\n\n")
	row("statement", "resources, each after `arn:aws:`", "condition")
	rule(3)
	var seen []string
	for _, a := range Actions {
		scopes := []scope{}
		for _, g := range a.grants {
			scopes = append(scopes, g.scope)
		}
		for _, s := range append(scopes, a.scopes(Programs)...) {
			if slices.Contains(seen, s.sid) {
				continue
			}
			seen = append(seen, s.sid)
			row(s.sid, code(s.resources, "`*`"), s.shown())
		}
	}
	return b.String()
}

func code(texts []string, none string) string {
	if texts == nil {
		return none
	}
	return "`" + strings.Join(texts, "` `") + "`"
}

func (s scope) shown() string {
	for operator, keys := range s.condition {
		for key, values := range keys {
			return "`" + operator + "` `" + key + "`: " + code(values, "")
		}
	}
	return "none"
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
