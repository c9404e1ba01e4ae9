package slurm

import (
	"errors"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// versions are those whose real output is in testdata: the same jobs, nodes
// and reservations on 22.05.8, 24.11.5 and 26.05.5.
var versions = []string{"22.05", "24.11", "26.05"}

func recorded(t *testing.T, name string) []byte {
	t.Helper()
	return recordedBy(t, name)
}

func recordedBy(t testing.TB, name string) []byte {
	t.Helper()

	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}

	return data
}

// recordedMark is the mark of the recorded answers of squeue.
const recordedMark = "mRECORDED"

// parseJobs reads an answer of squeue that comes in one piece, and again byte by byte.
func parseJobs(t testing.TB, text []byte, mark string) ([]capacity.Job, error) {
	t.Helper()
	return parseJobFields(t, allFields, text, mark)
}

func parseJobFields(t testing.TB, fields jobFields, text []byte, mark string) ([]capacity.Job, error) {
	t.Helper()

	read := func(pieces iter.Seq[[]byte]) (jobs []capacity.Job, err error) {
		r := jobReader{
			wanted:    fields,
			delimiter: []byte(mark),
			take:      func(j capacity.Job) error { jobs = append(jobs, j); return nil },
		}
		for piece := range pieces {
			if _, err = r.Write(piece); err != nil {
				break
			}
		}

		return jobs, r.end(err)
	}
	jobs, err := read(slices.Chunk(text, max(len(text), 1)))
	again, againErr := read(slices.Chunk(text, 1))
	if diff := cmp.Diff(jobs, again); diff != "" || (err == nil) != (againErr == nil) {
		t.Errorf("byte by byte (-whole +bytes):\n%s%v, %v", diff, err, againErr)
	}

	return jobs, err
}

func TestParseJobs(t *testing.T) {
	limit, unlimited := capacity.Minutes, capacity.NoLimit
	base := capacity.Job{
		User: "root", State: "PENDING", NumNodes: 1, Batch: true, Requeue: true, Held: true,
		Reason: "JobHeldUser", Account: "nlp", Partition: "cloud",
	}
	with := func(id int, change func(j *capacity.Job)) capacity.Job {
		j := base
		j.ID, j.Shown = id, strconv.Itoa(id)
		change(&j)
		return j
	}

	want := []capacity.Job{with(1, func(j *capacity.Job) {
		j.Partition, j.Account, j.State, j.Reason, j.Held = "static", "", "RUNNING", "None", false
		j.TimeLimit, j.Nodes = limit(10), []string{"static-1"}
	}), with(2, func(j *capacity.Job) {
		j.TimeLimit, j.Shown, j.Constraint, j.AdminComment = unlimited, "2_[1-4%2]", "cloud&gpu", "a=b\nc"
	}), with(3, func(j *capacity.Job) {
		j.Partition, j.Account, j.Requeue, j.NumNodes = "static,cloud", "vis", false, 2
		j.TimeLimit, j.TimeMin = limit(60), limit(30)
	}), with(4, func(j *capacity.Job) {
		j.TimeLimit, j.HetJobID, j.Shown = limit(45), 4, "4+0"
	}), with(5, func(j *capacity.Job) {
		j.TimeLimit, j.Partition, j.HetJobID, j.Shown = unlimited, "static", 4, "4+1"
	}), with(6, func(j *capacity.Job) { j.TimeLimit = limit(45) }), with(7, func(j *capacity.Job) {
		j.State, j.StateFlag, j.Reason, j.Held = "RUNNING", "CONFIGURING", "None", false
		j.NumNodes, j.TimeLimit, j.Nodes = 2, limit(30), []string{"cloud1", "cloud2"}
	}), with(8, func(j *capacity.Job) {
		j.TimeLimit = unlimited
		j.Partition = "static"
		j.Account = ""
		j.Reason = "job requeued in held state"
		j.Restarts = 1
	})}
	for _, version := range versions {
		jobs, err := parseJobs(t, recorded(t, "squeue-"+version+".txt"), recordedMark)
		if err != nil {
			t.Errorf("%s: %v", version, err)
			continue
		}

		slices.SortFunc(jobs, func(a, b capacity.Job) int { return a.ID - b.ID })

		ignore := cmpopts.IgnoreFields(capacity.Job{}, "Eligible", "Start", "End", "Deadline", "Comment")
		if diff := cmp.Diff(want, jobs, ignore); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
			continue
		}

		checkHostileText(t, version, jobs[0])
		checkTimes(t, version, jobs)
	}
}

// checkHostileText: a comment with a newline that forges a field, and then
// all bytes from 1 to 255.
func checkHostileText(t *testing.T, version string, job capacity.Job) {
	t.Helper()

	if !strings.HasPrefix(
		job.Comment,
		"capacity=any\nJobId=999 JobState=RUNNING\nbin\ufffd\ufffd\x01\x1b[31m \"q\" \\ end\x01\x02",
	) ||
		!strings.Contains(job.Comment, "xyz{|}~\x7f") ||
		utf8.RuneCountInString(job.Comment) != 61+255 {
		t.Errorf("%s: comment %q of %d characters", version, job.Comment, utf8.RuneCountInString(job.Comment))
	}
}

func checkTimes(t *testing.T, version string, jobs []capacity.Job) {
	t.Helper()

	array, waits, boots := jobs[1], jobs[5], jobs[6]
	if !boots.Configuring() || boots.Running() || !boots.Active() {
		t.Errorf("%s: state %s %v", version, boots.State, boots.StateFlag)
	}

	if boots.Start.Year() != 2026 || boots.End.Sub(boots.Start) != 30*time.Minute {
		t.Errorf("%s: from %v to %v", version, boots.Start, boots.End)
	}

	if !array.Start.IsZero() || !array.End.IsZero() {
		t.Errorf("%s: a held job starts at %v", version, array.Start)
	}

	if want := time.Date(2026, 12, 24, 0, 0, 0, 0, time.UTC); !waits.Eligible.Equal(want) ||
		waits.Deadline.Year() != 2027 {
		t.Errorf("%s: eligible at %v, deadline %v", version, waits.Eligible, waits.Deadline)
	}
}

// record is what squeue prints of one job, with some fields replaced.
func record(mark string, replaced map[string]string) string {
	return recordOf(allFields, mark, replaced)
}

func recordOf(fields jobFields, mark string, replaced map[string]string) string {
	text := map[string]string{
		"JobID":        "7",
		"JobArrayID":   "7",
		"State":        "PENDING",
		"TimeLimit":    "10:00",
		"MinTime":      "0:00",
		"RestartCnt":   "0",
		"PriorityLong": "1",
		"Requeue":      "1",
		"BatchFlag":    "1",
		"NumNodes":     "1",
		"NodeList":     "",
	}
	maps.Copy(text, replaced)

	var b strings.Builder
	for i, f := range fields.plain {
		value, ok := text[f.name]
		if !ok {
			value = "N/A"
		}

		b.WriteString(value)

		if i < len(fields.plain)-1 {
			b.WriteString(plainDelimiter)
		}
	}

	b.WriteString(mark)

	for _, f := range fields.delimited {
		value, ok := text[f.name]
		if !ok {
			value = "(null)"
		}

		b.WriteString(value + mark)
	}

	return b.String() + "\n"
}

// BriefJobs fills its fields as Jobs does, and no others.
func TestParseSomeFields(t *testing.T) {
	of := map[string]string{
		"JobID":         "9",
		"JobArrayID":    "7_2",
		"State":         "CONFIGURING",
		"TimeLimit":     "1-00:00:00",
		"MinTime":       "2:00",
		"EligibleTime":  "1795302300",
		"RestartCnt":    "3",
		"NodeList":      "gpu-[1-2]",
		"NumNodes":      "2",
		"Partition":     "gpu",
		"Account":       "nlp",
		"Comment":       "a\nb|",
		"admin_comment": "c",
		"QOS":           "q",
	}

	whole, err := parseJobs(t, []byte(record(recordedMark, of)), recordedMark)
	brief, briefErr := parseJobFields(t, briefFields, []byte(recordOf(briefFields, recordedMark, of)), recordedMark)
	if err != nil || briefErr != nil || len(whole) != 1 || len(brief) != 1 {
		t.Fatal(whole, err, brief, briefErr)
	}

	want := whole[0]
	want.NumNodes, want.QOS = 0, ""
	if diff := cmp.Diff(want, brief[0]); diff != "" {
		t.Errorf("BriefJobs (-want +got):\n%s", diff)
	}

	if n := len(briefFields.plain) + len(briefFields.delimited); n != 14 || briefFields.plain[9].name != "NodeList" {
		t.Errorf("%d fields: %+v", n, briefFields)
	}
}

func TestParseJobsOddities(t *testing.T) {
	one := func(fields ...string) capacity.Job {
		t.Helper()

		replaced := map[string]string{}
		for i := 0; i < len(fields); i += 2 {
			replaced[fields[i]] = fields[i+1]
		}

		jobs, err := parseJobs(t, []byte(record(recordedMark, replaced)), recordedMark)
		if err != nil || len(jobs) != 1 {
			t.Fatal(jobs, err)
		}

		return jobs[0]
	}
	if job := one("State", "COMPLETING"); !job.Active() || job.Running() || job.Pending() {
		t.Errorf("completing: %+v", job)
	}

	if job := one("State", "SUSPENDED"); !job.Active() || job.Running() {
		t.Errorf("suspended: %+v", job)
	}

	if job := one("State", "REQUEUE_HOLD"); job.State != "PENDING" || !job.Active() {
		t.Errorf("requeued held: %+v", job)
	}

	if job := one("State", "REVOKED"); job.Pending() || job.Active() || !job.Ended() {
		t.Errorf("a job that another cluster of the federation runs: %+v", job)
	}

	if job := one("State", "BRAND_NEW"); job.StateFlag != "BRAND_NEW" || !job.Pending() {
		t.Errorf("unknown state: %+v", job)
	}

	if job := one("State", "BRAND_NEW", "NodeList", "gpu-1"); job.StateFlag != "BRAND_NEW" || !job.Allocated() ||
		job.Ended() {
		t.Errorf("unknown state with nodes: %+v", job)
	}

	if job := one("TimeLimit", "99999999"); job.TimeLimit != capacity.NoLimit {
		t.Errorf("more than Slurm can count: %+v", job)
	}

	if job := one("JobArrayID", "5_0"); job.Shown != "5_0" {
		t.Errorf("task 0: %+v", job)
	}

	if job := one("JobArrayID", "5_[3]"); job.Shown != "5_[3]" {
		t.Errorf("the last pending task: %+v", job)
	}

	for _, unset := range []string{"INVALID", "NOT_SET"} {
		if job := one("TimeLimit", unset, "MinTime", "2982616-04:14:00"); job.TimeLimit.Set || job.TimeMin.Set ||
			job.Unread != "" {
			t.Errorf("unset limits: %+v", job)
		}
	}

	for field, text := range map[string]string{
		"JobID":      "x",
		"JobArrayID": "7_x",
		"StartTime":  "2026-11-21T10:00:00",
		"NumNodes":   "1K",
		"TimeLimit":  "two days",
		"NodeList":   "gpu-[1",
	} {
		jobs, err := parseJobs(
			t,
			[]byte(record(recordedMark, map[string]string{field: text})+record(recordedMark, nil)),
			recordedMark,
		)
		if err != nil || len(jobs) != 2 || !strings.HasPrefix(jobs[0].Unread, "squeue's "+field+": ") ||
			jobs[0].Comment != jobs[1].Comment ||
			jobs[1].Unread != "" {
			t.Errorf("%s %s: %+v, %v", field, text, jobs, err)
		}
	}

	if job := one("TimeLimit", "UNLIMITED", "State", "RUNNING", "StartTime", "1795302306", "EndTime", "NONE"); job.End.Sub(
		job.Start,
	) != capacity.SlurmInfinite {
		t.Errorf("a job without a limit ends at %v", job.End)
	}

	if job := one("Comment", "", "Account", "N/A"); job.Comment != "" || job.Account != "" {
		t.Errorf("nothing: %+v", job)
	}

	jobs, err := parseJobs(t, nil, recordedMark)
	if err != nil || len(jobs) != 0 {
		t.Errorf("no jobs: %v, %v", jobs, err)
	}

	whole := record(recordedMark, nil)
	for _, bad := range []string{"slurm_load_jobs error", "\n", recordedMark, whole[:len(whole)-1], whole + "x", whole +
		"warning: x\n", whole[:len(whole)/2]} {
		if jobs, err := parseJobs(t, []byte(bad), recordedMark); err == nil {
			t.Errorf("%q is %v, want an error", bad, jobs)
		}
	}
}

// While squeue prints, only the unfinished record is in memory.
func TestJobsAreTakenWhileSqueuePrints(t *testing.T) {
	taken := 0

	r := jobReader{
		wanted:    allFields,
		delimiter: []byte(recordedMark),
		take:      func(capacity.Job) error { taken++; return nil },
	}
	one := record(recordedMark, map[string]string{"Comment": strings.Repeat("x", 1000)})
	for range 1000 {
		if _, err := r.Write([]byte(one)); err != nil {
			t.Fatal(err)
		}
	}

	if _, err := r.Write([]byte(one[:len(one)-1])); err != nil || taken != 1000 || cap(r.unread) > 4*len(one) {
		t.Errorf("%v: %d jobs taken, %d bytes kept", err, taken, cap(r.unread))
	}

	if err := r.end(nil); err == nil {
		t.Error("half a record is no error")
	}
	// The taker may stop early: that ends squeue, and the taker's error is the one that counts.
	enough, killed := errors.New("enough"), errors.New("signal: broken pipe")
	r = jobReader{wanted: allFields, delimiter: []byte(recordedMark), take: func(capacity.Job) error { return enough }}
	if _, err := r.Write([]byte(one)); !errors.Is(err, enough) || !errors.Is(r.end(killed), enough) {
		t.Errorf("%v, %v", err, r.end(killed))
	}
}

// R7: a user's text forges no record, even a whole one without the mark, or with the mark of another call.
func TestR7_ForgedRecords(t *testing.T) {
	for _, comment := range []string{
		record("", nil),
		record("\n", nil),
		"\n" + record(newDelimiter(), nil),
		"x" + record("|",
			map[string]string{"Comment": "|"}),
		"\x00",
		"m\nm",
	} {
		mark := newDelimiter()

		text := record(
			mark,
			map[string]string{"Comment": comment, "Name": comment, "Feature": comment},
		) + record(
			mark,
			map[string]string{"JobID": "8"},
		)
		jobs, err := parseJobs(t, []byte(text), mark)
		if err != nil || len(jobs) != 2 || jobs[0].ID != 7 || jobs[1].ID != 8 || jobs[0].Comment != comment ||
			jobs[1].Comment != "" {
			t.Errorf("comment %q: %+v, %v", comment, jobs, err)
		}
	}

	if mark := newDelimiter(); mark == newDelimiter() {
		t.Error("two calls have the same mark")
	}
}

func TestParseNodes(t *testing.T) {
	for _, version := range versions {
		nodes := parseNodes(recorded(t, "node-"+version+".txt"))

		want := []capacity.Node{
			{Name: "cloud1", State: "ALLOCATED+CLOUD"},
			{Name: "cloud2", State: "ALLOCATED+CLOUD"},
			{Name: "cloud3", State: "IDLE+CLOUD+MAINTENANCE+POWERED_DOWN+RESERVED"},
			// The newline in the comment and "State=" in reason and comment change nothing.
			{Name: "cloud4", State: "IDLE+CLOUD+DRAIN+MAINTENANCE+POWERED_DOWN+RESERVED", Reason: "my reason"},
			{Name: "static1", State: "ALLOCATED", Partitions: []string{"static"}, CPUs: 1, Memory: 1000},
		}
		for i := range want[:4] {
			want[i].GPUs, want[i].Memory = 8, 2000
			want[i].Features, want[i].Partitions, want[i].CPUs = []string{"cloud", "gpu"}, []string{"cloud"}, 8
		}

		for i := range want {
			want[i].Address = "127.0.0.1"
		}

		diff := cmp.Diff(want, nodes, cmpopts.EquateEmpty(),
			cmpopts.IgnoreFields(capacity.Node{}, "HostName", "SlurmdStart"))
		if diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
			continue
		}

		if nodes[2].HostName != "cloud3" || !nodes[2].PoweredDown() || nodes[2].IsBusy() || !nodes[0].IsBusy() ||
			nodes[0].PoweredDown() || nodes[0].SlurmdStart.IsZero() {
			t.Errorf("%s: %+v", version, nodes)
		}
	}
}

func TestParseNodesForged(t *testing.T) {
	text := "NodeName=a1 CPUTot=2 NodeAddr=a1 NodeHostName=a1 State=IDLE Partitions=p Reason=x Comment=y\n" +
		"NodeName=a2 State=DOWN\n" + // not a whole record
		"NodeName=a2 CPUTot=2 NodeAddr=a2 NodeHostName=a2 State=IDLE+DRAIN Reason=bad disk: State=DOWN " +
		"[root@1795169912] Extra=\n" +
		"NodeName=a1 NodeAddr=evil NodeHostName=evil State=DOWN\n" +
		"NodeName=$(x) NodeAddr=evil NodeHostName=evil State=DOWN\n"

	got := parseNodes([]byte(text))
	want := []capacity.Node{
		{Name: "a1", State: "IDLE", Address: "a1", HostName: "a1", Partitions: []string{"p"}, CPUs: 2},
		{Name: "a2", State: "IDLE+DRAIN", Address: "a2", HostName: "a2", CPUs: 2, Reason: "bad disk: State=DOWN"},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParsePartitions(t *testing.T) {
	for _, version := range versions {
		got := parsePartitions(recorded(t, "partition-"+version+".txt"))
		want := []capacity.SlurmPartition{
			{
				Name:        "static",
				Default:     true,
				State:       "UP",
				Nodes:       []string{"static1"},
				MaxTime:     capacity.NoLimit,
				DefaultTime: capacity.NoLimit,

				PriorityTier: 1,
				PreemptMode:  "OFF",
			},
			{
				Name:          "cloud",
				State:         "UP",
				Nodes:         []string{"cloud1", "cloud2", "cloud3", "cloud4"},
				MaxTime:       capacity.Minutes(2880),
				DefaultTime:   capacity.Minutes(45),
				AllowAccounts: []string{"nlp", "vis"},
				PriorityTier:  1,
				PreemptMode:   "OFF",
			},
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
	}

	for text, want := range map[string]capacity.Limit{
		"0 min":     capacity.Minutes(0),
		"10":        capacity.Minutes(10),
		"NONE":      {},
		"UNLIMITED": capacity.NoLimit,
	} {
		if got, err := overTime(text); err != nil || got != want {
			t.Errorf("OverTimeLimit=%s: %+v, %v", text, got, err)
		}
	}
	// A job that states no limit has the DefaultTime, or without one the MaxTime.
	for text, want := range map[string]capacity.Limit{
		"MaxTime=60 DefaultTime=10":          capacity.Minutes(10),
		"MaxTime=60 DefaultTime=NONE":        capacity.Minutes(60),
		"MaxTime=UNLIMITED DefaultTime=NONE": capacity.NoLimit,
		"MaxTime=UNLIMITED DefaultTime=10":   capacity.Minutes(10),
	} {
		if got := parsePartitions([]byte("PartitionName=p " + text + "\n")); got[0].Unread != "" ||
			got[0].DefaultTime != want {
			t.Errorf("%s: %+v", text, got)
		}
	}

	for _, bad := range []string{"MaxTime=soon", "Nodes=gpu-[1", "SuspendTime=late"} {
		got := parsePartitions([]byte("PartitionName=p " + bad + " QoS=long\nPartitionName=q Nodes=gpu-1\n"))
		key, _, _ := strings.Cut(bad, "=")
		if len(got) != 2 || !strings.HasPrefix(got[0].Unread, key+": ") || got[0].QOS != "long" ||
			got[1].Unread != "" ||
			len(got[1].Nodes) != 1 {
			t.Errorf("%s: %+v", bad, got)
		}
	}
}

// How Slurm preempts jobs, by the text of scontrol.
func TestParsePreemption(t *testing.T) {
	const version = "SLURM_VERSION = 26.05.5\n"

	for text, want := range map[string]capacity.Preemption{
		"PreemptType = preempt/none\nPreemptMode = OFF\nPreemptExemptTime = 00:00:00\n": {Mode: "OFF"},
		"PreemptType = (null)\nPreemptMode = OFF\n":                                     {Mode: "OFF"},
		"PreemptType = preempt/partition_prio\nPreemptMode = GANG,SUSPEND\nPreemptExemptTime = 00:10:00\n": {
			Type: capacity.ByPartition, Mode: "GANG,SUSPEND", ExemptTime: 10 * time.Minute,
		},
		"PreemptType = preempt/qos\nPreemptMode = REQUEUE\nPreemptExemptTime = NONE\n": {Type: "qos", Mode: "REQUEUE"},
	} {
		if got, err := parseConfig([]byte(version + text)); err != nil || got.Preemption != want {
			t.Errorf("%q: %+v, %v", text, got.Preemption, err)
		}
	}

	got := parsePartitions([]byte("PartitionName=p PriorityTier=0 PreemptMode=REQUEUE GraceTime=60\nPartitionName=q\n"))
	if p := got[0]; p.PriorityTier != 0 || p.PreemptMode != "REQUEUE" || p.GraceTime != time.Minute {
		t.Errorf("%+v", p)
	}

	if got[1].PriorityTier != 1 {
		t.Errorf("without a PriorityTier: %+v", got[1])
	}
}

func TestParseReservations(t *testing.T) {
	for _, version := range versions {
		got := parseReservations(recorded(t, "reservation-"+version+".txt"))
		flags := []string{"MAINT", "IGNORE_JOBS", "SPEC_NODES"}

		want := []capacity.SlurmReservation{
			{
				Name:    "cb1",
				Nodes:   []string{"cloud1", "cloud2"},
				Flags:   flags,
				Users:   []string{"root"},
				Comment: "second",
			},
			{Name: "cb2", Nodes: []string{"cloud1", "cloud2"}, Flags: flags, Users: []string{"root"}},
			{Name: "cb3", Nodes: []string{"cloud3", "cloud4"}, Flags: flags, Users: []string{"root"}, Active: true},
		}
		if version == "22.05" { // refused cb1, which has a comment
			want = want[1:]
		}

		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(capacity.SlurmReservation{}, "Start", "End")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}

		for _, r := range got {
			if r.IsInfinite() != (r.Name != "cb1") || r.Start.Year() != 2026 {
				t.Errorf("%s: %s from %v to %v, infinite: %v", version, r.Name, r.Start, r.End, r.IsInfinite())
			}
		}
	}

	if got := parseReservations([]byte("No reservations in the system\n")); len(got) != 0 {
		t.Errorf("no reservations: %v", got)
	}

	got := parseReservations(
		[]byte("ReservationName=x StartTime=2026-11-20T10:54:13 EndTime=1\nReservationName=y StartTime=1 EndTime=2\n"),
	)
	if len(got) != 2 || !strings.HasPrefix(got[0].Unread, "StartTime: ") || got[0].End.IsZero() || got[1].Unread != "" {
		t.Errorf("a local time: %+v", got)
	}
}

func TestParseConfig(t *testing.T) {
	for version, want := range map[string]Config{
		"22.05": {Version: Version{22, 5, 8}, PrivateData: []string{"cloud"}},
		"24.11": {Version: Version{24, 11, 5}},
		"26.05": {Version: Version{26, 5, 5}, SchedulerParameters: []string{"requeue_delay=2"}},
	} {
		want.SchedulerParameters = append(
			[]string{"bf_interval=2", "sched_interval=2", "batch_sched_delay=0"},
			want.SchedulerParameters...)
		want.ClusterName, want.ConfPath, want.ResumeProgram = "lab", "/lab/etc/slurm.conf", "/lab/bin/resume"
		want.SuspendProgram, want.ResumeFailProgram = "/lab/bin/suspend", "/lab/bin/resumefail"
		want.SlurmctldParameters = []string{
			"idle_on_node_suspend",
			"cloud_dns",
			"power_save_interval=1",
			"power_save_min_interval=0",
		}
		want.StateSaveLocation = "/lab/state"
		want.PluginDirs, want.LogFile = []string{"/usr/lib/x86_64-linux-gnu/slurm-wlm"}, "/lab/log/slurmctld.log"
		want.KillWait, want.SuspendTime, want.OverTime = 30*time.Second, 20*time.Second, capacity.Minutes(0)
		want.ResumeTimeout, want.SuspendTimeout = 8*time.Second, 3*time.Second
		want.SuspendExcNodes = "static1"
		want.Preemption.Mode = "OFF"
		want.Preemption.NoGraceTime = version != "26.05"
		want.ConfServer = "localhost:" + map[string]string{
			"22.05": "23817",
			"24.11": "24817",
			"26.05": "25817",
		}[version]

		got, err := parseConfig(recorded(t, "config-"+version+".txt"))
		if err != nil {
			t.Fatal(err)
		}

		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", version, diff)
		}
	}

	for _, off := range []string{"NONE", "-1 sec", "INFINITE", "4294967295 sec", ""} {
		if d, err := configSeconds(off); err != nil || d != 0 {
			t.Errorf("configSeconds(%q) = %v, %v; want 0", off, d, err)
		}
	}

	for _, bad := range []string{"", "SLURM_VERSION = x", "SLURM_VERSION = 22.05.8\nKillWait = soon"} {
		if _, err := parseConfig([]byte(bad)); err == nil {
			t.Errorf("parseConfig(%q) is not an error", bad)
		}
	}
}

func TestVersion(t *testing.T) {
	for text, want := range map[string]string{
		"slurm-wlm 24.11.5\n": "24.11.5",
		"slurm 25.11.0-0rc1":  "25.11.0",
		"22.05.8":             "22.05.8",
		"slurm 25.05.3":       "25.05.3",
	} {
		if got, err := ParseVersion(text); err != nil || got.String() != want {
			t.Errorf("ParseVersion(%q) = %v, %v", text, got, err)
		}
	}

	if v, err := ParseVersion("slurm 24"); err == nil {
		t.Errorf("ParseVersion = %v, want an error", v)
	}

	for v, collapses := range map[Version]bool{
		{22, 5, 8}:  true,
		{25, 5, 2}:  true,
		{25, 5, 3}:  false,
		{25, 11, 0}: false,
		{26, 5, 5}:  false,
	} {
		if v.TimeMinCollapses() != collapses {
			t.Errorf("%v: TimeMinCollapses is %v", v, !collapses)
		}
	}

	if (Version{22, 5, 8}).ReservationComments() || !(Version{24, 11, 5}).ReservationComments() {
		t.Error("what versions can do")
	}
}

func TestClean(t *testing.T) {
	for _, test := range []struct {
		text  string
		limit int
		want  string
	}{
		{"InsufficientInstanceCapacity: none", 100, "InsufficientInstanceCapacity: none"},
		{" a\nNodeName=b\t\x00c\x1b[31m\xff ", 100, "a NodeName=b c [31m?"},
		{"größe", 3, "gr"},
		{"größe", 4, "grö"},
		{"ab cd", 3, "ab"},
		{"\u2028x\u202e", 9, "x"},
	} {
		if got := Clean(test.text, test.limit); got != test.want {
			t.Errorf("Clean(%q, %d) = %q, want %q", test.text, test.limit, got, test.want)
		}
	}
}

// The first host is the primary controller, the others are backups.
func TestBackups(t *testing.T) {
	c, err := parseConfig(
		[]byte(
			"SLURM_VERSION = 25.11.7\nSlurmctldHost[0] = head1\nSlurmctldHost[1] = head2(10.0.0.2)\nSlurmctldHost[2] " +
				"= head3\n",
		),
	)
	if err != nil || !slices.Equal(c.Backups, []string{"head2", "head3"}) {
		t.Errorf("%q, %v", c.Backups, err)
	}
}
