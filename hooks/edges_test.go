package hooks

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// What `make mutants` found that no other test decides.

func TestCount(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "4": 4, "4-8": 4, "4-0": 0, "1-0": 0, "1k": 1024, "2K": 2048, "1m": 1 << 20, "3M": 3 << 20, "x": 0, "4x": 4,
		"65533": 65533, "65534": 0, "65535": 65535, "4294967293": 4294967293, "4294967294": 0, "4294967295": 0, "99999999999999999999": 0,
	} {
		if got := count(text); got != want {
			t.Errorf("%q is %d, want %d", text, got, want)
		}
	}
}

func TestMoment(t *testing.T) {
	local := time.Date(2026, 11, 20, 12, 30, 0, 0, time.Local)
	for text, want := range map[string]time.Time{
		"": {}, "Unknown": {}, "0": {}, "-5": {}, "1": time.Unix(1, 0), "1795177800": time.Unix(1795177800, 0),
		"4294967293": time.Unix(4294967293, 0), "4294967294": {}, "2026-11-20T12:30:00": local, "20 Nov 12:30": {},
	} {
		if got := moment(text); !got.Equal(want) || got.IsZero() != want.IsZero() {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

func TestRequest(t *testing.T) {
	text := SlurmText{Limit: slurm.ParseLimit, GPUs: slurm.GPUs}
	for name, c := range map[string]struct {
		fields map[string]string
		want   capacity.Request
	}{
		"everything": {map[string]string{"partition": "gpu,,big", "account": "nlp", "from": "cli_filter", "comment": "x", "begin": "100", "deadline": "200", "nodes": "2", "ntasks": "8",
			"ntasks-per-node": "4", "gpus": "16", "gpus-per-node": "h100:8", "gpus-per-task": "2", "constraint": "a", "time": "60", "time-min": "30", "was": "cpu", "started": "1", "nodelist": "gpu-[1-2]", "exclude": "gpu-3"},
			capacity.Request{Partitions: []string{"gpu", "big"}, Account: "nlp", Comment: "x", Begin: time.Unix(100, 0), Deadline: time.Unix(200, 0), Nodes: 2, Tasks: 8, TasksPerNode: 4,
				GPUs: 16, GPUsPerNode: 8, GPUsPerTask: 2, Constraint: "a", TimeLimit: capacity.Minutes(60), TimeMin: capacity.Minutes(30), Was: "cpu", Started: true, NodeList: "gpu-[1-2]", Exclude: "gpu-3"}},
		"in slurmctld the account is known":        {map[string]string{"from": fromJobSubmit}, capacity.Request{AccountKnown: true}},
		"and in a change":                          {map[string]string{"from": fromJobModify}, capacity.Request{AccountKnown: true}},
		"GPUs of two kinds":                        {map[string]string{"gpus": "h100:4,a100:2"}, capacity.Request{GPUs: 6}},
		"GPUs as slurmctld has them":               {map[string]string{"gpus": "gres:gpu:8", "gpus-per-task": "gres/gpu:3"}, capacity.Request{GPUs: 8, GPUsPerTask: 3}},
		"GPUs a node, as --gres":                   {map[string]string{"gres": "gpu:4"}, capacity.Request{GPUsPerNode: 4}},
		"the larger of --gres and --gpus-per-node": {map[string]string{"gres": "gres:gpu:4", "gpus-per-node": "2"}, capacity.Request{GPUsPerNode: 4}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := request(c.fields, text)
			if len(got.Partitions) == 0 {
				got.Partitions = nil
			}
			got.Outside = nil // TestOutside
			if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, field := range []string{"time", "time-min"} {
		if _, err := request(map[string]string{field: "tomorrow"}, text); err == nil {
			t.Errorf("%s=tomorrow is taken", field)
		}
	}
}

// The owner of a refused job is told why, from when on it can be released, and what to do.
func TestNoteOfRefusedJob(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	why := &refusal{code: "wrong-partition", message: "cr-1 is of other"}
	for name, c := range map[string]struct {
		job   refusedJob
		until time.Time
		rest  string
	}{
		"first":           {refusedJob{Job: Job{Batch: true}, partition: "gpu", why: why, times: 1}, now, "pcs-capacity: partition gpu refuses this job: wrong-partition: cr-1 is of other; change it before you release it"},
		"released":        {refusedJob{Job: Job{Batch: true}, partition: "gpu", why: why, times: 3}, now.Add(time.Minute), "pcs-capacity: refused 3 times; partition gpu refuses this job: wrong-partition: cr-1 is of other; change it before you release it"},
		"it has ended":    {refusedJob{partition: "gpu", why: why, times: 3}, time.Time{}, ""},
		"nothing is held": {refusedJob{partition: "gpu", why: why, times: 1}, time.Time{}, ""},
	} {
		until, rest, ours := capacity.ReadHoldNote(c.job.note(now))
		if !until.Equal(c.until) || rest != c.rest || ours != c.job.Batch {
			t.Errorf("%s: %q", name, c.job.note(now))
		}
	}
}

// A job's nodes that are not being launched hide none of the others.
func TestLaunchGroupsOfSomeNodes(t *testing.T) {
	groups := launchGroups([]string{"a", "b", "c"}, []Waiting{{1, []string{"x", "a", "y", "c"}}}, []Job{{ID: 1, Allocated: true}})
	if len(groups) != 2 {
		t.Fatalf("%+v", groups)
	}
	if diff := cmp.Diff([]string{"a", "c"}, groups[0].nodes); diff != "" {
		t.Error(diff)
	}
}

// Lua reads what luaString writes as the same bytes, whatever they are.
func TestLuaString(t *testing.T) {
	lua, err := exec.LookPath("lua5.1")
	if err != nil {
		t.Fatal("lua5.1 is not installed; `make test` installs what the tests need")
	}
	var every strings.Builder
	for c := range 256 {
		every.WriteByte(byte(c))
		every.WriteByte('7') // a digit behind each escape
	}
	for _, text := range []string{"", "/var/lib/pcs-capacity", "it's \"state\"", "]] os.exit() --[[", "\\", every.String()} {
		path := filepath.Join(t.TempDir(), "chunk.lua")
		if err := os.WriteFile(path, []byte("io.write("+luaString(text)+")"), 0o600); err != nil {
			t.Fatal(err)
		}
		out, err := exec.Command(lua, path).Output()
		if err != nil || string(out) != text {
			t.Errorf("%q is read as %q, %v", text, out, err)
		}
	}
	if got := luaString("azAZ09/._- +,:@="); got != `"azAZ09/._- +,:@="` {
		t.Errorf("a plain path is written %s", got)
	}
}

func TestTried(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		failures int
		after    time.Duration
		want     string
	}{
		{0, time.Minute, "; Slurm tries again at 2026-11-20 12:01 UTC"},
		{1, time.Minute, "; Slurm tries again at 2026-11-20 12:01 UTC"},
		{2, time.Minute, "; tried 2 times, Slurm tries again at 2026-11-20 12:01 UTC"},
		{2, 0, ""},
		{3, -time.Second, ""},
	} {
		if got := tried(c.failures, now.Add(c.after), now); got != c.want {
			t.Errorf("%d failures, in %s: %q, want %q", c.failures, c.after, got, c.want)
		}
	}
}
