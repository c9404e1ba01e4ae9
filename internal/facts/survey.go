package facts

import (
	"cmp"
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/config"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
	"github.com/pcs-capacity/pcs-capacity/pcs"
	"github.com/pcs-capacity/pcs-capacity/slurm"
)

// Host describes this host, before anything is read.
type Host struct {
	Config *config.Config
	Hooks  []Hook // those of this host
	Filter string // the path of pcs-capacity-filter; "" if it is not known
	Watch  string // the shell command that keeps `sync --watch` running on this host
}

// Hook is a script of Slurm's on this host, or the settings that slurm.conf includes.
type Hook struct {
	// Name is cli_filter, job_submit or settings.
	Name, File string
	State      string   // installed, loaded, old, missing or foreign
	Wrong      []string // lists why Slurm lacks the settings, each a sentence with its remedy
	Notes      []string // the same for what works, but not as one may think
}

// Surveyor has all that a survey reads from.
type Surveyor struct {
	Host
	EC2    *ec2.Client // nil if there is no client, for EC2Err
	EC2Err error
	PCS    *pcs.Client
	Slurm  *slurm.Client
}

// readEach reads something for each name, side by side.
func readEach[T any](names []string, read func(name string) (T, error)) map[string]Answer[T] {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	found := make([]Answer[T], len(names))

	var all sync.WaitGroup
	for i, name := range names {
		all.Go(func() { found[i] = answerOf(read(name)) })
	}

	all.Wait()

	of := map[string]Answer[T]{}
	for i, name := range names {
		of[name] = found[i]
	}

	return of
}

// Survey has everything that judgements are about. An error stands beside what could not be read.
type Survey struct {
	Host
	Site     // what AWS says of the cluster; SlurmErr is why slurmctld does not answer
	Settings capacity.Settings
	AWSSurvey
	SlurmSurvey
	FileSurvey
}

// AWSSurvey has what AWS answers.
type AWSSurvey struct {
	AWSErr      error                       // why no call of AWS succeeds: nothing else is known then
	Offset      time.Duration               // AWS's time minus the machine's; 0 if AWS did not answer
	Account     string                      // that of this command's credentials; "" if not known
	NoCluster   *capacity.Problem           // the settings name no PCS cluster that there is
	ClusterErr  error                       // why the PCS cluster, or a part of it, is not known
	Permissions map[string]Answer[struct{}] // what EC2 answers when asked for permissions, by action
	// Answers are about the settings, and about the subnets of our PCS node groups.
	Answers
	// Templates are by how the settings name the launch template; those of PCS node groups by ID:VERSION. A template
	// that EC2 does not have is zero.
	Templates map[string]Answer[capacity.LaunchTemplate]
	Launches  []*Launch // of a node of each group

	explain func(error) (words string, general bool) // ec2.Client.Explain, which asks nobody; nil without a client
}

// SlurmSurvey has what slurmctld and Slurm's commands answer.
type SlurmSurvey struct {
	Commands   Answer[slurm.Version] // of the programs that every command takes
	Slurmctld  *slurm.Config         // its settings; nil if it does not answer
	Rights     error                 // slurmctld's answer to who deletes a reservation that does not exist
	Partitions Answer[[]capacity.SlurmPartition]
	Nodes      Answer[[]capacity.Node]
	Guards     Answer[[]capacity.SlurmReservation] // all reservations of Slurm
	// HookCommands are Slurm's programs in HookFolder, which slurmctld's hooks take; where that is "", the error says
	// why they find none. Controller: slurmctld's slurm.conf is on this host.
	Controller   bool
	HookFolder   string
	HookCommands Answer[slurm.Version]
	SiteSuspends bool    // our SuspendProgram calls one of the site's
	Unreadable   []error // why slurmctld's hooks cannot read their settings, each with its remedy
}

// FileSurvey has what the files of this host say.
type FileSurvey struct {
	Exposed         []error                        // the secrets that others can read, each with its remedy
	Programs        map[string]Answer[fs.FileMode] // those of ours that Slurm runs, by path
	NoPlugin        map[string][]string            // the folders in which Slurm has no Lua plugin, by hook
	StateDir        Answer[fs.FileMode]
	ParallelCluster string                    // the text with its version; "" for none
	LastHook        Answer[*state.HookAccess] // nil if none has run
	Mount           state.Mount               // that state_dir is on
	Snapshot        Answer[*capacity.Snapshot]
	Watcher         Answer[string] // the process of `sync --watch`; "" for none

	SettingsReadOnly, StateReadOnly error // why setup cannot write there; nil unless ReadHost has tried
}

// ErrorText returns the words of an error of AWS that stay the same when it repeats.
func (s *Survey) ErrorText(err error) string {
	if s.explain == nil {
		return err.Error()
	}

	words, _ := s.explain(err)

	return words
}

// parallelClusterVersion is a file with the version of AWS ParallelCluster, "aws-parallelcluster-cookbook-3.11.1",
// written when the image was made.
const parallelClusterVersion = "/opt/parallelcluster/.bootstrapped"

// awsTimeout bounds all calls of AWS together.
const awsTimeout = time.Minute

// Survey reads everything, side by side in three stages: what the settings name, what that names, and what nodes are
// launched with. Nothing is changed.
func (in Surveyor) Survey(ctx context.Context) *Survey {
	s := &Survey{Host: in.Host, Settings: in.Config.Domain()}

	s.AWSErr = in.EC2Err
	if in.EC2 != nil {
		s.explain = in.EC2.Explain
		s.Region = in.EC2.Region()
	}

	aws, cancel := context.WithTimeout(ctx, awsTimeout)
	defer cancel()

	stage := func(here []func(), ofAWS ...func()) {
		if s.AWSErr == nil {
			here = append(here, ofAWS...)
		}

		sideBySide(here...)

		if in.EC2 != nil {
			s.Offset = in.EC2.Offset()
		}

		s.Now = time.Now().Add(s.Offset)
	}

	query := Query{Templates: s.Settings.LaunchTemplates()}
	for _, p := range s.Settings.Partitions {
		query.Groups = append(query.Groups, p.Groups...)
	}

	version := func(reference string) (capacity.LaunchTemplate, error) {
		t, _, err := in.EC2.TemplateVersion(aws, reference)
		return t, err
	}
	stage([]func(){func() { in.readSlurmctld(ctx, s) }},
		func() { s.Account, _ = in.EC2.Account(aws) }, // which only helps to compare
		func() {
			if s.UsesPCS() {
				s.NoCluster, s.ClusterErr = s.ReadCluster(aws, in.PCS, in.Config.Cluster)
			}
		},
		func() {
			s.Permissions = readEach(ec2.ReadActions,
				func(action string) (struct{}, error) { return struct{}{}, in.EC2.TryRead(aws, action) })
		},
		func() { s.Templates = readEach(query.Templates, version) })

	if err := s.Permissions["ec2:DescribeCapacityReservations"].Err; err != nil {
		if _, general := in.EC2.Explain(err); general {
			s.AWSErr = err
		}
	}

	var groups []string
	for _, g := range s.OurGroups() {
		groups = append(groups, TemplateOf(g))
		query.Subnets = append(query.Subnets, g.SubnetIDs...)
	}

	stage(
		[]func(){
			func() { in.readRights(ctx, s) },
			func() { in.readSlurm(ctx, s) },
			func() { in.readPrograms(s) },
			func() { in.readFiles(s) },
		},
		func() { maps.Copy(s.Templates, readEach(groups, version)) },
		func() { s.Answers = Read(aws, in.EC2, query) },
		func() { in.tryTerminate(aws, s) },
	)
	s.addLaunches()

	var launches []func()
	for _, l := range s.Launches {
		launches = append(launches, func() { l.Read(aws, in.EC2) },
			func() { l.Tried = answerOf(in.EC2.TryLaunches(aws, l.Trial)) })
	}

	stage(nil, launches...)

	return s
}

// hostTimeout bounds the wait for slurmctld.
const hostTimeout = 20 * time.Second

// ReadHost reads this host for setup, and tries to write where setup will; nothing is changed. cluster is zero on
// self-managed Slurm.
func (in Surveyor) ReadHost(ctx context.Context, cluster pcs.Cluster) *Survey {
	s := &Survey{Host: in.Host}
	s.Cluster = cluster

	ctx, cancel := context.WithTimeout(ctx, hostTimeout)
	defer cancel()

	in.readSlurmctld(ctx, s)
	in.readRights(ctx, s)
	in.readPrograms(s)
	s.SettingsReadOnly = config.TryFolder(filepath.Dir(config.PartitionPath(in.Config.Path, "try")))
	s.StateReadOnly = config.TryFolder(in.Config.StateDir)

	return s
}

func sideBySide(reads ...func()) {
	var all sync.WaitGroup
	for _, read := range reads {
		all.Go(read)
	}

	all.Wait()
}

// tryTerminate asks whether hooks may terminate instances. Only one of ours decides: the policy covers no others.
func (in Surveyor) tryTerminate(ctx context.Context, s *Survey) {
	if !s.UsesEC2() || s.Slurmctld == nil {
		return
	}

	ours, err := in.EC2.FindInstances(ctx, capacity.InstanceQuery{ClusterName: s.Slurmctld.ClusterName})
	if err == nil && len(ours) > 0 {
		s.Permissions["ec2:TerminateInstances"] = Answer[struct{}]{Err: in.EC2.TryTerminate(ctx, ours[0].ID)}
	}
}

// readSlurmctld asks slurmctld for its settings, and the programs for their version.
func (in Surveyor) readSlurmctld(ctx context.Context, s *Survey) {
	sideBySide(func() { s.Commands = answerOf(in.Slurm.Version(ctx)) }, func() {
		running, err := in.Slurm.Config(ctx)

		s.SlurmErr = err
		if err == nil {
			s.Slurmctld = &running
		}
	})
}

// readRights has slurmctld delete a reservation that does not exist, which it tells only to users who may delete one.
func (in Surveyor) readRights(ctx context.Context, s *Survey) {
	if s.Slurmctld != nil {
		s.Rights = in.Slurm.DeleteReservation(ctx, "pcs-capacity-check")
	}
}

// readSlurm asks a slurmctld that answers for the rest.
func (in Surveyor) readSlurm(ctx context.Context, s *Survey) {
	if s.Slurmctld == nil {
		return
	}

	conf := s.Slurmctld.ConfPath
	s.SiteSuspends = slurm.SiteProgram(conf, "SuspendProgram") != ""
	sideBySide(func() { s.Partitions = answerOf(in.Slurm.Partitions(ctx)) },
		func() { s.Nodes = answerOf(in.Slurm.Nodes(ctx)) },
		func() { s.Guards = answerOf(in.Slurm.Reservations(ctx)) }, func() {
			if _, err := os.Stat(conf); err != nil || !s.UsesEC2() {
				return
			}

			s.Controller = true
			s.Unreadable = config.CheckHookAccess(conf, s.Slurmctld.SlurmUID)

			s.HookFolder, s.HookCommands.Err = slurm.HookFolder(conf, slurm.DaemonPath())
			if s.HookFolder != "" {
				s.HookCommands = answerOf((&slurm.Client{Dir: s.HookFolder}).Version(ctx))
			}
		})
}

// readPrograms looks at what Slurm runs of ours.
func (in Surveyor) readPrograms(s *Survey) {
	paths := []string{in.Filter}
	if c := s.Slurmctld; c != nil {
		paths = append(paths, c.Prolog, c.TaskProlog, c.ResumeProgram, c.SuspendProgram, c.ResumeFailProgram)
	}

	s.Programs = readEach(paths, fileMode)

	s.NoPlugin = map[string][]string{}
	for _, hook := range []string{"cli_filter", "job_submit"} {
		if folders, missing := s.SlurmConfig().LacksPlugin(hook + "_lua.so"); missing {
			s.NoPlugin[hook] = folders
		}
	}
}

// SlurmConfig returns what slurmctld runs with, nothing where it does not answer.
func (s *Survey) SlurmConfig() slurm.Config {
	if s.Slurmctld == nil {
		return slurm.Config{}
	}

	return *s.Slurmctld
}

func fileMode(path string) (fs.FileMode, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}

	return info.Mode(), nil
}

// readFiles looks at the files that sync and the hooks have written, and whether sync runs.
func (in Surveyor) readFiles(s *Survey) {
	s.StateDir = answerOf(fileMode(in.Config.StateDir))
	dir := state.Dir(in.Config.StateDir)
	s.LastHook = answerOf(dir.Hook().Read())
	s.Exposed = in.Config.CheckSecrets(s.SlurmConfig().SlurmUID)
	text, _ := os.ReadFile(parallelClusterVersion)

	s.ParallelCluster = string(text)
	if !s.StateDir.Value.IsDir() {
		return
	}

	s.Mount = dir.Mount()

	s.Snapshot = answerOf(dir.ReadSnapshot())
	holder, runs, err := dir.Watcher()
	s.Watcher.Err = err
	if runs {
		s.Watcher.Value = holder.String()
	}
}

// addLaunches notes those of each group into its reservations, as far as its launch template was read.
func (s *Survey) addLaunches() {
	snap := s.Build()
	for i, p := range s.Settings.Partitions {
		for j, g := range p.Groups {
			if p.Provider.Launches() {
				s.addLaunch(Launch{Provider: p.Provider, Group: g.Name, Nodes: g.MaxNodes}, g.LaunchTemplate,
					g.InstanceType, g.SubnetIDs, snap, snap.Partitions[i].Groups[j].ReservationIDs())
			}
		}
	}

	for _, g := range s.OurGroups() {
		l := s.addLaunch(Launch{Provider: capacity.ProviderPCS, Group: g.Name, Nodes: g.Max}, TemplateOf(g),
			strings.Join(g.InstanceTypes, ", "), g.SubnetIDs, snap, []string{g.Tags[capacity.TagReservation]})
		l.Template.ImageID = cmp.Or(g.AMI, l.Template.ImageID)
		l.Template.InstanceProfile = g.InstanceProfile
		l.Trial.Inline = true
		l.Trial.ImageID = l.Template.ImageID
		l.Trial.InstanceProfile = g.InstanceProfile
	}
}

// Build returns a snapshot with what EC2 says of the settings' reservations and subnets.
func (s *Survey) Build() *capacity.Snapshot {
	return capacity.Build(s.Settings, s.Facts(time.Time{}))
}

// addLaunch notes a launch into the first of its reservations that takes launches, where its subnets are.
func (s *Survey) addLaunch(
	of Launch, reference, instanceType string, subnets []string, snap *capacity.Snapshot, reservations []string,
) *Launch {
	l := &of
	if t := s.Templates[reference].Value; t.ID != "" {
		l.Template = t
		s.Launches = append(s.Launches, l)
	}

	l.Template.InstanceType = instanceType

	mark := s.Config.Cluster
	zone := ""

	if mark == "" { // any of this cluster
		name := "check"
		if s.Slurmctld != nil {
			name = s.Slurmctld.ClusterName
		}

		mark = capacity.ClusterMark(name, "0000000000000000")
	}

	try := &l.Trial.Launch
	*try = capacity.Launch{
		LaunchTemplate: reference,
		InstanceType:   l.Template.InstanceType,
		Kind:           capacity.OnDemand,
		Tags:           map[string]string{capacity.TagCluster: mark},
	}
	for _, id := range reservations {
		if r, is := snap.Reservation(id); is && r.IsLiveAt(s.Now) {
			zone = r.AZID
			try.ReservationID = r.ID
			try.Kind = r.Kind
			try.PlacementGroup = r.PlacementGroup

			break
		}
	}

	for _, id := range subnets {
		at := slices.IndexFunc(s.Subnets.Value, func(s ec2.Subnet) bool { return s.ID == id })
		if at >= 0 {
			l.Subnets = append(l.Subnets, s.Subnets.Value[at])
		}

		if zone == "" || at < 0 || s.Subnets.Value[at].AZID == zone {
			l.Trial.Subnets = append(l.Trial.Subnets, id)
		}
	}

	return l
}

// OurGroups returns our PCS node groups with a launch template.
func (s *Survey) OurGroups() []pcs.NodeGroup {
	return slices.DeleteFunc(slices.Clone(s.Groups), func(g pcs.NodeGroup) bool {
		return !s.Owns(g.Tags) || g.Status == pcs.Deleting || !slices.Contains(s.SlotNames(), g.Name) ||
			g.TemplateID == ""
	})
}

// TemplateOf returns the launch template of a PCS node group, ID:VERSION.
func TemplateOf(g pcs.NodeGroup) string { return g.TemplateID + ":" + g.TemplateVersion }

// SlotNames returns the names of all slots on PCS.
func (s *Survey) SlotNames() []string {
	var names []string
	for _, p := range s.Settings.Partitions {
		for _, g := range p.Groups {
			if p.Provider == capacity.ProviderPCS {
				names = append(names, g.SlotNames(p.Provider)...)
			}
		}
	}

	return names
}

// UsesPCS and UsesEC2 report whether any partition is launched so.
func (s *Survey) UsesPCS() bool { return s.Config.Cluster != "" }

func (s *Survey) UsesEC2() bool {
	return slices.ContainsFunc(s.Settings.Partitions,
		func(p capacity.PartitionSettings) bool { return p.Provider.Launches() })
}
