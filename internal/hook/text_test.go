package hook

import "testing"

// What fits is left as it is, and what does not is cut between two characters.
func TestClip(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{{"ab", 3, "ab"}, {"ab\xff", 3, "ab\xff"}, {"abcd", 3, "abc"}, {"abä", 3, "ab"}, {"aäb", 3, "aä"}} {
		if got := Clip(c.text, c.n); got != c.want {
			t.Errorf("%q to %d: %q", c.text, c.n, got)
		}
	}
}
