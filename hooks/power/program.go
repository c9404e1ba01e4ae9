// Package power holds the programs that slurmctld runs to power nodes up and down: pcs-capacity-resume ([Resume]), its
// ResumeProgram, and pcs-capacity-suspend ([Suspend]), its SuspendProgram and ResumeFailProgram. Begin with [PowerUp]
// and [PowerDown], which do their work.
//
//	program    program.go: settings, the site's own program, the log
//	read       read.go: side by side
//	decide     refuse.go, group.go: jobs that may never run here; groups, and where each can go
//	act        launch.go odcr.go takedown.go suspend.go configure.go, on the [World]
//
// A launch that fails is taken down (takedown.go): its nodes go through POWER_DOWN_FORCE, after which Slurm requeues
// their jobs and calls pcs-capacity-suspend, which terminates what was launched (suspend.go).
//
// slurmctld calls the programs with a hostlist and an environment of SLURM_CONF and, for the former, SLURM_RESUME_FILE
// only, and discards what they print: they log to resume.log and suspend.log in `[log] dir` and to syslog. Each may be
// killed at any point and run again, and none of them stands in the way of a job that is not ours.
package power

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"os/signal"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/hooks/internal/hook"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/facts"
	"github.com/pcs-capacity/pcs-capacity/internal/hostlist"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// slurmTimeout bounds one call of scontrol or squeue. It is shorter than the 10 s that a call to a dead
// slurmctld takes, so that a hook can still do its rest.
const slurmTimeout = 8 * time.Second

// program is one of the two programs.
type program struct {
	name     string // "resume" or "suspend", in the names of the program and its log
	setting  string // the setting of slurm.conf that names it, and perhaps a program of the site's before
	calledAs string // all settings that name it, for the usage text
	what     string // what it does, for the log
	advice   string // ends the log's last line after a failure
	do       func(ctx context.Context, h *Hook) error
}

// Resume runs pcs-capacity-resume; it returns the exit status.
func Resume(args []string) int {
	// The process is short-lived, and 1,000 nodes take a few MB: less time for garbage collection, and no more memory
	// than a call of squeue.
	debug.SetGCPercent(400)

	return program{
		name:     "resume",
		setting:  "ResumeProgram",
		calledAs: "ResumeProgram",
		what:     "power up",
		do:       PowerUp,
	}.run(args)
}

// Suspend runs pcs-capacity-suspend; it returns the exit status.
func Suspend(args []string) int {
	return program{
		name:     "suspend",
		setting:  "SuspendProgram",
		calledAs: "SuspendProgram and ResumeFailProgram",
		what:     "power down",
		advice:   "; sync, or the next launch of these nodes, terminates what is left",
		do:       PowerDown,
	}.run(args)
}

func (p program) run(args []string) int {
	began := time.Now()

	if len(args) != 1 || strings.HasPrefix(args[0], "-") {
		fmt.Fprintf(os.Stderr, `usage: pcs-capacity-%s HOSTLIST

Slurm's %s: slurm.conf names it, and slurmctld calls it with
the nodes. It prints nothing: see %[1]s.log in the folder that [log] dir of the settings
names, and syslog.
`, p.name, p.calledAs)

		return 2
	}

	// Before anything changes the environment: the site's program gets Slurm's.
	theirs := newSiteProgram(p.setting)
	path := config.Find("")
	unset := config.LoadEnvironment(config.EnvironmentPath(path))

	cfg, err := config.Load(path)
	if err != nil {
		p.withoutSettings(err, theirs, args[0])
		return 1
	}

	log := hook.Log(cfg.Log.Dir, p.name)
	if unset != nil {
		log.Warn("continuing without its environment", "err", unset)
	}

	// Slurm 23.02 and newer end a ResumeProgram with SIGTERM at ResumeTimeout.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	defer stop()

	// The site's nodes go first: nothing of ours may delay them.
	nodes, err := theirs.start(log, cfg.Domain(), args[0])
	if nodes == "" {
		if err := theirs.wait(err); err != nil {
			log.Error("the site's own nodes", "err", err)
			return 1
		}

		return 0
	}

	log.Info(p.what, "nodes", nodes, "resume_file", os.Getenv("SLURM_RESUME_FILE"))
	h := NewHook(nil, state.Dir(cfg.StateDir), cfg.Domain(), cfg.Cluster, nodes, log)
	h.what = p.what
	h.began = began

	// Without AWS the site's program still has to be waited for, and the failure logged.
	aws, made := ec2.New(ctx, ec2.Options{Region: cfg.Region, OnCall: h.logCall})
	if made == nil {
		h.connect(aws)
		made = p.do(ctx, h)
		h.keepAccess(ctx, aws)
	}

	return h.finish(theirs.wait(errors.Join(err, made)), p.advice)
}

// withoutSettings does what is left to do when the settings cannot be read. Nobody launches our nodes then, and Slurm
// is told so: it gives their jobs other nodes at once, instead of after ResumeTimeout, and check finds the reason on
// the nodes. Beside a program of the site's, only those are known to be ours that hooks install wrote.
func (p program) withoutSettings(unread error, theirs *siteProgram, list string) {
	log := hook.Log(config.Default().Log.Dir, p.name)
	log.Error("nothing is launched or terminated without settings", "err", unread)

	known := capacity.Settings{}
	if written := slurm.IncludedNodes(os.Getenv("SLURM_CONF")); len(written) > 0 {
		group := capacity.GroupSettings{Nodes: written}
		known.Partitions = []capacity.PartitionSettings{
			{Provider: capacity.ProviderEC2, Groups: []capacity.GroupSettings{group}},
		}
	}

	ours, err := theirs.start(log, known, list)
	if ours != "" && p.setting == "ResumeProgram" {
		client := slurm.New("")
		client.Timeout = slurmTimeout
		why := capacity.Problemf(capacity.SettingsUnreadable, capacity.Subject{}, "", "%v", unread)

		if err := powerDownBooting(context.Background(), client, ours, nodeReason(why)); err != nil {
			log.Error("the nodes stay as they are until ResumeTimeout", "nodes", ours, "err", err)
		}
	}

	if err := theirs.wait(err); err != nil {
		log.Error("the site's own nodes", "err", err)
	}
}

// powerDownBooting powers down those nodes of a hostlist that are booting.
func powerDownBooting(ctx context.Context, client *slurm.Client, list, reason string) error {
	names, err := hostlist.Expand(list)
	if err != nil {
		return err
	}

	nodes, err := client.Nodes(ctx, names...)
	if err != nil {
		return err
	}

	var booting []string
	for _, node := range nodes {
		if node.IsBooting() {
			booting = append(booting, node.Name)
		}
	}

	if len(booting) == 0 {
		return nil
	}

	return client.PowerDownForce(ctx, booting, reason)
}

// World has the verbs of the power hooks, on Slurm, EC2, PCS and the files in state_dir. Each is one call.
type World interface {
	facts.AWS

	Config(ctx context.Context) (slurm.Config, error)
	Partitions(ctx context.Context) ([]capacity.SlurmPartition, error)
	BriefJobs(ctx context.Context) ([]capacity.Job, error)
	Nodes(ctx context.Context, names ...string) ([]capacity.Node, error)
	SetAddresses(ctx context.Context, addresses map[string]netip.Addr) error
	PowerDownForce(ctx context.Context, nodes []string, reason string) error
	SetBeginTime(ctx context.Context, job string, at time.Time) error
	SetAdminComment(ctx context.Context, text string, jobs ...string) error
	Notify(ctx context.Context, job, text string) error
	RequeueJob(ctx context.Context, before capacity.Job, hold bool) (after capacity.Job, err error)
	Cancel(ctx context.Context, jobs ...string) error
	UserHold(ctx context.Context, jobs ...string) error

	Launch(ctx context.Context, l capacity.Launch) ([]capacity.Instance, error)
	// Terminate needs the launch times of instances that EC2 may not show yet.
	Terminate(ctx context.Context, instances []capacity.Instance) error
	CreateODCR(ctx context.Context, o capacity.HoldOrder) (capacity.Reservation, error)
	CancelODCR(ctx context.Context, id string) error
	PinTemplate(ctx context.Context, reference string) (string, error)
	BootFailure(ctx context.Context, id string) (string, error)
	// Offset returns AWS's time minus the machine's.
	Offset() time.Duration

	Slots(ctx context.Context, cluster string, names []string) (reservations map[string]string, err error)
	Configure(ctx context.Context, r pcs.ConfigureRequest) (changed bool, err error)

	AddHold(
		h capacity.Hold, now time.Time, allowed func(more capacity.Hold, others []capacity.Hold) error,
	) (capacity.Hold, error)
	RemoveHolds(now time.Time, names ...string) error
	AppendRecords(records ...state.Record) error
}

type (
	slurmClient = slurm.Client
	ec2Client   = ec2.Client
)

// adapters implement the World.
type adapters struct {
	*slurmClient
	*ec2Client
	state.Dir
	pcs.Provisioner
}

// Reservations describes EC2's: Slurm has others.
func (a adapters) Reservations(ctx context.Context, ids []string) ([]capacity.Reservation, []capacity.Missing, error) {
	return a.ec2Client.Reservations(ctx, ids)
}

// Slots lists compute node groups, each with the reservation that it was set up for.
func (a adapters) Slots(ctx context.Context, cluster string, names []string) (map[string]string, error) {
	held, _, err := a.Provisioner.PCS.Slots(ctx, cluster, names)
	return held, err
}

// Hook is one call of a program by slurmctld, with the cluster and the account that it works in.
type Hook struct {
	World
	*journal
	State    state.Dir
	Settings capacity.Settings
	Cluster  string // the PCS cluster; "" for self-managed Slurm
}

// NewHook returns one call by slurmctld, with a hostlist.
func NewHook(w World, dir state.Dir, settings capacity.Settings, cluster, nodes string, log *slog.Logger) *Hook {
	return &Hook{
		World:    w,
		State:    dir,
		Settings: settings,
		Cluster:  cluster,
		journal:  &journal{Logger: log, list: nodes, began: time.Now()},
	}
}

// Now returns AWS's time.
func (h *Hook) Now() time.Time { return time.Now().Add(h.Offset()) }

// connect makes the adapters the World. It asks nobody.
func (h *Hook) connect(aws *ec2.Client) {
	a := adapters{slurmClient: slurm.New(h.Cluster), ec2Client: aws, Dir: h.State}
	a.slurmClient.Timeout = slurmTimeout
	for _, p := range h.Settings.Partitions {
		if p.Provider == capacity.ProviderPCS {
			a.Provisioner = pcs.Provisioner{PCS: pcs.From(aws.Shared()), EC2: aws}
		}

		if slices.ContainsFunc(p.Groups, func(g capacity.GroupSettings) bool { return g.PurchaseOption.IsBlock() }) {
			aws.ExpectBlocks()
		}
	}

	if err := a.Create(); err != nil {
		h.Warn("cannot create the state folder; records will not be written", "err", err)
	}

	h.World = a
}

// PowerUp does the work of pcs-capacity-resume. With provider ec2 it launches the nodes. With provider pcs, where PCS
// launches them, it makes their compute node groups match the reservations.
//
// Every node that Slurm powers up is launched, or goes through POWER_DOWN_FORCE, after which Slurm requeues its job.
// A node that is up is left alone. The error is for nodes that could not be handled: Slurm leaves them to
// ResumeTimeout, or does not wait for them. Running again with the same nodes is harmless: launches carry a
// ClientToken, and the instances of an earlier run are adopted.
func PowerUp(ctx context.Context, h *Hook) error {
	waits, byHand := h.readResumeFile() // first: the file is there only for a while

	last, err := h.State.ReadSnapshot()
	if err != nil {
		h.Info("continuing without the last snapshot", "err", err)
	}

	names, err := hostlist.Expand(h.list)
	if err == nil {
		names, err = hostlist.Expand(hostlist.Compress(names)) // sorted, once each
	}

	if err != nil {
		return fmt.Errorf("reading the nodes to power up: %w", err)
	}

	var nodes, foreign []string

	slots := map[string]slotInfo{}
	for _, n := range names {
		at, ours := slotOf(h.Settings, n)
		switch {
		case !ours:
			foreign = append(foreign, n)
		case at.partition.Provider == capacity.ProviderPCS:
			slots[at.name] = at
		default:
			nodes = append(nodes, n)
		}
	}

	if len(foreign) > 0 {
		h.Warn("no node_group in the settings has these nodes; leaving them alone",
			"nodes", hostlist.Compress(foreign))
	}

	// Side by side: PCS takes minutes to change a compute node group.
	var (
		configured, launched error
		both                 sync.WaitGroup
	)
	if len(slots) > 0 {
		both.Go(func() { configured = h.configureSlots(ctx, slots, last) })
	}

	if len(nodes) > 0 {
		both.Go(func() {
			up, err := h.read(ctx, nodes, last, byHand)
			if err == nil {
				err = h.resume(ctx, up, waits)
			}

			launched = err
		})
	}

	both.Wait()

	return errors.Join(configured, launched)
}

// keepAccess writes down, for `check`, whether this hook had credentials of AWS, and whose. They have been looked for
// by now; this asks nobody but the metadata of the instance.
func (h *Hook) keepAccess(ctx context.Context, aws *ec2.Client) {
	for _, words := range aws.Withheld() {
		h.Warn("EC2 withheld information", "untold", words)
	}

	account, source, err := aws.Shared().Account(context.WithoutCancel(ctx))

	a := state.HookAccess{Account: account, Source: source}
	if err != nil {
		a.Without = err.Error()
	}

	if err := h.State.Hook().Save(&a); err != nil {
		h.Warn("check will not see the AWS credentials of this hook", "err", err)
	}
}

// knownMark returns the mark as the settings have it, or as an earlier hook learned it; "" if neither.
func (h *Hook) knownMark() string {
	if h.Cluster != "" {
		return h.Cluster
	}

	mark, _ := h.State.Mark()

	return mark
}

// describeCluster asks slurmctld for the value of our mark, the PCS cluster or else a ClusterMark, and for the shortest
// ResumeTimeout of our partitions. It keeps the mark for a hook that finds no slurmctld; with a mark that is known
// without it, it is no error if nobody answers, and the timeout is Slurm's default.
func (h *Hook) describeCluster(ctx context.Context) (mark string, resumeTimeout time.Duration, err error) {
	controller, err := h.Config(ctx)
	if err != nil {
		if mark := h.knownMark(); mark != "" {
			return mark, defaultResumeTimeout, nil
		}

		return "", 0, fmt.Errorf("asking Slurm for the name of its cluster: %w", err)
	}

	resumeTimeout = cmp.Or(controller.ResumeTimeout, defaultResumeTimeout)
	if h.Cluster != "" {
		return h.Cluster, resumeTimeout, nil
	}

	// A partition may have a shorter ResumeTimeout than slurm.conf says for all.
	partitions, err := h.Partitions(ctx)
	if err != nil {
		h.Warn("Slurm does not list its partitions; using the ResumeTimeout of slurm.conf", "err", err)
	} else {
		resumeTimeout = cmp.Or(controller.ShortestResumeTimeout(partitions, h.Settings.SlurmNames()), defaultResumeTimeout)
	}

	mark, notKept, err := h.State.LearnMark(controller.StateSaveLocation, controller.ClusterName)
	if notKept != nil {
		h.Warn("the cluster's mark is not kept for when slurmctld does not answer", "err", notKept)
	}

	return mark, resumeTimeout, err
}

// defaultResumeTimeout is Slurm's: slurm.conf(5).
const defaultResumeTimeout = 60 * time.Second

// siteProgram runs the program that a site used for its own nodes before ours replaced it.
type siteProgram struct {
	program     string    // its path; "" if the site has none
	environment []string  // which Slurm made for it
	running     *exec.Cmd // nil before it is started, and if it has no nodes
}

// newSiteProgram runs before anything changes the environment: the site's program gets Slurm's.
func newSiteProgram(setting string) *siteProgram {
	return &siteProgram{program: slurm.SiteProgram(os.Getenv("SLURM_CONF"), setting), environment: os.Environ()}
}

// start starts the site's program for the nodes that are not ours, and returns ours; without such a program, all nodes.
func (p *siteProgram) start(log *slog.Logger, settings capacity.Settings, list string) (ours string, err error) {
	if p.program == "" {
		return list, nil
	}

	names, err := hostlist.Expand(list)
	if err != nil {
		return "", fmt.Errorf("reading the nodes: %w", err)
	}

	var own, theirs []string
	for _, name := range names {
		if _, is := slotOf(settings, name); is {
			own = append(own, name)
		} else {
			theirs = append(theirs, name)
		}
	}

	// Not started with an empty list: the site's program may take that for all nodes.
	if len(theirs) == 0 {
		return list, nil
	}

	log.Info("calling the site's program for its own nodes", "program", p.program, "nodes", hostlist.Compress(theirs))

	p.running = exec.Command(p.program, hostlist.Compress(theirs))
	p.running.Env = p.environment
	if err := p.running.Start(); err != nil {
		// Our own nodes are handled even if the site's program is broken.
		p.running = nil
		return hostlist.Compress(own), fmt.Errorf("the site's program for its own nodes: %w", err)
	}

	return hostlist.Compress(own), nil
}

// wait ends with the site's program, so Slurm waits for it as before; err is passed through.
func (p *siteProgram) wait(err error) error {
	if p.running == nil {
		return err
	}

	if ended := p.running.Wait(); ended != nil {
		return errors.Join(err, fmt.Errorf("%s, the site's program for its own nodes: %w", p.program, ended))
	}

	return err
}

// journal keeps the log of one call by Slurm, and its records. The log has a line for each AWS call, and a last line
// that sums up the records.
type journal struct {
	*slog.Logger
	what  string // such as "power up"
	list  string // of nodes
	began time.Time

	mu       sync.Mutex
	kept     []state.Record // all that were written
	requests []string       // AWS's names of its answers
	refused  []string       // AWS's error codes
}

// logResult logs what was done, or that it failed, and returns the error.
func (j *journal) logResult(err error, what string, attrs ...any) error {
	if err != nil {
		j.Warn("failed: "+what, append(attrs, "err", err)...)
	} else {
		j.Info(what, attrs...)
	}

	return err
}

// logCall logs a call of AWS.
func (j *journal) logCall(a ec2.Call) {
	j.LogAttrs(context.Background(), slog.LevelInfo, "AWS call", a.Attrs()...)

	j.mu.Lock()
	defer j.mu.Unlock()

	j.requests = append(j.requests, a.RequestID)
	j.refused = append(j.refused, a.Code)
}

// record writes records.
func (h *Hook) record(records ...state.Record) {
	for _, r := range records {
		h.Info(r.Message, "nodes", r.Nodes, "jobs", r.Jobs, "reservation", r.Reservation,
			"code", r.Code, "aws_code", r.EC2Code, "instances", r.Instances)
	}

	h.mu.Lock()
	h.kept = append(h.kept, records...)
	h.mu.Unlock()

	if err := h.AppendRecords(records...); err != nil {
		h.Warn("records were not written", "err", err)
	}
}

// finish logs the sum of the call, and returns the exit status. advice is for a non-nil err.
func (j *journal) finish(err error, advice string) int {
	j.mu.Lock()
	defer j.mu.Unlock()

	sums := map[string][]string{"aws_codes": j.refused, "aws_request_ids": j.requests}
	add := func(name string, more ...string) { sums[name] = append(sums[name], more...) }

	for _, r := range j.kept {
		add("jobs", r.Jobs...)
		add("reservations", r.Reservation)
		add("instances", r.Instances...)
		add("codes", r.Code)
		add("aws_codes", r.EC2Code)
	}

	attrs := []any{"nodes", j.list, "ms", time.Since(j.began).Milliseconds()}
	for _, name := range []string{"jobs", "reservations", "instances", "codes", "aws_codes", "aws_request_ids"} {
		all := slices.Compact(slices.Sorted(slices.Values(sums[name])))
		all = removeFunc(all, func(s string) bool { return s == "" })
		if len(all) > 0 {
			attrs = append(attrs, name, all)
		}
	}

	if err != nil {
		j.Error(fmt.Sprintf("%s: failed%s", j.what, advice), append(attrs, "err", err)...)
		return 1
	}

	j.Info(j.what+": done", attrs...)

	return 0
}
