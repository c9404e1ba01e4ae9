package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/model"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Partition all shares its nodes with ours, cpu has others.
func TestJobsThatAPassIsAbout(t *testing.T) {
	m := model.New(time.Now()).Slurm
	settings := capacity.Settings{
		Partitions: []capacity.PartitionSettings{
			{
				Name:     "gpu",
				Provider: capacity.ProviderEC2,
				Groups:   []capacity.GroupSettings{{Name: "gpu-a", MaxNodes: 2}},
			},
		},
	}
	snap := &capacity.Snapshot{
		Partitions: []capacity.Partition{
			{Name: "gpu", Groups: []capacity.NodeGroup{{Name: "gpu-a", Slots: []capacity.Slot{{Name: "gpu-a"}}}}},
		},
	}
	cluster := &Cluster{
		Partitions: []capacity.SlurmPartition{
			{Name: "gpu"},
			{Name: "all", Nodes: []string{"cpu-1", "gpu-a-1", "gpu-a-2"}},
			{Name: "cpu", Nodes: []string{"cpu-1"}},
		},
	}
	cluster.assign(settings)

	if got := strings.Join(cluster.OurPartitions(snap), " "); got != "gpu all" {
		t.Errorf("partitions of ours: %s", got)
	}

	held := capacity.AdminNote{Held: time.Now(), Text: "what it was held for"}.String()
	for _, j := range []capacity.Job{
		{Shown: "1", Partition: "gpu"},
		{Shown: "2", Partition: "all"},
		{Shown: "3", Partition: "cpu,gpu"},
		{Shown: "4", Partition: "cpu"},
		{Shown: "5", Partition: "cpu", AdminComment: held},
		{Shown: "6", Partition: "cpu", Comment: "capacity_reservation_id=cr-0123456789abcdef0"},
		{Shown: "7", Partition: "cpu", Comment: "a=b"},
		{Shown: "8", Partition: "cpu", Nodes: []string{"gpu-a-1"}}, // which the partition had until now
		{Shown: "10", Partition: "gone", Unread: "of nobody"},
		{Shown: "11", Partition: "gpu", Unread: "of ours"},
	} {
		m.Jobs = append(m.Jobs, &model.Job{Job: j})
	}

	shown := func(jobs []capacity.Job) string {
		var all []string
		for _, j := range jobs {
			all = append(all, j.Shown)
		}

		return strings.Join(all, " ")
	}
	for _, test := range []struct {
		oursOnly              bool
		also, jobs, elsewhere string
	}{{false, "", "1 2 3 8", "4 5 6"}, {true, "", "1 2 3", ""}, {true, "cpu", "1 2 3 8", "4 5 6 7"}} {
		p := passOf(
			Sources{
				Settings:         settings,
				OursOnly:         test.oursOnly,
				SharedPartitions: strings.Fields(test.also),
				World:            World{Slurm: m},
			},
			View{
				Snap:     snap,
				Cluster:  cluster,
				OursOnly: test.oursOnly,
				SavedRecords: map[string]state.JobRecord{
					"4": {FenceRequeues: 4}, "11": {FenceRequeues: 3}, "12": {FenceRequeues: 2},
				},
			},
		)
		if err := p.readJobs(t.Context()); err != nil {
			t.Fatal(err)
		}

		if got := shown(p.view.Jobs); got != test.jobs {
			t.Errorf("of ours only: %v, also of %q: jobs %s, not %s", test.oursOnly, test.also, got, test.jobs)
		}

		if got := strings.Join(p.view.Snap.Texts(capacity.Admin), "\n"); got != "job 11 cannot be read (of ours): "+
			"its time limit and holds stay as they are" {
			t.Errorf("of ours only: %v, also of %q: %s", test.oursOnly, test.also, got)
		}

		if got := shown(p.view.Elsewhere); got != test.elsewhere {
			t.Errorf(
				"of ours only: %v, also of %q: elsewhere %s, not %s",
				test.oursOnly,
				test.also,
				got,
				test.elsewhere,
			)
		}
		// What is known of a job stays while it cannot be read or is in another partition, until Slurm has it no more.
		records := trustedRecords(p.view)
		if records["4"].FenceRequeues != 4 || records["11"].FenceRequeues != 3 {
			t.Errorf("of ours only: %v, also of %q: records %v", test.oursOnly, test.also, records)
		}

		if _, kept := records["12"]; kept != test.oursOnly {
			t.Errorf("of ours only: %v, also of %q: records %v", test.oursOnly, test.also, records)
		}
		// The next pass also looks where job 8 was seen.
		if got, seen := strings.Join(p.sharedPartitions(), " "), strings.Contains(test.jobs, "8"); (got == "cpu") != seen {
			t.Errorf("of ours only: %v, also of %q: the next pass also looks at %q", test.oursOnly, test.also, got)
		}
	}
	// Slurm has no partition of ours yet.
	p := passOf(Sources{OursOnly: true, World: World{Slurm: m}}, View{Snap: snap, Cluster: &Cluster{}})
	if err := p.readJobs(t.Context()); err != nil || p.view.Jobs == nil || len(p.view.Jobs) > 0 {
		t.Errorf("without a partition: %v %v", p.view.Jobs, err)
	}
}

// What Slurm says takes the place of what was known. Limits of accounting that were never read are not known.
func TestKnownFactsOfSlurmAreReplaced(t *testing.T) {
	p := passOf(
		Sources{World: World{State: state.Dir(t.TempDir())}},
		View{
			Snap: oneSlot("ec2", nil),
			Cluster: &Cluster{
				WallsErr: errMute, slots: map[string][]string{"gpu": {"gpu-1"}},
				Nodes: []capacity.Node{
					{Name: "gpu-1", GPUs: 4, CPUs: 8},
				}, Partitions: []capacity.SlurmPartition{{Name: "gpu"}},
			},
		},
	)
	group := &p.view.Snap.Partitions[0].Groups[0]
	p.view.Snap.DefaultPartition, group.GPUs, group.CPUs = "gone", 8, 16
	p.view.Cluster.ResumeTimeout = 20 * time.Minute
	p.addSlurm()

	if timeout := p.view.Snap.Partitions[0].ResumeTimeout.Duration; timeout != 20*time.Minute {
		t.Errorf("ResumeTimeout is %s", timeout)
	}

	if snap := p.view.Snap; snap.DefaultPartition != "" || group.GPUs != 4 || group.CPUs != 8 || !snap.Walls.Unknown {
		t.Errorf("%+v", snap)
	}
}

// Root's files are given to the owner of state_dir; an owner who is neither root nor SlurmUser is reported.
func TestOwnerOfTheStateFolder(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root gives files away")
	}

	for _, uid := range []int{0, 1001, 1002} {
		p := passOf(
			Sources{World: World{State: state.Dir(t.TempDir())}},
			View{
				Snap: oneSlot("ec2", nil),
				Cluster: &Cluster{
					Config:     slurm.Config{SlurmUID: 1001},
					Partitions: []capacity.SlurmPartition{{Name: "gpu"}},
				},
			},
		)
		if err := os.Chown(string(p.State), uid, uid); err != nil {
			t.Fatal(err)
		}

		p.view.Cluster.slots = map[string][]string{"gpu": {"gpu-1"}}
		p.addSlurm()

		if said := strings.Join(p.view.Snap.Texts(capacity.Admin), "\n"); strings.Contains(
			said,
			"belongs to user 1002, who is neither root nor SlurmUser",
		) != (uid == 1002) ||
			uid != 1002 && said != "" {
			t.Errorf("of user %d: %q", uid, said)
		}
	}
}

// A pass says what keeps slurmctld's hooks from their settings.
func TestSettingsThatHooksCannotRead(t *testing.T) {
	etc := t.TempDir()
	conf := filepath.Join(etc, "slurm.conf")
	settings := filepath.Join(etc, "pcs-capacity", "config.toml")

	err := errors.Join(
		os.Mkdir(filepath.Dir(settings), 0o700),
		os.WriteFile(settings, nil, 0o600),
		os.WriteFile(conf, nil, 0o644),
	)
	if err != nil {
		t.Fatal(err)
	}

	for _, provider := range []capacity.Provider{capacity.ProviderEC2, capacity.ProviderPCS} {
		of := capacity.Settings{Partitions: []capacity.PartitionSettings{{Name: "gpu", Provider: provider}}}

		p := passOf(
			Sources{World: World{State: state.Dir(t.TempDir())}, Settings: of},
			View{
				Snap:    oneSlot(provider, nil),
				Cluster: &Cluster{Config: slurm.Config{ConfPath: conf, SlurmUID: os.Geteuid()}},
			},
		)
		if os.Geteuid() == 0 {
			p.view.Cluster.SlurmUID = 65534
		} else if err := os.Chmod(settings, 0); err != nil {
			t.Fatal(err)
		}

		p.addSlurm()

		said := fmt.Sprint(p.view.Snap.Problems)
		if strings.Contains(
			said,
			"cannot launch nodes: SlurmUser cannot read "+settings,
		) != (provider == capacity.ProviderEC2) {
			t.Errorf("%s: %s", provider, said)
		}
	}
}

// asked keeps the partitions whose jobs were listed.
type asked struct {
	*model.Slurm
	of [][]string
}

func (a *asked) JobsOf(
	ctx context.Context,
	partitions []string,
	wanted func(capacity.Job) bool,
) (live, ended []capacity.Job, err error) {
	a.of = append(a.of, partitions)
	return a.Slurm.JobsOf(ctx, partitions, wanted)
}

func TestWatchLooksElsewhereNowAndThen(t *testing.T) {
	w := newStage(t)
	a := &asked{Slurm: w.slurm}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()

	sources := w.sources

	sources.Slurm, sources.Poll = a, time.Millisecond
	err := Watch{Say: func(string) {}, Sources: func(context.Context, bool) (Sources, error) {
		if len(a.of) > 2*allJobsEvery {
			stop()
		}
		return sources, nil
	}}.Run(ctx)
	if err != nil || len(a.of) < 2*allJobsEvery {
		t.Fatal(len(a.of), err)
	}

	for i, partitions := range a.of {
		if want := []string{"solo"}; i%allJobsEvery == 0 && partitions != nil ||
			i%allJobsEvery != 0 && !slices.Equal(partitions, want) {
			t.Errorf("pass %d asked for jobs of %q", i+1, partitions)
		}
	}
}

// AllowAccounts is compared in each partition that Slurm has. That Slurm does not check accounts is said once.
func TestUnlocked(t *testing.T) {
	nlp := []string{"nlp"}
	snap := &capacity.Snapshot{
		Partitions: []capacity.Partition{
			{Name: "all"},
			{Name: "not-in-slurm", AllowAccounts: nlp},
			{Name: "locked", AllowAccounts: nlp},
			{Name: "open", AllowAccounts: nlp},
		},
	}

	var got capacity.Problems
	got.Add(
		checkAccounts(
			View{
				Snap: snap,
				Cluster: &Cluster{
					Config: slurm.Config{Accounts: true},
					Partitions: []capacity.SlurmPartition{
						{Name: "all"},
						{Name: "locked", AllowAccounts: nlp},
						{Name: "open"},
					},
				},
			},
		)...)

	if len(got) != 2 || !strings.HasPrefix(got[0].Text(), "allow_accounts has no effect") ||
		!strings.HasPrefix(got[1].Text(), "partition open: ") {
		t.Errorf("%q", got)
	}
}

// The mark that sync uses, by the files in slurmctld's folder and in state_dir.
func TestMarkOfSync(t *testing.T) {
	const one, two = "0123456789abcdef", "fedcba9876543210"
	for name, test := range map[string]struct {
		clusterName, id string // in slurmctld's folder; "" for no file
		kept            string // in state_dir
		want            string
		err             string
	}{
		"on the controller":                       {"lab", one, "lab/" + one, "lab/" + one, ""},
		"state_dir was deleted":                   {"lab", one, "", "lab/" + one, ""},
		"elsewhere":                               {"", "", "lab/" + one, "lab/" + one, ""},
		"before the first power-up":               {"lab", "", "", "", "no power-up has created an id"},
		"slurmctld's state was cleared":           {"lab", "", "lab/" + one, "", "no power-up has created an id"},
		"elsewhere, and nothing is kept":          {"", "", "", "", "run sync on Slurm's controller"},
		"elsewhere, and kept of another name":     {"", "", "lab2/" + one, "", "is not that of cluster lab"},
		"here was another cluster's controller":   {"lab2", two, "lab/" + one, "lab/" + one, ""},
		"here was a controller of the same name":  {"lab", two, "lab/" + one, "", "delete"},
		"a broken id is not passed over silently": {"lab", "x", "lab/" + one, "", "does not have 16 hex digits"},
	} {
		t.Run(name, func(t *testing.T) {
			stateSave, dir := t.TempDir(), state.Dir(t.TempDir())
			for file, text := range map[string]string{
				filepath.Join(stateSave, "clustername"):     test.clusterName,
				filepath.Join(stateSave, "pcs-capacity-id"): test.id,
				filepath.Join(string(dir), "mark"):          strconv.Quote(test.kept),
			} {
				if text == "" {
					continue
				}

				if err := os.WriteFile(file, []byte(text+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}

			got, err := clusterMark(dir, stateSave, "lab")
			if got != test.want || (err == nil) != (test.err == "") ||
				err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("%q, %v; want %q, %q", got, err, test.want, test.err)
			}
		})
	}
}

// Marks that cannot be read or kept are told, and those of this pass count.
func TestMarksWithoutAState(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/state", nil, 0o644); err != nil {
		t.Fatal(err)
	}

	p := passOf(Sources{World: World{State: state.Dir(dir + "/state")}}, View{Snap: oneSlot("ec2", nil)})
	p.view.Jobs = []capacity.Job{{Shown: "1", State: "PENDING", Partition: "gpu", TimeMin: capacity.Minutes(2)}}
	p.view.JobRecords = trustedRecords(p.view)
	p.carryOut(t.Context(), saveJobRecords(p.view, nil))

	if !p.view.JobRecords["1"].Fit || len(p.view.Snap.Texts(capacity.Admin)) != 1 {
		t.Errorf("%+v, problems %q", p.view.JobRecords, p.view.Snap.Texts(capacity.Admin))
	}
}

// Which pending jobs a pass gives a limit to.
func TestUnfits(t *testing.T) {
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	snap := func() *capacity.Snapshot {
		return &capacity.Snapshot{
			TakenAt: now, ClockOffset: capacity.Duration{Duration: time.Hour},
			Submit: capacity.Submit{Strict: true, StaleAfter: capacity.Duration{Duration: time.Minute}},
			Timing: capacity.Timing{
				DrainMargin: capacity.Duration{Duration: 10 * time.Minute},
				ReclaimLead: capacity.Duration{Duration: 30 * time.Minute},
			},
			Partitions: []capacity.Partition{
				{
					Name: "gpu", Provider: capacity.ProviderPCS, MinTime: capacity.Duration{Duration: 30 * time.Minute},
					Groups: []capacity.NodeGroup{
						{
							Name:           "gpu",
							InstanceType:   "p5.48xlarge",
							PurchaseOption: capacity.CapacityBlock,
							MaxNodes:       4,
							Slots: []capacity.Slot{
								{Name: "gpu-a", ReservationIDs: []string{"cr-0aaaaaaaaaaaaaaa1"}},
							},
						},
					},
				},
			},
			Reservations: []capacity.Reservation{
				{
					ID:           "cr-0aaaaaaaaaaaaaaa1",
					Kind:         capacity.CapacityBlock,
					State:        capacity.StateActive,
					InstanceType: "p5.48xlarge",
					Total:        4,
					Start:        now.Add(-time.Hour),
					End:          now.Add(10*time.Hour + 40*time.Minute),
				},
			},
		}
	}
	lenient := func(s *capacity.Snapshot) { s.Submit.Strict = false }
	open := func(s *capacity.Snapshot) {
		s.Reservations[0].Kind, s.Reservations[0].End = capacity.ODCR, time.Time{}
		s.Partitions[0].Groups[0].PurchaseOption = capacity.ODCR
	}
	short := func(s *capacity.Snapshot) { s.Reservations[0].End = now.Add(65 * time.Minute) }

	fit := capacity.Edits{TimeLimit: capacity.Minutes(600), TimeMin: capacity.Minutes(31)}
	fromLater := fit
	fromLater.TimeLimit = capacity.Minutes(480)
	for name, test := range map[string]struct {
		job    capacity.Job
		change func(*capacity.Snapshot)
		edits  capacity.Edits // none: left alone, or never
	}{
		"unlimited":              {job: capacity.Job{TimeLimit: capacity.NoLimit}, edits: fit},
		"not set":                {job: capacity.Job{}, edits: fit},
		"the partition's limit":  {job: capacity.Job{TimeLimit: capacity.Minutes(5 * 1440)}, edits: fit},
		"a limit of its own":     {job: capacity.Job{TimeLimit: capacity.Minutes(5*1440 + 1)}},
		"the same, and it fits":  {job: capacity.Job{TimeLimit: capacity.Minutes(600)}},
		"another partition too":  {job: capacity.Job{Partition: "gpu,cpu", TimeLimit: capacity.NoLimit}},
		"another partition":      {job: capacity.Job{Partition: "cpu", TimeLimit: capacity.NoLimit}},
		"with a comment":         {job: capacity.Job{TimeLimit: capacity.NoLimit, Comment: "run 7"}, edits: fit},
		"a --time-min that fits": {job: capacity.Job{TimeLimit: capacity.NoLimit, TimeMin: capacity.Minutes(90)}},
		"begins in Slurm's clock": {
			job:   capacity.Job{TimeLimit: capacity.NoLimit, Eligible: now.Add(time.Hour)},
			edits: fromLater,
		},
		"a --time-min too long": {job: capacity.Job{TimeLimit: capacity.NoLimit, TimeMin: capacity.Minutes(601)}},
		"too little is left":    {job: capacity.Job{TimeLimit: capacity.NoLimit}, change: short},
		"of a foreign reservation": {
			job: capacity.Job{TimeLimit: capacity.NoLimit, Comment: "capacity_reservation_id=cr-0123456789abcdef0"},
		},
		"not strict":     {job: capacity.Job{TimeLimit: capacity.NoLimit}, change: lenient, edits: fit},
		"without an end": {job: capacity.Job{TimeLimit: capacity.NoLimit}, change: open},
	} {
		t.Run(name, func(t *testing.T) {
			j, s := test.job, snap()
			if test.change != nil {
				test.change(s)
			}

			if j.Partition == "" {
				j.Partition = "gpu"
			}

			defaults := map[string]capacity.Limit{"gpu": capacity.Minutes(5 * 1440), "cpu": capacity.NoLimit}

			w := waiter{s, now, nil, map[jobKey]stuckReason{}}
			if got := w.edits(j, state.JobRecord{}, defaults); got != test.edits {
				t.Errorf("got %+v, want %+v", got, test.edits)
			}
		})
	}
}

// A refusal that this pass alone has read changes no note, whatever it says: the job's owner was told, or was not.
func TestNotesWaitForTheSecondPass(t *testing.T) {
	refuses := oneSlot("ec2", []string{"cr-0"}, block("cr-0", "-1h", "24h", capacity.StateExpired))
	refuses.TakenAt, refuses.Submit.Strict = noon, true
	refuses.Submit.StaleAfter.Duration = time.Hour
	j := capacity.Job{Shown: "7", State: "PENDING", Partition: "gpu", NumNodes: 1, TimeLimit: capacity.Minutes(60)}

	for name, c := range map[string]struct {
		before *capacity.Snapshot
		note   string
		begins string // the new note; "" if the present one stays
	}{
		"refused twice":            {before: refuses, begins: cannotStart},
		"refused now":              {before: &capacity.Snapshot{}},
		"refused now, and told so": {before: &capacity.Snapshot{}, note: cannotStart + "x"},
	} {
		j.AdminComment = c.note
		got, needed := (&waiter{refuses, noon, c.before, map[jobKey]stuckReason{}}).note(j)
		if needed != (c.begins != "") || !strings.HasPrefix(got.String(), c.begins) {
			t.Errorf("%s: %q", name, got)
		}
	}
}
