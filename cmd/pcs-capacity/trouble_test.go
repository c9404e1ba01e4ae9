package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/sources"
)

// manyQuestions are settings for which a pass asks AWS six things.
const manyQuestions = `
state_dir = %q
cluster = "ml"
[timing]
poll = "1s"
[[partition]]
name = "gpu"
provider = "pcs"
[[partition.node_group]]
name = "gpu"
instance_type = "p5.48xlarge"
subnet_ids = ["subnet-0e200000000000a01", "subnet-0e200000000000b02"]
capacity_reservation_ids = ["cr-0e2000000000000a1"]
max_nodes = 4
[[partition.node_group]]
name = "tagged"
instance_type = "p5.48xlarge"
subnet_ids = ["subnet-0e200000000000a01"]
select = { tags = { team = "nlp" } }
max_nodes = 4
[[partition.node_group]]
name = "other"
instance_type = "p5.48xlarge"
subnet_ids = ["subnet-0e200000000000b02"]
select = { tags = { team = "vision" } }
max_nodes = 4
`

// withoutSlurm writes the settings for a machine whose Slurm cannot be asked.
func withoutSlurm(t *testing.T) (path string) {
	t.Helper()

	dir := t.TempDir()
	path = filepath.Join(dir, "config.toml")
	if err := os.WriteFile(path, fmt.Appendf(nil, manyQuestions, filepath.Join(dir, "state")), 0o644); err != nil {
		t.Fatal(err)
	}

	conf := filepath.Join(dir, "slurm.conf")
	if err := os.WriteFile(conf, []byte(downConf), 0o644); err != nil {
		t.Fatal(err)
	}

	t.Setenv("SLURM_CONF", conf)

	return path
}

// TestWatchSaysEachTroubleOnce: the answers of AWS differ in their request ids, and one
// trouble meets every question of a pass; a person is told once.
func TestWatchSaysEachTroubleOnce(t *testing.T) {
	t.Setenv("AWS_MAX_ATTEMPTS", "1") // the SDK would wait between its own attempts

	sim := simulatedAWS(t)
	path := withoutSlurm(t)
	for name, test := range map[string]struct {
		fault awssim.Fault
		lines int // about AWS
		says  string
	}{
		"expired token": {
			awssim.Fault{Code: "ExpiredToken"},
			1,
			"the AWS credentials have expired (ExpiredToken in us-east-2); renew them",
		},
		"no answer": {awssim.Fault{Effect: awssim.CutBefore}, 1, "AWS cannot be reached at "},
		// One for subnets, two tags, the node groups, and the reservation.
		"server error": {awssim.Fault{}, 5, "InternalError: An internal error has occurred"},
	} {
		t.Run(name, func(t *testing.T) {
			sim.ClearFaults()

			if test.fault.Effect == "" {
				test.fault.Effect = awssim.FailBefore
			}

			if _, err := sim.AddFault(test.fault); err != nil {
				t.Fatal(err)
			}

			ctx, stop := context.WithCancel(t.Context())
			defer stop()

			settings := sources.Follower{Path: path}
			passes := 0

			var aws []string

			err := lifecycle.Watch{Sources: func(ctx context.Context, renew bool) (lifecycle.Sources, error) {
				if passes++; passes > 4 {
					stop()
				}

				s, err := settings.Sources(ctx, renew)
				s.Poll = time.Millisecond

				return s, err
			}, Say: func(line string) {
				if !strings.Contains(line, "asking Slurm") {
					aws = append(aws, line)
				}
			}}.Run(ctx)
			if err != nil {
				t.Fatal(err)
			}

			if len(aws) != test.lines || !strings.Contains(strings.Join(aws, "\n"), test.says) {
				t.Errorf("%d lines in %d passes, want %d:\n%s", len(aws), passes-1, test.lines, strings.Join(aws, "\n"))
			}
		})
	}
}

// TestWatchFollowsTheRegion: another region in the settings is asked from the next pass on.
func TestWatchFollowsTheRegion(t *testing.T) {
	simulatedAWS(t)

	path := filepath.Join(t.TempDir(), "config.toml")
	settings := sources.Follower{Path: path}
	for _, region := range []string{"us-east-2", "us-west-2"} {
		if err := os.WriteFile(path, fmt.Appendf(nil, "region = %q\n", region), 0o644); err != nil {
			t.Fatal(err)
		}

		sources, err := settings.Sources(t.Context(), false)
		if err != nil || sources.EC2.Region() != region {
			t.Errorf("%s: %v", region, err)
		}
	}
}

// TestWatchKeepsTheLastGoodSettings: an empty file, as an editor leaves it for a moment, is said and is no order.
func TestWatchKeepsTheLastGoodSettings(t *testing.T) {
	simulatedAWS(t)
	path := withoutSlurm(t)
	settings := sources.Follower{Path: path}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()

	var (
		said []string
		used []lifecycle.Sources
	)

	watch := lifecycle.Watch{
		Say: func(line string) { said = append(said, line) },
		Sources: func(ctx context.Context, renew bool) (lifecycle.Sources, error) {
			if len(used) == 1 {
				if err := os.WriteFile(path, nil, 0o644); err != nil {
					t.Error(err)
				}
			}

			s, err := settings.Sources(ctx, renew)
			s.Poll = time.Millisecond

			used = append(used, s)
			if len(used) == 3 {
				stop()
			}

			return s, err
		},
	}
	if err := watch.Run(ctx); err != nil {
		t.Fatal(err)
	}

	snap, err := used[0].State.ReadSnapshot()
	if err != nil {
		t.Fatal(err)
	}

	const want = "config.toml is empty: restore it, or remove it; the previous settings stay in use"
	if all := strings.Join(said, "\n"); !strings.Contains(all, want) || len(snap.Partitions) == 0 {
		t.Errorf("%d partitions in the snapshot; said:\n%s", len(snap.Partitions), all)
	}

	if told := strings.Join(snap.Texts(capacity.Admin), "\n"); !strings.Contains(told, want) {
		t.Errorf("status says:\n%s", told)
	}
}

// simulatedAWS is the account of the transcripts, for this process and what it starts.
func simulatedAWS(t *testing.T) *awssim.Sim {
	t.Helper()

	scenario, err := awssim.LoadScenario(simWorld)
	if err != nil {
		t.Fatal(err)
	}

	sim, err := awssim.New(scenario, awssim.NewClock(simStart, 0))
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { sim.Close() })

	if err := sim.Serve(t.Setenv, "AWS_EC2_METADATA_DISABLED=true"); err != nil {
		t.Fatal(err)
	}

	return sim
}
