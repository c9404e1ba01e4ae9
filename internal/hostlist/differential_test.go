package hostlist

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

// randomWord is a name with up to four brackets, of any padding, with gaps.
func randomWord(r *rand.Rand) string {
	var b strings.Builder
	b.WriteString([]string{"gpu-", "n", "rack", "p5.48_x-", "a0b", "x9-"}[r.IntN(6)])

	brackets := r.IntN(5)
	for left := brackets; left > 0; left-- {
		b.WriteString("[")

		for i := range 1 + r.IntN(3) {
			if i > 0 {
				b.WriteString(",")
			}

			width, low := 1+r.IntN(4), r.IntN(120)
			fmt.Fprintf(&b, "%0*d", width, low)

			if r.IntN(3) > 0 {
				fmt.Fprintf(&b, "-%0*d", width, low+r.IntN(3))
			}
		}

		b.WriteString("]")

		if left > 1 && r.IntN(2) == 0 { // Slurm takes no text behind the last of several
			b.WriteString([]string{"c", "-", "n0", "_"}[r.IntN(4)])
		}
	}

	if brackets == 0 {
		fmt.Fprintf(&b, "%0*d", 1+r.IntN(3), r.IntN(1000))
	}

	return b.String()
}

// 1,000 random lists expand as `scontrol show hostnames` expands them, and what Compress
// makes of them means the same to it. scontrol starts once for many lists.
func TestSameAsScontrol(t *testing.T) {
	show := scontrolWithoutCluster(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)

	r := rand.New(rand.NewPCG(seed, 1))

	const between = "next-list"
	for todo := 1000; todo > 0; {
		var (
			asked []string
			want  [][]string
		)
		for size := 0; size < 60_000 && todo > 0; todo-- { // an argument has at most 128 KB
			words := make([]string, 1+r.IntN(3))
			for i := range words {
				words[i] = randomWord(r)
			}

			list := strings.Join(words, ",")

			names, err := Expand(list)
			if err != nil {
				t.Fatalf("Expand(%q): %v", list, err)
			}

			asked, want = append(asked, list, Compress(names)), append(want, names, Sort(names))
			size += len(list) + len(asked[len(asked)-1])
		}

		got := show("hostnames", strings.Join(asked, ","+between+",")+","+between)
		for i, list := range asked {
			end := slices.Index(got, between)
			if end < 0 {
				t.Fatalf("scontrol's answer ends before %q", list)
			}

			if !slices.Equal(got[:end], want[i]) {
				t.Fatalf(
					"%q is %.300q… here; scontrol says %.300q…",
					list,
					strings.Join(want[i], " "),
					strings.Join(got[:end], " "),
				)
			}

			got = got[end+1:]
		}
	}
}
