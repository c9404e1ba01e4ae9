package capacity

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// What a call that creates has come to is in its error.
func TestOutcomeOf(t *testing.T) {
	for err, want := range map[error]Outcome{nil: Done, fmt.Errorf("x: %w", ErrNoRoom): NoRoom, fmt.Errorf("x: %w", ErrTokenUsed): TokenUsed,
		fmt.Errorf("x: %w", ErrRefused): Refused, errors.New("x"): Unknown} {
		if got := OutcomeOf(err); got != want {
			t.Errorf("%v: %d, want %d", err, got, want)
		}
	}
	for o, want := range map[Outcome]bool{Done: false, NoRoom: true, TokenUsed: true, Refused: true, Unknown: false, NotTried: true} {
		if o.Nothing() != want {
			t.Errorf("%d created nothing: %t", o, !want)
		}
	}
}

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
