package main

import (
	"slices"
	"strings"
	"testing"
)

// Each kind of change is tried, one that never ends is given up, and what lives is named with the reason that it may.
func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a program, and waits for one that does not end")
	}
	toy := "testdata/toy"
	may := map[string]string{
		toy + "/toy.go Clamp: n < least → <=":    "both are least then",
		toy + "/toy.go Sum: sum += n → sum -= n": "made up",
		toy + "/toy.go Gone: a < b → <=":         "gone",
	}
	var out strings.Builder
	good, err := try(&out, toy, []string{toy}, may)
	if err != nil || good {
		t.Errorf("good %t, error %v", good, err)
	}
	got := strings.Split(strings.ReplaceAll(out.String(), toy+"/toy.go ", ""), "\n")
	slices.Sort(got)
	want := `
Both: other → !: no test reaches it (line 31)
Clamp: n < least → <=: lives: both are least then
Clamp: n > most → >=: lives (line 10)
Gone: a < b → <=: no such mutant: it can leave internal/mutants/survivors.txt
Sum: sum += n → sum -= n: killed: it can leave internal/mutants/survivors.txt
Untested: -n → n: no test reaches it (line 34)
testdata/toy: 14 of 18 killed, 77.8 %; 1 live for a reason; 0 are not tried
`
	if got := strings.Join(got, "\n") + "\n"; got != want {
		t.Errorf("said:\n%s\nwant:\n%s", got, want)
	}
}
