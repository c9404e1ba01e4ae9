package power_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/hookstest"
	"github.com/pcs-capacity/pcs-capacity/internal/slurmlab"
)

// startPowerForNLP starts the power hooks with an accounting daemon and partition gpu for
// account nlp. root, who submits, has the accounts root (by default), bio and nlp.
func startPowerForNLP(t *testing.T) *power {
	t.Helper()
	p := startPower(t, func(cfg *slurmlab.Config) { cfg.Accounting = true })
	settings := fmt.Sprintf(powerConfig, p.state, filepath.Join(p.dir, "log"))
	settings = strings.Replace(settings, `provider = "ec2"`, `provider = "ec2"`+"\nallow_accounts = [\"nlp\"]", 1)
	if err := os.WriteFile(p.settings(), []byte(settings), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"add account nlp,bio", "add user root account=nlp", "add user root account=bio"} {
		p.sacctmgr(strings.Fields(line)...)
	}
	return p
}

func (p *power) sacctmgr(args ...string) {
	p.t.Helper()
	if out, err := p.cluster.Command(hookstest.Deadline(p.t), "sacctmgr", append([]string{"--immediate"}, args...)...); err != nil {
		p.t.Fatal(err, out)
	}
}

// At the launch the account is slurmctld's, which has put the default one in the place
// of none.
func TestDefaultAccountAtLaunch(t *testing.T) {
	p := startPowerForNLP(t)
	wrong := p.submit("-p", "gpu", "-N1")
	p.until("the job of the default account root is held, with the reason", func() bool {
		job := p.show("job", wrong)
		return strings.Contains(job, "Account=root") && strings.Contains(job, " Priority=0 ") && strings.Contains(job, "account-not-allowed: ")
	})
	if p.launches() != 0 {
		t.Errorf("%d instances", p.launches())
	}
	p.sacctmgr("modify", "user", "root", "set", "defaultaccount=nlp")
	right := p.submit("-p", "gpu", "-N1")
	p.wait(right, "COMPLETED")
}
