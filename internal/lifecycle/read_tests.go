package lifecycle

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
)

// This file reads the tests of nodes: the scripts, what is known of their runs, and the jobs that Slurm shows of them.

// maxScript bounds a test, which travels in a job's script: Slurm takes 4 MB.
const maxScript = 1 << 20

// script is the test of a node group, or why it cannot be used.
type script struct {
	text []byte
	err  error
}

// lookForTests reads the tests of nodes that have run, and those that are to run.
func (p *pass) lookForTests() {
	p.view.Scripts = map[string]script{}
	for _, part := range p.Settings.Partitions {
		for _, g := range part.Groups {
			if g.OpenTest != "" {
				p.view.Scripts[g.OpenTest] = readScript(g.OpenTest)
			}
		}
	}

	if len(p.view.Scripts) == 0 {
		return
	}

	var err error

	p.view.Tests, err = p.State.NodeTests().Read()
	if err != nil && !errors.Is(err, fs.ErrPermission) { // a reader of status may have no right to the file
		p.addFailure(capacity.StateFile, err)
	}
}

func readScript(path string) script {
	text, err := config.ReadTrusted(path)
	switch {
	case err != nil:
		return script{err: err}
	case !strings.HasPrefix(string(text), "#!/"):
		return script{err: fmt.Errorf("%s is no script: it does not begin with #!/", path)}
	case len(text) > maxScript:
		return script{err: fmt.Errorf("%s is larger than 1 MiB", path)}
	}

	return script{text: text}
}

// takeTestJobs takes the jobs of tests out of jobs: they are none of a user's. One that has ended does not show its
// reservation any more when that is gone.
func (p *pass) takeTestJobs(jobs []capacity.Job) []capacity.Job {
	if p.view.TestJobs == nil {
		p.view.TestJobs = map[string]capacity.Job{}
	}

	known := map[string]bool{}
	for _, t := range p.view.Tests {
		for _, r := range t.Runs {
			known[r.Job] = true
		}
	}

	return slices.DeleteFunc(jobs, func(j capacity.Job) bool {
		g, ours := capacity.ParseGuard(j.Reservation)
		is := j.User == "root" && (known[j.Shown] || ours && g.Owner == p.Owner)
		if is {
			p.view.TestJobs[j.Shown] = j
		}

		return is
	})
}
