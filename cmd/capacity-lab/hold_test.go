package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/ec2/groups"
	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/lifecycle"
	"github.com/pcs-capacity/pcs-capacity/internal/setup"
	"github.com/pcs-capacity/pcs-capacity/internal/sources"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// secondZone has room for four instances, unlike the zone of the scenario, which has room for one.
const secondZone = `
  [[region.zone]]
  name = "us-east-2b"
  id   = "use2-az2"

  [[region.subnet]]
  id   = "subnet-0bbbbbbbbbbbbbbbb"
  vpc  = "vpc-0aaaaaaaaaaaaaaaa"
  zone = "us-east-2b"
  cidr = "127.10.2.0/24"

  [[region.capacity]]
  zone  = "us-east-2b"
  type  = "c5.large"
  count = 4
`

// TestLongHoldOnPCS: nodes on demand, in two zones of which one lacks room. A job of two nodes runs in the other, jobs
// share what is up, and nothing is held when the nodes are gone.
func TestLongHoldOnPCS(t *testing.T) {
	world, err := os.ReadFile(scenario)
	if err != nil {
		t.Fatal(err)
	}

	const begins = "  [[region.security_group]]"

	path := filepath.Join(t.TempDir(), "world.toml")
	settings := filepath.Join(t.TempDir(), "config.toml")
	before := traces(t)

	text := strings.Replace(string(world), begins, secondZone+"\n"+begins, 1)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}

	p := startUp(t, "", "--scenario", path)
	p.waitReady(t)
	p.awsConfig(t)
	t.Setenv("SLURM_CONF", p.sh(t, "echo $SLURM_CONF"))

	own := fmt.Sprintf("region = \"us-east-2\"\ncluster = \"lab\"\nstate_dir = %q\n[reserve]\nmax_instances = 8\n",
		filepath.Join(p.dir, "holding"))
	if err := os.WriteFile(settings, []byte(own), 0o644); err != nil {
		t.Fatal(err)
	}

	shared, err := awsconfig.Load(t.Context(), ec2.Options{Region: "us-east-2"})
	if err != nil {
		t.Fatal(err)
	}

	aws := ec2.From(shared)
	held := func() []capacity.Reservation {
		found, err := aws.FindReservations(t.Context(), ec2.HoldsQuery("lab"))
		if err != nil {
			t.Fatal(err)
		}

		return found
	}
	pass := func() {
		cfg, err := config.Load(settings)
		if err != nil {
			t.Fatal(err)
		}

		if _, report, err := lifecycle.Pass(t.Context(), sources.New(cfg, aws, pcs.From(shared))); err != nil {
			t.Fatalf("%v\n%+v", err, report)
		}
	}
	// passes makes passes until a command says so.
	passes := func(command, want string) {
		p.until(t, command, func(out string) bool {
			pass()
			return out == want
		})
	}

	p.setUpOnDemand(t, shared, settings)
	pass()

	job := p.sh(t, "sbatch --parsable -p held -N2 --exclusive -o two.out --wrap 'srun hostname; sleep 1'")
	passes("squeue -h -j "+job+" -o %T", "RUNNING")

	if all := held(); len(all) != 1 || all[0].AZID != "use2-az2" || all[0].Used() != 2 {
		t.Errorf("held %+v", all)
	}

	for range 4 {
		p.sh(t, "sbatch -p held -N1 --exclusive -o /dev/null --wrap 'sleep 3'")
	}

	passes("squeue -h -p held | wc -l", "0")

	inside := 0
	for _, r := range held() {
		inside += r.Used()
		if r.Available > 0 {
			t.Errorf("%d of the %d instances of %s are not used", r.Available, r.Total, r.ID)
		}
	}

	up := p.sh(t, "sinfo -h -p held -t idle -N -o %N | wc -l")
	if fmt.Sprint(inside) != up {
		t.Errorf("%d instances are in ODCRs, and %s nodes are up", inside, up)
	}

	p.sh(t, "scontrol update nodename=$(sinfo -h -p held -t idle -o %N) state=power_down")
	passes("sinfo -h -p held -t powered_down -o %D", "4")
	pass()

	if all := held(); len(all) > 0 {
		t.Errorf("left: %+v", all)
	}

	p.end(t, syscall.SIGTERM, before)
}

// setUpOnDemand sets up queue held, of four nodes on demand in two zones.
func (p *upProcess) setUpOnDemand(t *testing.T, shared *awsconfig.Shared, settings string) {
	t.Helper()

	cfg, err := config.Load(settings)
	if err != nil {
		t.Fatal(err)
	}

	s := setup.Setup{
		PCS:    pcs.From(shared),
		EC2:    ec2.From(shared),
		Slurm:  setup.SlurmClient{Client: slurm.New("lab")},
		Groups: groups.From(shared),
		Poll:   200 * time.Millisecond,
	}

	plan, err := s.Plan(t.Context(), setup.Request{
		Queue:        "held",
		NodeGroup:    "held",
		InstanceType: "c5.large",
		MaxNodes:     4,
		Like:         "compute",
		SubnetIDs:    []string{"subnet-0aaaaaaaaaaaaaaaa", "subnet-0bbbbbbbbbbbbbbbb"},
		Config:       cfg,
		ConfigPath:   settings,
	})
	if err == nil {
		err = s.Apply(t.Context(), plan)
	}

	if err != nil {
		t.Fatalf("%v\n%+v", err, plan)
	}
}
