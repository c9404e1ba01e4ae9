package hostlist

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestExpand(t *testing.T) {
	for _, test := range []struct{ list, want string }{
		{"", ""},
		{"gpu-1", "gpu-1"},
		{"gpu-[1-4,7]", "gpu-1 gpu-2 gpu-3 gpu-4 gpu-7"},
		{"r[1-2]n[01-03]", "r1n01 r1n02 r1n03 r2n01 r2n02 r2n03"},
		{"a[1-2][3-4]", "a13 a14 a23 a24"},
		{"x[09-11]", "x09 x10 x11"},
		{"x[9-11]", "x9 x10 x11"},
		{"a[1-02]", "a1 a2"},
		{"b,a", "b a"},
		{"a[1-3],a[2-4]", "a1 a2 a3 a2 a3 a4"},
		{"gpu-1-[1-2],login", "gpu-1-1 gpu-1-2 login"},
		{"p5.48_x-[0]", "p5.48_x-0"},
		{"[1-3]", "1 2 3"},
		{"x[1-2]y", "x1y x2y"},
	} {
		got, err := Expand(test.list)
		if err != nil {
			t.Errorf("Expand(%q): %v", test.list, err)
		}

		if diff := cmp.Diff(strings.Fields(test.want), got, cmp.Transformer("nonnil", func(s []string) string {
			return strings.Join(s, " ")
		})); diff != "" {
			t.Errorf("Expand(%q) (-want +got):\n%s", test.list, diff)
		}
	}
}

func TestExpandRefuses(t *testing.T) {
	for _, list := range []string{
		"n[3-1]", "n[]", "n[1", "n]", "a b", "a[1-]", "a[-1]", "a[1,]", "a[1--2]", ",a", "a,,b",
		"a[x-y]", "a[ 1-2]", "a[[1]]", "a[1-2]b[3", "(null)", "None assigned", "a;b", "a\nb", "a=b", "é", "a[1-65537]",
		"a[1-300]b[1-300]", "a[1-65536],b", "a[1-9999999999]", "a[1-2]]",
	} {
		if names, err := Expand(list); !errors.Is(err, ErrInvalid) {
			t.Errorf("Expand(%q) = %d names, %v; want ErrInvalid", list, len(names), err)
		}
	}

	names, err := Expand("a[1-65536]")
	if err != nil || len(names) != Max {
		t.Errorf("the largest hostlist: %d names, %v", len(names), err)
	}
}

func TestCompress(t *testing.T) {
	for _, test := range []struct{ names, want string }{
		{"", ""},
		{"gpu-7 gpu-1 gpu-2 gpu-4 gpu-3", "gpu-[1-4,7]"},
		{"a1 a1", "a1"},
		{"a9 a10 a11", "a[9-11]"},
		{"a08 a09 a10", "a[08-10]"},
		{"a099 a100", "a[099-100]"},
		{"a98 a99 a100", "a[98-100]"},
		{"a9 a09 a10", "a[9,09-10]"},
		{"login b a", "a,b,login"},
		{"r1n1 r1n2 r2n1 r10n1", "r1n[1-2],r2n1,r10n1"},
		{"a-1-2 a-1-1 a-2-1", "a-1-[1-2],a-2-1"},
		{"1 2 3", "[1-3]"},
		{"a a0", "a,a0"},
		{"n12345678901234567890 n12345678901234567891", "n12345678901[234567890-234567891]"},
	} {
		if got := Compress(strings.Fields(test.names)); got != test.want {
			t.Errorf("Compress(%s) = %s, want %s", test.names, got, test.want)
		}
	}
}

// TestHostlistAsSlurm compares with what scontrol itself makes of the same text.
func TestHostlistAsSlurm(t *testing.T) {
	scontrol := scontrolWithoutCluster(t)
	for _, list := range []string{
		"gpu-[1-4,7]", "r[1-2]n[01-03]", "a[001-010]", "x[09-11]", "x[9-11]", "a[1-2][3-4]",
		"a[99-101]", "a[1-3],a[2-4],b", "a[1-02]", "[1-3]", "p5.48_x-[0]", "gpu-1-[1-2],login",
	} {
		names, err := Expand(list)
		if err != nil {
			t.Errorf("Expand(%q): %v", list, err)
			continue
		}

		if diff := cmp.Diff(scontrol("hostnames", list), names); diff != "" {
			t.Errorf("Expand(%q) (-scontrol +ours):\n%s", list, diff)
		}

		compressed := Compress(names)
		if diff := cmp.Diff(scontrol("hostnames", compressed), Sort(names)); diff != "" {
			t.Errorf("scontrol reads Compress(%q) = %s differently (-scontrol +ours):\n%s", names, compressed, diff)
		}
	}
}

// scontrolWithoutCluster runs "scontrol show WHAT LIST", which needs a
// slurm.conf but no slurmctld, and returns the lines that it prints.
func scontrolWithoutCluster(t testing.TB) func(what, list string) []string {
	path, err := exec.LookPath("scontrol")
	if err != nil {
		t.Fatal("Slurm is not installed; `make test` installs what the tests need")
	}

	conf := filepath.Join(t.TempDir(), "slurm.conf")
	if err := os.WriteFile(conf, []byte("ClusterName=none\nSlurmctldHost=localhost\n"), 0o600); err != nil {
		t.Fatal(err)
	}

	return func(what, list string) []string {
		t.Helper()

		cmd := exec.Command(path, "show", what, list)

		cmd.Env = append(os.Environ(), "SLURM_CONF="+conf)

		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("scontrol show %s %s: %v", what, list, err)
		}

		return strings.Fields(string(out))
	}
}

func FuzzHostlist(f *testing.F) {
	for _, seed := range []string{
		"gpu-[1-4,7]",
		"r[1-2]n[01-03]",
		"a,b,c[08-11]",
		"a[1-65536]",
		"[",
		"a[0-000000001]",
	} {
		f.Add(seed)
	}

	f.Fuzz(func(t *testing.T, list string) {
		names, err := Expand(list)
		if err != nil {
			if !errors.Is(err, ErrInvalid) {
				t.Fatalf("Expand(%q): error %v does not wrap ErrInvalid", list, err)
			}
			return
		}

		if len(names) > Max {
			t.Fatalf("Expand(%q): %d names", list, len(names))
		}

		again, err := Expand(Compress(names))
		if err != nil {
			t.Fatalf("Compress(%q) = %q: %v", names, Compress(names), err)
		}

		if sorted := Sort(names); !slices.Equal(again, sorted) {
			t.Fatalf("Compress(%q) = %q, which is %q; want %q", names, Compress(names), again, sorted)
		}
	})
}
