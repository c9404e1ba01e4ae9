package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/pcs-capacity/pcs-capacity/internal/lab/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/lab/slurmlab"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

// upCmd is "capacity-lab up": simulated AWS and a real Slurm, wired together in
// this process, until a signal comes. By itself it is a PCS cluster, an open block, and sync.
type upCmd struct {
	Dir      string `default:"/tmp/capacity-lab" type:"path" help:"Folder for every file of the lab. Its path must be short (unix sockets)."`
	Bare     bool   `help:"Leave out the open block (cr-01ab00000000000b1, two p5.48xlarge for two hours), and sync."`
	Scenario string `type:"existingfile" help:"Scenario of the AWS account; default: the built-in lab scenario." placeholder:"FILE"`
	Bin      string `type:"path" help:"Folder of the product's programs; default: that of capacity-lab." placeholder:"DIR"`
	Plain    bool   `help:"Slurm as a distribution installs it, on machines of its own, not set up for the product. on-head COMMAND runs one on its controller. Takes root."`
	Unkind   bool   `help:"AWS is slow to show new things, and its clock is wrong."`
	Detach   bool   `help:"Run in the background, and print what the shell should evaluate; kill $CAPACITY_LAB_PID stops it."`
}

func (cmd *upCmd) Run() error {
	if cmd.Detach {
		return cmd.detach(terminal.Stdout)
	}
	// SIGHUP: the terminal is gone. SIGPIPE: so is the reader of the output; unasked, it would end this program alone.
	ctx, stop := signal.NotifyContext(
		context.Background(),
		os.Interrupt,
		syscall.SIGTERM,
		syscall.SIGHUP,
		syscall.SIGPIPE,
	)
	defer stop()

	return cmd.run(ctx, terminal.Stdout)
}

// run holds the lab up until ctx ends. What it started is stopped on every way out.
func (cmd *upCmd) run(ctx context.Context, out io.Writer) (err error) {
	l, err := cmd.newLab()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.stop()) }()

	if err := l.start(ctx); err != nil {
		if ctx.Err() != nil {
			return nil // asked to end before it was ready
		}
		return err
	}

	fmt.Fprintf(out, "ready: . %s; log: %s\n", l.envFile(), l.logTo.Name())
	<-ctx.Done()

	return nil
}

// lab is AWS and Slurm on this machine.
type lab struct {
	upCmd
	scenario *awssim.Scenario

	log       *slog.Logger
	logTo     *os.File
	sim       *awssim.Sim
	cluster   *slurmlab.Cluster
	halt      context.CancelFunc // ends the instances, which are goroutines
	instances sync.WaitGroup
	pcs       *pcsPlayer // nil with --plain
	plain     *plainSite // with --plain only
	sync      *exec.Cmd  // nil where it does not run
}

// leastBoot must pass between the launch of a machine and its boot. slurmctld takes a node for booted if now minus its
// uptime is not before the request to power it up. It counts in whole seconds and so does the kernel, which rounds the
// uptime up, and unshare, which begins it with up to one: the boot looks up to three seconds older than it is.
const leastBoot = 3 * time.Second

func (cmd *upCmd) newLab() (*lab, error) {
	scenario := awssim.LabScenario()
	if cmd.Plain {
		scenario = awssim.PlainScenario()
	}

	if cmd.Scenario != "" {
		var err error

		scenario, err = awssim.LoadScenario(cmd.Scenario)
		if err != nil {
			return nil, err
		}
	}

	if cmd.Plain {
		scenario.BootDelay = max(scenario.BootDelay, awssim.Duration(leastBoot))
	}

	if !cmd.Bare && !cmd.Plain && cmd.Scenario == "" {
		addBlock(scenario)
	}

	if cmd.Unkind {
		lag := awssim.Duration(5 * time.Second)
		scenario.Lag, scenario.ClockOffset = awssim.Lag{
			Instances:    &lag,
			Templates:    &lag,
			Tags:         &lag,
			Reservations: &lag,
			Purchases:    &lag,
			Activation:   &lag,
			Groups:       &lag,
		}, awssim.Duration(
			90*time.Second,
		)
	}

	if len(scenario.Regions) == 0 {
		return nil, errors.New("the scenario has no region")
	}

	dir, err := filepath.Abs(cmd.Dir)
	if err != nil {
		return nil, err
	}

	bin, err := programs(cmd.Bin)
	if err != nil {
		return nil, err
	}

	if err := ownFolder(dir); err != nil {
		return nil, err
	}

	if err := os.MkdirAll(filepath.Join(dir, "log"), 0o755); err != nil {
		return nil, err
	}

	logTo, err := os.OpenFile(filepath.Join(dir, "log", "capacity-lab.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	// Before anything of a lab that runs there is changed. The kernel takes the lock back
	// when the process ends, however it ends.
	if err := syscall.Flock(int(logTo.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		logTo.Close()
		return nil, fmt.Errorf("a lab is running in %s already; stop it, or choose another --dir", dir)
	}

	if err := resetFolder(dir); err != nil {
		logTo.Close()
		return nil, err
	}

	l := &lab{upCmd: *cmd, scenario: scenario, log: slog.New(slog.NewTextHandler(logTo, nil)), logTo: logTo}
	l.Dir = dir
	l.Bin = bin

	return l, nil
}

// resetFolder forgets the settings and the state of an earlier lab in the folder. Its logs and its homes stay.
func resetFolder(dir string) error {
	for _, sub := range []string{"etc", "hooks", "state-pcs-capacity", "local-pcs-capacity", "machines"} {
		if err := os.RemoveAll(filepath.Join(dir, sub)); err != nil {
			return err
		}
	}

	for _, sub := range []string{"etc/pcs-capacity/conf.d", "hooks", "state-pcs-capacity"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
			return err
		}
	}

	return nil
}

// programs returns the folder of the product's programs: that of this one, unless another is given.
func programs(given string) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}

	self, err := os.Executable()

	return filepath.Dir(self), err
}

// ownFolder makes a folder, and refuses one that is another user's: who runs the lab evaluates a file of it.
func ownFolder(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}

	// the link, if it is one, and the folder
	for _, look := range []func(string) (os.FileInfo, error){os.Lstat, os.Stat} {
		info, err := look(dir)
		if err != nil {
			return err
		}

		if info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
			return fmt.Errorf("%s belongs to another user; choose another --dir", dir)
		}
	}

	return nil
}

func (l *lab) start(ctx context.Context) error {
	var err error

	l.sim, err = awssim.New(l.scenario, awssim.MachineClock())
	if err != nil {
		return err
	}

	if _, err := l.sim.Listen("127.0.0.1:0"); err != nil {
		return err
	}

	if l.Plain {
		err = l.startPlain(ctx)
	} else {
		err = l.startPCS(ctx)
	}

	if err != nil {
		return err
	}

	if err := l.startSync(); err != nil {
		return err
	}

	return l.writeEnv()
}

// startSync runs the service, as systemd would: jobs without a limit need it.
func (l *lab) startSync() error {
	program := filepath.Join(l.Bin, "pcs-capacity")
	if _, err := os.Stat(program); l.Bare || l.Plain || err != nil {
		return nil
	}

	log, err := os.Create(l.path("log", "sync.log"))
	if err != nil {
		return err
	}
	defer log.Close()

	command := exec.Command(program, "sync", "--watch")

	command.Env = append(os.Environ(), l.environment()...)
	command.Stdout = log
	command.Stderr = log
	if err := command.Start(); err != nil {
		return err
	}

	l.sync = command

	return nil
}

// stop ends Slurm first: its hooks may still call AWS.
func (l *lab) stop() error {
	os.Remove(l.envFile()) // nothing answers there any more

	var errs []error

	if l.sync != nil {
		_ = l.sync.Process.Signal(syscall.SIGTERM)
		_ = l.sync.Wait() // sync.log has what it said
	}

	if l.halt != nil {
		l.halt()
	}

	if l.pcs != nil {
		l.pcs.stop()
	}

	if l.cluster != nil {
		errs = append(errs, l.cluster.Stop())
	}

	l.instances.Wait()

	if l.plain != nil {
		errs = append(errs, l.plain.stop())
	}

	if l.sim != nil {
		errs = append(errs, l.sim.Close())
	}

	return errors.Join(append(errs, l.logTo.Close())...)
}

func (l *lab) path(parts ...string) string {
	return filepath.Join(append([]string{l.Dir}, parts...)...)
}

func (l *lab) envFile() string { return l.path("env") }
func (l *lab) region() string {
	return cmp.Or(l.scenario.Home, l.scenario.Regions[0].Name)
}

// openBlock is the id of the block of `up`.
const openBlock = "cr-01ab00000000000b1"

// addBlock gives the built-in account a block that is open: two p5.48xlarge, for two hours.
func addBlock(s *awssim.Scenario) {
	r := awssim.ReservationScenario{
		ID:    openBlock,
		Kind:  "capacity-block",
		Type:  "p5.48xlarge",
		Zone:  "us-east-2a",
		Count: 2,
	}
	for text, moment := range map[string]*awssim.Moment{"-1h": &r.Start, "+2h": &r.End} {
		if err := moment.UnmarshalText([]byte(text)); err != nil {
			panic(err) // they are compiled in
		}
	}

	at := slices.IndexFunc(s.Regions, func(r awssim.RegionScenario) bool { return r.Name == s.Home })
	s.Regions[at].Reservations = append(s.Regions[at].Reservations, r)
}

// readyTime bounds the start of a lab, on a machine that is busy.
const readyTime = 2 * time.Minute

// detach starts the lab in the background, and prints what the shell is to evaluate when it is ready.
//
// The shell that evaluates it does not see this program's exit status: without a lab it gets a command that fails.
func (cmd *upCmd) detach(out io.Writer) error {
	lab, err := startLab(
		cmd.Dir,
		slices.DeleteFunc(slices.Clone(os.Args[1:]), func(arg string) bool { return arg == "--detach" })...)
	if err != nil {
		fmt.Fprintln(out, "false # no lab")
		return err
	}

	_, err = fmt.Fprintf(out, ". %s; export CAPACITY_LAB_PID=%d\n", shellQuote(lab.env), lab.process.Pid)

	return err
}

// background is a lab that runs as a process of its own.
type background struct {
	process *os.Process
	env     string     // the file to source
	ended   chan error // gets one value, with what the lab has said if it failed
}

// startLab starts this program with arguments, for a lab in a folder, and returns when that is ready.
func startLab(dir string, args ...string) (*background, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}

	self, err := os.Executable()
	if err != nil {
		return nil, err
	}

	if err := ownFolder(dir); err != nil {
		return nil, err
	}

	lab := &background{env: filepath.Join(dir, "env"), ended: make(chan error, 1)}
	if _, err := os.Stat(lab.env); err == nil {
		return nil, fmt.Errorf(
			"a lab is running in %s already, or was killed; stop it and delete %s, or choose another --dir",
			dir,
			lab.env,
		)
	}

	if err := os.MkdirAll(filepath.Join(dir, "log"), 0o755); err != nil {
		return nil, err
	}

	log, err := os.Create(filepath.Join(dir, "log", "up.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()

	child := exec.Command(self, args...)
	child.Stdout = log
	child.Stderr = log

	child.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a Ctrl-C at the terminal is not for it
	if err := child.Start(); err != nil {
		return nil, err
	}

	lab.process = child.Process
	go func() {
		err := child.Wait()
		if err != nil {
			said, _ := os.ReadFile(log.Name())
			err = fmt.Errorf("%w: %s", err, said)
		}

		lab.ended <- err
	}()

	for deadline := time.Now().Add(readyTime); ; time.Sleep(50 * time.Millisecond) {
		if info, err := os.Stat(lab.env); err == nil && info.Size() > 0 {
			return lab, nil
		}

		select {
		case err := <-lab.ended:
			return nil, fmt.Errorf("the lab did not start: %v", err)
		default:
		}

		if time.Now().After(deadline) {
			_ = lab.process.Signal(syscall.SIGTERM)
			return nil, fmt.Errorf("the lab is not ready after %s; see %s", readyTime, log.Name())
		}
	}
}
