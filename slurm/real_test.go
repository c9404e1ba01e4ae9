package slurm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// probeVariable makes the test program list jobs and write the result to the
// file that it names: a stand-in for a hook that slurmctld starts.
const probeVariable = "SLURM_TEST_PROBE"

func TestMain(m *testing.M) {
	if file := os.Getenv(probeVariable); file != "" {
		jobs, err := new(slurm.Client).Jobs(context.Background())
		os.WriteFile(file, fmt.Appendf(nil, "jobs=%d error=%v", len(jobs), err), 0o600)
		os.Exit(0)
	}

	os.Exit(m.Run())
}

// TestSlurmClient shows what the adapters write to a real Slurm, which takes or refuses it. One cluster serves all:
// static-1, and gpu-1 to gpu-4 that are powered down; gpu-4 never boots. A job_submit.lua of the site's makes something
// else of each change of a job named theirs.
func TestSlurmClient(t *testing.T) {
	var cluster *slurmlab.Cluster

	cluster = start(t, slurmlab.Config{
		Dir: t.TempDir(), Resume: func(ctx context.Context, nodes []string) {
			for _, node := range nodes {
				if node != "gpu-4" { // never boots
					check(t, cluster.StartNode(ctx, node, "127.0.0.1"))
				}
			}
		},
		CloudGroups:    []slurmlab.NodeGroup{{Prefix: "gpu-", Count: 4, Partition: "gpu", Features: "gpu,h100"}},
		SuspendTimeout: time.Second,
		JobSubmitLua: `
function slurm_job_submit(job, parts, uid) return slurm.SUCCESS end
function slurm_job_modify(job, record, parts, uid)
  if record.name ~= "theirs" then return slurm.SUCCESS end
  if job.time_limit ~= slurm.NO_VAL then job.time_limit = 3 end
  if job.admin_comment ~= nil then job.admin_comment = "theirs" end
  return slurm.SUCCESS
end`,
	})
	client := &slurm.Client{Conf: cluster.Conf()}
	for _, part := range []struct {
		name string
		run  func(*testing.T, *slurmlab.Cluster, *slurm.Client)
	}{
		{"edits", edits},
		{"jobs of partitions", jobsOfPartitions},
		{"a queue", queueOfPartition},
		{"environment of a hook", hookEnvironment},
		{"environment of a user", userEnvironment},
		{"changes without effect", changesWithoutEffect},
		{"requeue of an interactive job", requeueOfInteractiveJob},
		{"nodes", nodesOfRealSlurm},
		{"changes of one job", changesOfOneJob},
		{"jobs", jobsOfRealSlurm},
		{"an active reservation", activeReservation},
		{"partitions and settings", partitionsAndSettings},
	} {
		if !t.Run(part.name, func(t *testing.T) { part.run(t, cluster, client) }) {
			return
		}

		_, err := cluster.Command(deadline(t), "scancel", "--user=root")
		check(t, err)
		poll(t, "the end of all jobs", func() ([]capacity.Job, bool) {
			jobs, err := client.Jobs(deadline(t))
			check(t, err)
			return jobs, !slices.ContainsFunc(jobs, capacity.Job.Active)
		})
	}
}

func start(t *testing.T, cfg slurmlab.Config) *slurmlab.Cluster {
	t.Helper()

	cluster, err := slurmlab.Start(deadline(t), cfg)
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() {
		if err := cluster.Stop(); err != nil {
			t.Error(err)
		}

		if t.Failed() {
			log, _ := os.ReadFile(cluster.Log("slurmctld"))
			lines := strings.Split(string(log), "\n")
			t.Logf("slurmctld.log ends:\n%s", strings.Join(lines[max(0, len(lines)-60):], "\n"))
		}
	})

	return cluster
}

func deadline(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func submit(t *testing.T, cluster *slurmlab.Cluster, shell string, args ...string) int {
	t.Helper()

	text, err := cluster.Submit(deadline(t), shell, args...)
	if err != nil {
		t.Fatal(err)
	}

	id, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}

	return id
}

// waitJob polls Jobs until the job satisfies the condition.
func waitJob(t *testing.T, client *slurm.Client, id int, condition func(capacity.Job) bool) capacity.Job {
	t.Helper()

	return poll(t, fmt.Sprintf("job %d", id), func() (capacity.Job, bool) {
		jobs, err := client.Jobs(deadline(t))
		if err != nil {
			t.Fatal(err)
		}

		at := slices.IndexFunc(jobs, func(j capacity.Job) bool { return j.ID == id })
		if at < 0 {
			return capacity.Job{}, false
		}

		return jobs[at], condition(jobs[at])
	})
}

func waitNode(t *testing.T, client *slurm.Client, name string, condition func(capacity.Node) bool) capacity.Node {
	t.Helper()

	return poll(t, "node "+name, func() (capacity.Node, bool) {
		nodes, err := client.Nodes(deadline(t))
		if err != nil {
			t.Fatal(err)
		}

		at := slices.IndexFunc(nodes, func(n capacity.Node) bool { return n.Name == name })
		if at < 0 {
			t.Fatalf("no node %s in %+v", name, nodes)
		}

		return nodes[at], condition(nodes[at])
	})
}

func poll[T any](t *testing.T, what string, get func() (T, bool)) T {
	t.Helper()

	var value T
	if err := slurmlab.WaitUntil(deadline(t), func() (done bool) { value, done = get(); return done }); err != nil {
		t.Fatalf("%s did not get there: %+v", what, value)
	}

	return value
}

func any1[T any](T) bool { return true }

func check(t *testing.T, err error) {
	t.Helper()

	if err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, err, want error) {
	t.Helper()

	var call *slurm.CallError
	if !errors.Is(err, want) || !errors.As(err, &call) {
		t.Errorf("error %v, want a CallError that is %v", err, want)
	}
}

func jobsOfRealSlurm(t *testing.T, cluster *slurmlab.Cluster, client *slurm.Client) {
	ctx := deadline(t)

	// A comment as long as slurmctld takes, with a forged field and all bytes.
	comment := "capacity=any\nJobId=999 JobState=RUNNING\n"
	for len(comment) < slurm.MaxComment {
		if b := byte(len(comment)); b != 0 {
			comment += string([]byte{b})
		} else {
			comment += "\xff"
		}
	}

	hostileID := submit(
		t,
		cluster,
		"echo up; sleep 1000",
		"-t",
		"10",
		"--comment",
		comment,
		"-J",
		"a\"b\\\n\xff\x7f{}[],=",
		"--open-mode=append",
	)
	arrayID := submit(
		t,
		cluster,
		"sleep 1000",
		"-H",
		"-p",
		"gpu",
		"-a",
		"1-4%2",
		"-C",
		"gpu&h100",
		"-t",
		"UNLIMITED",
		"--time-min=30",
	)
	bootID := submit(t, cluster, "sleep 1000", "-p", "gpu", "-N2", "-t", "2-0", "--no-requeue")

	hostile, array, boot := strconv.Itoa(hostileID), fmt.Sprintf("%d_[1-4%%2]", arrayID), strconv.Itoa(bootID)

	job := waitJob(t, client, hostileID, capacity.Job.Running)
	if !strings.HasPrefix(job.Comment, "capacity=any\nJobId=999 JobState=RUNNING\n") || job.Partition != "static" ||
		job.TimeLimit != capacity.Minutes(
			10,
		) || !slices.Equal(job.Nodes, []string{"static-1"}) || !job.Batch || !job.Requeue || job.Start.IsZero() {
		t.Errorf("%+v", job)
	}

	if len(job.Comment) < slurm.MaxComment { // replaced bytes count three
		t.Errorf("the comment is cut: %d bytes", len(job.Comment))
	}

	job = waitJob(t, client, arrayID, capacity.Job.Pending)
	if !strings.HasSuffix(job.Shown, "_[1-4%2]") || job.Constraint != "gpu&h100" || !job.Held ||
		!job.TimeLimit.Unlimited ||
		job.TimeMin.Minutes != 30 {
		t.Errorf("%+v", job)
	}

	job = waitJob(t, client, bootID, func(j capacity.Job) bool { return j.Configuring() || j.Running() })
	if !slices.Equal(job.Nodes, []string{"gpu-1", "gpu-2"}) || job.NumNodes != 2 || job.Requeue ||
		job.TimeLimit.Minutes != 2880 {
		t.Errorf("%+v", job)
	}

	check(t, client.SetTimeLimit(ctx, hostile, 25))
	check(t, client.SetAdminComment(ctx, "InsufficientInstanceCapacity: a=b\n"+strings.Repeat("é", 2000), hostile))

	job = waitJob(t, client, hostileID, any1)
	if job.TimeLimit.Minutes != 25 || !strings.HasPrefix(job.AdminComment, "InsufficientInstanceCapacity: a=b éé") ||
		len(job.AdminComment) > slurm.MaxComment {
		t.Errorf("limit %v, admin comment %q", job.TimeLimit, job.AdminComment)
	}

	waitOutput := func(text string) {
		t.Helper()
		poll(t, "the job's output", func() (string, bool) {
			out, _ := os.ReadFile(filepath.Join(cluster.Dir(), "jobs", hostile+".out"))
			return string(out), strings.Contains(string(out), text)
		})
	}
	waitOutput("up") // slurmstepd drops a message that comes before the script runs
	check(t, client.Notify(ctx, hostile, "--the block ends\nat 18:00"))
	waitOutput("--the block ends at 18:00")

	requeue := func(job string, hold bool) error {
		_, err := client.RequeueJob(ctx, capacity.Job{Shown: job}, hold)
		return err
	}
	check(t, requeue(hostile, false))

	job = waitJob(t, client, hostileID, func(j capacity.Job) bool { return j.Pending() && j.Restarts == 1 })
	if job.TimeLimit.Minutes != 25 || len(job.Nodes) > 0 {
		t.Errorf("requeued: %+v", job)
	}
	// One that cannot start meanwhile: a requeued job must not start again before its credential has expired.
	waitsID := submit(t, cluster, "true", "--dependency=afterok:"+hostile)
	waits := strconv.Itoa(waitsID)
	check(t, client.UserHold(ctx, waits))
	waitJob(t, client, waitsID, func(j capacity.Job) bool { return j.Held })
	check(t, client.Release(ctx, waits))
	waitJob(t, client, waitsID, func(j capacity.Job) bool { return !j.Held })
	waitJob(t, client, hostileID, func(j capacity.Job) bool { return j.Running() })
	check(t, requeue(hostile, true))
	waitJob(t, client, hostileID, func(j capacity.Job) bool { return j.Pending() && j.Held })

	waitJob(t, client, bootID, capacity.Job.Running)
	wantError(t, requeue(boot, false), slurm.ErrRefused)
	check(t, requeue(array, false)) // it waits
	wantError(t, client.Notify(ctx, array, "x"), slurm.ErrRefused)

	for _, err := range []error{requeue("99999", false), client.UserHold(ctx, "99999"), client.Notify(ctx, "99999",
		"x"), client.SetTimeLimit(ctx, "99999", 5), client.SetAdminComment(ctx, "x", "99999")} {
		wantError(t, err, slurm.ErrNoJob)
	}

	for _, err := range []error{
		client.SetTimeLimit(ctx, hostile, 0),
		client.SetTimeLimit(ctx, "0", 5),
		client.SetTimeLimit(ctx, "7 admincomment=x", 5),
		client.Notify(ctx, hostile, "\n"),
	} {
		if err == nil {
			t.Error("a bad argument is accepted")
		}
	}
}

func requeueOfInteractiveJob(t *testing.T, cluster *slurmlab.Cluster, client *slurm.Client) {
	cmd := exec.CommandContext(deadline(t), "salloc", "-t", "5", "cat")

	cmd.Env = append(os.Environ(), cluster.Env()...)
	stdin, err := cmd.StdinPipe()
	check(t, err)

	check(t, cmd.Start())
	defer cmd.Wait()
	defer io.Closer(stdin).Close()

	job := poll(t, "the salloc job", func() (capacity.Job, bool) {
		jobs, err := client.Jobs(deadline(t))
		check(t, err)

		at := slices.IndexFunc(jobs, capacity.Job.Running)
		if at < 0 {
			return capacity.Job{}, false
		}

		return jobs[at], true
	})
	if job.Batch {
		t.Errorf("a salloc job is a batch job: %+v", job)
	}

	_, err = client.RequeueJob(deadline(t), job, false)
	wantError(t, err, slurm.ErrNotBatch)
}

func nodesOfRealSlurm(t *testing.T, cluster *slurmlab.Cluster, client *slurm.Client) {
	ctx := deadline(t)
	node := waitNode(t, client, "gpu-1", capacity.Node.PoweredDown)
	if node.BaseState() != "IDLE" || !node.HasFlag("CLOUD") || !slices.Equal(node.Partitions, []string{"gpu"}) ||
		!slices.Equal(node.Features, []string{"gpu", "h100"}) ||
		node.CPUs != 4 {
		t.Errorf("%+v", node)
	}

	address := netip.MustParseAddr
	check(t, client.SetAddresses(ctx, map[string]netip.Addr{
		"gpu-3": address("127.0.1.3"), "gpu-1": address("127.0.1.1"), "gpu-2": address("127.0.1.2"),
	}))
	wantError(
		t,
		client.SetAddresses(ctx, map[string]netip.Addr{"gpu-4": address("127.9.9.9"), "gpu-9": address("127.9.9.8")}),
		slurm.ErrNoNode,
	)
	// What scontrol itself does with lists of unequal length: an error, and no node is changed.
	if _, err := cluster.Command(ctx, "scontrol", "update", "nodename=gpu-[1-2]", "nodeaddr=127.9.9.9"); err == nil {
		t.Error("two nodes take one address")
	}

	for name, want := range map[string][2]string{
		"gpu-1": {"127.0.1.1", "gpu-1"},
		"gpu-2": {"127.0.1.2", "gpu-2"},
		"gpu-3": {"127.0.1.3", "gpu-3"},
	} {
		if node := waitNode(t, client, name, any1); node.Address != want[0] || node.HostName != want[1] {
			t.Errorf("%s is at %s, %s; want %v", name, node.Address, node.HostName, want)
		}
	}

	for _, bad := range []map[string]netip.Addr{nil, {"gpu-1": {}}, {"gpu-1 state=DOWN": address("127.0.0.1")}} {
		if err := client.SetAddresses(ctx, bad); err == nil {
			t.Errorf("SetAddresses(%v) is accepted", bad)
		}
	}

	id := submit(t, cluster, "sleep 1000", "-p", "gpu", "-w", "gpu-4")
	waitJob(t, client, id, capacity.Job.Configuring)
	check(
		t,
		client.PowerDownForce(ctx, []string{"gpu-4", "gpu-4"}, "InsufficientInstanceCapacity: State=DOWN\nComment=x"),
	)
	waitJob(t, client, id, func(j capacity.Job) bool { return j.Pending() && j.Restarts == 1 })

	if _, err := cluster.Command(ctx, "scontrol", "hold", strconv.Itoa(id)); err != nil {
		t.Fatal(err)
	}

	node = waitNode(t, client, "gpu-4", capacity.Node.PoweredDown)
	// 26.05 adds that the node does not answer.
	if strings.TrimSuffix(node.Reason, " : Not responding") != "InsufficientInstanceCapacity: State=DOWN Comment=x" ||
		node.BaseState() != "IDLE" {
		t.Errorf("after a failed power-up: %+v", node)
	}

	check(t, client.PowerUp(ctx, []string{"gpu-2", "gpu-3"}))
	waitNode(t, client, "gpu-3", func(n capacity.Node) bool { return n.State == "IDLE+CLOUD" })

	_, err := cluster.Command(
		ctx,
		"scontrol",
		"update",
		"nodename=gpu-3",
		"state=DRAIN",
		"reason=bad\nNodeName=gpu-1 State=DOWN",
	)
	check(t, err)

	if node := waitNode(t, client, "gpu-3", func(n capacity.Node) bool {
		return n.HasFlag("DRAIN")
	}); node.Reason != "bad" {
		t.Errorf("%+v", node)
	}

	_, err = cluster.Command(ctx, "scontrol", "update", "nodename=gpu-3", "state=RESUME")
	check(t, err)
	waitNode(t, client, "gpu-3", func(n capacity.Node) bool { return !n.HasFlag("DRAIN") })
	check(t, client.PowerDown(ctx, []string{"gpu-2", "gpu-3"}, "enough"))

	if node := waitNode(t, client, "gpu-3", capacity.Node.PoweredDown); node.HasFlag("DRAIN") || node.Reason != "enough" {
		t.Errorf("powered down: %+v", node)
	}

	wantError(t, client.PowerDown(ctx, []string{"nosuch"}, ""), slurm.ErrNoNode)

	for _, bad := range [][]string{nil, {""}, {"ALL,x"}, {"gpu-1", "a b"}, {"gpu-[1-2]"}} {
		if err := client.PowerDown(ctx, bad, ""); err == nil || errors.As(err, new(*slurm.CallError)) {
			t.Errorf("PowerDown(%q): %v; want it refused before any call", bad, err)
		}
	}
}

func partitionsAndSettings(t *testing.T, cluster *slurmlab.Cluster, client *slurm.Client) {
	ctx := deadline(t)
	_, err := cluster.Command(
		ctx,
		"scontrol",
		"update",
		"partitionname=gpu",
		"maxtime=2-0",
		"defaulttime=45",
		"allowaccounts=nlp,vis",
		"hidden=yes",
	)
	check(t, err)
	partitions, err := client.Partitions(ctx)
	check(t, err)

	at := slices.IndexFunc(partitions, func(p capacity.SlurmPartition) bool { return p.Name == "gpu" })
	if at < 0 || hostlist.Compress(partitions[at].Nodes) != "gpu-[1-4]" || partitions[at].MaxTime.Minutes != 2880 ||
		partitions[at].DefaultTime.Minutes != 45 ||
		!slices.Equal(partitions[at].AllowAccounts, []string{"nlp", "vis"}) ||
		partitions[at].Default ||
		partitions[at].State != "UP" {
		t.Errorf("%+v", partitions)
	}

	config, err := client.Config(ctx)
	check(t, err)
	version, err := client.Version(ctx)
	check(t, err)

	if config.Version != version || version.Major < 22 || config.ConfPath != cluster.Conf() || config.KillWait <= 0 ||
		config.SuspendExcNodes != "static-1" ||
		config.ResumeTimeout != time.Minute {
		t.Errorf("config %+v, version %v", config, version)
	}

	if config.Accounting() != capacity.NoAccounting {
		t.Error("a Slurm without accounting is said to check accounts")
	}
}

// A job that waits for several partitions is among the jobs of each, and of no other.
func jobsOfPartitions(t *testing.T, cluster *slurmlab.Cluster, client *slurm.Client) {
	ctx := deadline(t)
	ids := map[string]int{}
	for name, args := range map[string][]string{
		"static": {"-H"},
		"gpu":    {"-H", "-p", "gpu"},
		"both":   {"-H", "-p", "static,gpu"},
		"array":  {"-H", "-p", "gpu,static", "-a", "1-4"},
	} {
		ids[name] = submit(t, cluster, "true", args...)
	}

	cancelled := submit(t, cluster, "true", "-H", "-p", "gpu")
	if out, err := cluster.Command(ctx, "scancel", strconv.Itoa(cancelled)); err != nil {
		t.Fatal(err, out)
	}

	for _, test := range []struct {
		partitions []string
		want       []string
	}{
		{nil, []string{"array", "both", "gpu", "static", "cancelled"}},
		{[]string{"gpu"}, []string{"array", "both", "gpu", "cancelled"}},
		{[]string{"static"}, []string{"array", "both", "static"}},
		{[]string{"gpu", "static"}, []string{"array", "both", "gpu", "static", "cancelled"}},
		{[]string{"there-is-none"}, nil},
	} {
		var got, want []int

		live, ended, err := client.JobsOf(ctx, test.partitions, func(j capacity.Job) bool { // others are of other tests
			return j.ID == cancelled || slices.Contains(slices.Collect(maps.Values(ids)), j.ID)
		})
		if err != nil {
			t.Fatal(test.partitions, err)
		}

		for _, j := range slices.Concat(live, ended) {
			got = append(got, j.ID)
		}

		for _, name := range test.want {
			if name == "cancelled" {
				want = append(want, cancelled)
				continue
			}

			want = append(want, ids[name])
		}

		slices.Sort(want)

		if !slices.Equal(got, want) {
			t.Errorf("jobs of %q: %v, not, by their ids, %v", test.partitions, got, want)
		}
	}
}

// A queue is in the order of priority, its tasks each by itself, and of its partition only.
func queueOfPartition(t *testing.T, cluster *slurmlab.Cluster, client *slurm.Client) {
	ctx := deadline(t)

	var want []string
	for i, args := range [][]string{{"-p", "gpu"}, {"-p", "static,gpu", "-a", "1-2"}, {"-p", "gpu"}, {"-p", "static"}} {
		id := strconv.Itoa(submit(t, cluster, "true", append(args, "--begin=now+1day")...))
		change := []string{"update", "jobid=" + id, fmt.Sprintf("priority=%d", 1000+i)}
		if out, err := cluster.Command(ctx, "scontrol", change...); err != nil {
			t.Fatal(err, out)
		}

		if i == 1 {
			want = append(want, id+"_1", id+"_2")
		} else {
			want = append(want, id)
		}
	}

	want = []string{want[3], want[1], want[2], want[0]}

	jobs, err := client.Queue(ctx, "gpu")
	if err != nil {
		t.Fatal(err)
	}

	var got []string
	for _, j := range jobs {
		if slices.Contains(want, j.Shown) { // others are of other tests
			got = append(got, j.Shown)
		}
	}

	if !slices.Equal(got, want) {
		t.Errorf("the queue is %q, not %q", got, want)
	}
}

// Slurm refuses any start time for an active reservation, even its own. Nodes and end can change.
func activeReservation(t *testing.T, _ *slurmlab.Cluster, client *slurm.Client) {
	ctx := deadline(t)
	only := func() capacity.SlurmReservation {
		t.Helper()

		all, err := client.Reservations(ctx)
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}

		return all[0]
	}
	now := time.Now().Truncate(time.Second)
	check(
		t,
		client.CreateReservation(
			ctx,
			capacity.SlurmReservation{
				Name:  "pcs-capacity-fence-gpu.cr-0e2000000000000a1.0123abcd",
				Nodes: []string{"gpu-1", "gpu-2"},
				Start: now,
				Flags: []string{"MAINT", "IGNORE_JOBS"},
				Users: []string{"root"},
			},
		),
	)

	active := only()
	if !active.Active || !active.IsInfinite() {
		t.Fatalf("not active, or not without end: the test proves nothing: %+v", active)
	}

	active.Nodes, active.End = []string{"gpu-2", "gpu-3"}, now.Add(time.Hour)
	check(t, client.UpdateReservation(ctx, active))

	if got := only(); hostlist.Compress(got.Nodes) != "gpu-[2-3]" || !got.End.Equal(active.End) || !got.Active {
		t.Errorf("after the update: %+v, want %+v", got, active)
	}
}
