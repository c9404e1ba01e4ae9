// Package slurmlab runs a real Slurm cluster in one folder: slurmctld, slurmd
// and munged of the distribution's packages, on loopback, without systemd.
//
// Use it where a fake scontrol would only confirm what its author believed:
//
//	cluster, err := slurmlab.Start(ctx, slurmlab.Config{
//		Dir:         t.TempDir(),
//		CloudGroups: []slurmlab.NodeGroup{{Prefix: "gpu-", Count: 4, Partition: "gpu"}},
//	})
//	if err != nil {
//		t.Fatal(err)
//	}
//	t.Cleanup(func() { cluster.Stop() })
//	id, err := cluster.Submit(ctx, "hostname", "-p", "gpu")
//	_, err = cluster.WaitJob(ctx, id, "COMPLETED")
//
// A static node and its partition are always there, so that jobs which nothing of ours manages can run beside the cloud
// nodes. Cloud nodes have a port but no address: whoever launches one sets the address at run time, as on a real
// cluster. Without a ResumeProgram the lab powers nodes up itself.
//
// Several clusters run side by side: each takes a block of free ports. Every file is below Dir. Stop ends every process
// that the cluster started, jobs included, and nothing else; so does the next Start in the same Dir when the program
// that called the first one was killed. Slurm 22.05 to 26.05 work; root is needed for jobs of other users and
// for fake GPUs that show up in CUDA_VISIBLE_DEVICES.
package slurmlab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/singleflight"
)

// Cluster is a running Slurm cluster. Its methods may be called from several goroutines at once.
type Cluster struct {
	dir       string
	conf      string
	version   int    // of Slurm, 2205 for 22.05
	user      string // who runs the daemons
	lock      *os.File
	firstPort int
	ports     net.Listener // keeps the block of ports from there on
	fifo      *os.File

	ctx    context.Context // ends with Stop: work that power calls started
	cancel context.CancelFunc
	power  sync.WaitGroup
	looks  singleflight.Group // of prologs at nodes

	mu       sync.Mutex // guards what follows, and one change of the daemons at a time
	cfg      Config
	nodePort map[string]int // node name to port, kept for good
	ctld     *daemon
	nodes    map[string]*daemon
	stopped  bool
}

// Start writes the files of cfg below cfg.Dir and starts the daemons. It returns when slurmctld answers and the static
// nodes are registered. Jobs of an earlier cluster in the same folder are forgotten, and its processes are stopped
// first if the program that ran it was killed.
//
// A start that fails stops what it had started; the error names the log to read and quotes its last lines.
func Start(ctx context.Context, cfg Config) (*Cluster, error) {
	version, err := installedVersion(ctx)
	if err != nil {
		return nil, err
	}

	cfg, err = cfg.withDefaults()
	if err != nil {
		return nil, err
	}

	me, err := user.Current()
	if err != nil {
		return nil, err
	}

	c := &Cluster{
		user:     me.Username,
		dir:      cfg.Dir,
		conf:     filepath.Join(cfg.Dir, "etc", "slurm.conf"),
		version:  version,
		nodePort: map[string]int{},
		nodes:    map[string]*daemon{},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if err := c.start(ctx, cfg); err != nil {
		return nil, errors.Join(err, c.Stop())
	}

	return c, nil
}

func (c *Cluster) start(ctx context.Context, cfg Config) error {
	if err := c.makeFolders(); err != nil {
		return err
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	var err error

	c.firstPort, c.ports, err = takePorts()
	if err != nil {
		return err
	}

	if err := c.writeConfig(cfg); err != nil {
		return err
	}

	for _, step := range []func(context.Context) error{
		c.servePower,
		c.startMunged,
		c.startAccounting,
		c.startController,
		c.startStatic,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}

	return nil
}

// makeFolders takes the folder for this process, ends what an earlier one left behind and makes the empty tree.
func (c *Cluster) makeFolders() error {
	for _, name := range []string{".", "run", "etc", "log", "bin", "dev", "jobs"} {
		if err := os.MkdirAll(filepath.Join(c.dir, name), 0o755); err != nil {
			return err
		}
	}

	lock, err := os.OpenFile(filepath.Join(c.dir, "run", "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return err
	}
	// The kernel gives the lock back when this process ends, however it ends.
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		lock.Close()
		return fmt.Errorf("a cluster is running in %s already", c.dir)
	}

	c.lock = lock
	if err := stopOwned(c.conf, ""); err != nil {
		return fmt.Errorf("cleaning up after an earlier cluster in %s: %w", c.dir, err)
	}
	// Nodes of the earlier cluster are gone, so are its jobs.
	for _, name := range []string{"state", "spool", "run/prolog"} {
		path := filepath.Join(c.dir, name)
		if err := cmp.Or(os.RemoveAll(path), os.Mkdir(path, 0o755)); err != nil {
			return err
		}
	}

	os.Remove(c.stoppingFile())
	// Any user may write the output of jobs, as in /tmp. munged and other users must be able to enter.
	return cmp.Or(os.Chmod(filepath.Join(c.dir, "jobs"), 0o777|os.ModeSticky), os.Chmod(c.dir, 0o755))
}

// Stop ends every process of the cluster, jobs included, at once. The files stay. It is safe to call twice.
func (c *Cluster) Stop() error {
	c.mu.Lock()
	again := c.stopped
	c.stopped = true // no node is started any more
	c.mu.Unlock()

	if again {
		return nil
	}

	c.cancel()

	var err error
	if c.lock != nil { // else the folder is not ours
		err = stopOwned(c.conf, "")
		defer c.lock.Close()
	}

	if c.fifo != nil {
		c.fifo.Close()
	}

	c.power.Wait()

	if c.ports != nil {
		c.ports.Close()
	}

	return err
}

// Reload writes the files of cfg, stops slurmctld cleanly and starts it again (scontrol reconfigure ends slurmctld
// 22.05 when nodes were added or removed). Running jobs, run-time node addresses and ports of nodes survive; the slurmd
// of a node that is no longer configured is stopped. Dir and Accounting cannot change.
func (c *Cluster) Reload(ctx context.Context, cfg Config) error {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return err
	}

	c.mu.Lock()
	defer c.mu.Unlock()

	if c.stopped {
		return errors.New("reload: the cluster is stopped")
	}

	if cfg.Dir != c.cfg.Dir || cfg.Accounting != c.cfg.Accounting {
		return errors.New("reload: Dir and Accounting cannot change")
	}

	if err := c.stopController(); err != nil {
		return err
	}

	if err := c.writeConfig(cfg); err != nil {
		return err
	}

	for name, node := range c.nodes {
		if slices.Contains(cfg.nodes(), name) {
			node.signal(syscall.SIGHUP) // reads the new configuration; its jobs go on
		} else if err := c.stopNode(name); err != nil {
			return err
		}
	}

	if err := c.startController(ctx); err != nil {
		return err
	}

	return c.startStatic(ctx) // new ones; those that run are left alone
}

// Dir returns the folder of the cluster, absolute and without symbolic links.
func (c *Cluster) Dir() string { return c.dir }

// Conf returns the path of slurm.conf.
func (c *Cluster) Conf() string { return c.conf }

// RegistersAddress reports whether this Slurm may take the address of a cloud node from the connection by which its
// slurmd registers, instead of keeping the one that was set when it was powered up: seen on 24.11, not on 22.05. On one
// machine that connection comes from 127.0.0.1.
func (c *Cluster) RegistersAddress() bool { return c.version >= 2300 }

// Log returns the path of a daemon's log: "slurmctld", "munged", "slurmdbd", "mariadbd" or "slurmd-NODE".
func (c *Cluster) Log(name string) string {
	return filepath.Join(c.dir, "log", name+".log")
}

// Env returns the environment in which Slurm's commands talk to this cluster.
func (c *Cluster) Env() []string {
	return []string{"PATH=" + searchPath(), "HOME=" + c.dir, "SLURM_CONF=" + c.conf}
}

// searchPath returns PATH with the folders of daemons, which a login shell of an ordinary user lacks.
func searchPath() string {
	return os.Getenv("PATH") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
}

func (c *Cluster) stoppingFile() string { return filepath.Join(c.dir, "run", "stopping") }

// installedVersion returns slurmctld's release, 2511 for 25.11.
func installedVersion(ctx context.Context) (int, error) {
	path, err := findProgram("slurmctld")
	if err != nil {
		return 0, fmt.Errorf("%w: apt-get install slurm-wlm munge", err)
	}

	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()

	out, err := exec.CommandContext(ctx, path, "-V").Output()
	if err != nil {
		return 0, fmt.Errorf("slurmctld -V: %w", err)
	}

	var (
		name         string
		major, minor int
	)
	if _, err := fmt.Sscanf(string(out), "%s %d.%d", &name, &major, &minor); err != nil {
		return 0, fmt.Errorf("slurmctld -V: cannot read a version in %q", out)
	}

	return major*100 + minor, nil
}
