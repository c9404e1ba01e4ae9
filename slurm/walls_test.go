package slurm_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// The limits that accounting allows, compared with what Slurm does with jobs one minute shorter and longer.
func TestLongAccounting(t *testing.T) {
	t.Parallel()

	dir, err := os.MkdirTemp("", "w")
	check(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })

	cluster := start(t, slurmlab.Config{
		Dir: dir, Accounting: true, Extra: []string{"AccountingStorageEnforce=limits"},
		Static: slurmlab.NodeGroup{Partition: "static,special"},
	})
	for _, line := range []string{
		"add qos short set maxwall=60",
		"add qos long set maxwall=600",
		"add qos over set maxwall=700 flags=OverPartQOS",
		"add qos part set maxwall=120",
		"add account nlp maxwall=300 qos=normal,short,long,over",
		"add account vis qos=normal,short defaultqos=short",
		"add user games account=vis defaultaccount=vis",
		"add user games account=nlp",
		"add user games account=nlp partition=special maxwall=20",
		"add user daemon account=vis qos=normal defaultqos=normal",
		"add qos used set grptresmins=cpu=100",
		"add qos each set maxtresrunminspu=cpu=100",
		"add qos twice set usagefactor=2",
		"add account top grpwall=100",
		"add account sub parent=top",
		"add user nobody account=sub",
		"modify user games where account=vis set maxtresmins=cpu=100000",
	} {
		_, err := cluster.Command(deadline(t), "sacctmgr", append([]string{"--immediate"}, strings.Fields(line)...)...)
		check(t, err)
	}
	// slurmctld reads slurm.conf before the QOS of a partition is there; 26.05 does not start then.
	_, err = cluster.Command(deadline(t), "scontrol", "update", "partitionname=special", "qos=part")
	check(t, err)

	client := &slurm.Client{Conf: cluster.Conf()}
	config, err := client.Config(deadline(t))
	check(t, err)

	if !config.ChecksLimits() || config.Accounting() != capacity.AccountsChecked {
		t.Errorf("%+v", config)
	}

	walls, err := client.Walls(deadline(t), config.ClusterName)
	check(t, err)

	static := capacity.Partition{Name: "static"}
	for who, metered := range map[[3]string]bool{
		{"nobody", "sub", ""}:      true,
		{"", "top", ""}:            true,
		{"games", "vis", ""}:       true,
		{"games", "nlp", ""}:       false,
		{"daemon", "vis", ""}:      false,
		{"daemon", "vis", "used"}:  true,
		{"daemon", "vis", "each"}:  true,
		{"daemon", "vis", "twice"}: false,
	} {
		if _, got := walls.MaxWall(who[0], who[1], who[2], static); got != metered {
			t.Errorf("%q: metered %t in %+v", who, got, walls)
		}
	}

	partitions, err := client.Partitions(deadline(t))
	check(t, err)

	for _, c := range []struct {
		user, account, qos, partition string
		minutes                       int
	}{
		{"games", "", "", "static", 60},
		{"games", "vis", "", "static", 60},
		{"daemon", "", "", "static", 0},
		{"games", "nlp", "", "static", 300},
		{"games", "nlp", "long", "static", 600},
		{"games", "nlp", "long", "special", 120},
		{"games", "nlp", "over", "special", 700},
	} {
		p := capacity.Partition{Name: c.partition}
		for _, known := range partitions {
			if known.Name == c.partition {
				p.QOS = known.QOS
			}
		}

		wall, _ := walls.MaxWall(c.user, c.account, c.qos, p)
		if wall.Minutes != c.minutes || wall.Bounded() != (c.minutes > 0) {
			t.Errorf("%+v: %s", c, wall)
			continue
		}

		for _, minutes := range []int{max(c.minutes, 1), c.minutes + 1} {
			args := []string{
				"--reuid=" + c.user,
				"--clear-groups",
				"sbatch",
				"--parsable",
				"--output=/dev/null",
				"--wrap=true",
				"-p",
				c.partition,
				"-t",
				capacity.FormatMinutes(minutes),
			}
			for flag, value := range map[string]string{"--account=": c.account, "--qos=": c.qos} {
				if value != "" {
					args = append(args, flag+value)
				}
			}

			id, err := cluster.Command(deadline(t), "setpriv", args...)
			check(t, err)

			tooLong := c.minutes > 0 && minutes > c.minutes
			job := poll(t, "job "+id, func() (map[string]string, bool) {
				job, err := cluster.Job(deadline(t), id)
				check(t, err)
				return job, job["JobState"] == "COMPLETED" ||
					strings.Contains(job["Reason"], "MaxWallDurationPerJobLimit")
			})
			if (job["JobState"] == "COMPLETED") == tooLong {
				t.Errorf("%+v: a job of %d minutes is %s (%s)", c, minutes, job["JobState"], job["Reason"])
			}
		}
	}
}

func reservation(t *testing.T, client *slurm.Client, name string) capacity.SlurmReservation {
	t.Helper()
	all, err := client.Reservations(deadline(t))
	check(t, err)

	at := slices.IndexFunc(all, func(r capacity.SlurmReservation) bool { return r.Name == name })
	if at < 0 {
		t.Fatalf("no reservation %s in %+v", name, all)
	}

	return all[at]
}

func TestReservationArguments(t *testing.T) {
	good := capacity.SlurmReservation{Name: "a", Nodes: []string{"gpu-1"}, Start: time.Now(), Users: []string{"root"}}
	for name, change := range map[string]func(r *capacity.SlurmReservation){
		"no name":          func(r *capacity.SlurmReservation) { r.Name = "" },
		"name with space":  func(r *capacity.SlurmReservation) { r.Name = "a nodes=ALL" },
		"no nodes":         func(r *capacity.SlurmReservation) { r.Nodes = nil },
		"bad nodes":        func(r *capacity.SlurmReservation) { r.Nodes = []string{"gpu-[1"} },
		"no users":         func(r *capacity.SlurmReservation) { r.Users = nil },
		"user with comma":  func(r *capacity.SlurmReservation) { r.Users = []string{"root,nobody"} },
		"flag with equals": func(r *capacity.SlurmReservation) { r.Flags = []string{"MAINT=x"} },
		"end before start": func(r *capacity.SlurmReservation) { r.End = r.Start.Add(-time.Second) },
	} {
		r := good
		change(&r)

		client := &slurm.Client{Dir: "/nonexistent"} // nothing may be run
		for _, err := range []error{
			client.CreateReservation(context.Background(), r),
			client.UpdateReservation(context.Background(), r),
		} {
			if err == nil || errorsAsCall(err) {
				t.Errorf("%s: %v; want it refused before any call", name, err)
			}
		}
	}
}
