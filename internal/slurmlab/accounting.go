package slurmlab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"time"
)

// databaseFolder holds the database. MariaDB's socket is in it too, so that nobody but its owner reaches that.
func (c *Cluster) databaseFolder() string { return filepath.Join(c.dir, "db") }

func (c *Cluster) databaseSocket() string { return filepath.Join(c.databaseFolder(), "socket") }

// startAccounting starts MariaDB and slurmdbd on an empty database and makes the cluster known there. slurmctld has to
// find it so: with AccountingStorageEnforce it does not start before it knows the associations.
func (c *Cluster) startAccounting(ctx context.Context) error {
	if !c.cfg.Accounting {
		return nil
	}
	if err := c.startDatabase(ctx); err != nil {
		return err
	}
	// libmariadb takes the path of the socket from the environment alone; slurmdbd.conf has no setting for it.
	d, err := c.startDaemon("slurmdbd", "slurmdbd", []string{"MYSQL_UNIX_PORT=" + c.databaseSocket()}, "-D")
	if err != nil {
		return err
	}
	return c.await(ctx, d, func() bool {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_, err := c.Command(ctx, "sacctmgr", "--immediate", "add", "cluster", clusterName)
		return err == nil
	})
}

// startDatabase makes an empty database and starts MariaDB on it: what an earlier cluster in this folder accounted for
// is forgotten with its jobs. It listens on its socket only, and lets in who owns the processes of the cluster.
func (c *Cluster) startDatabase(ctx context.Context) error {
	me, err := user.Current()
	if err != nil {
		return err
	}
	if err := os.RemoveAll(c.databaseFolder()); err != nil {
		return err
	}
	settings := []string{"--no-defaults", "--datadir=" + filepath.Join(c.databaseFolder(), "data"), "--tmpdir=" +
		c.databaseFolder(), // MariaDB begins by removing the temporary tables of all others there
		"--innodb-log-file-size=4M", "--innodb-buffer-pool-size=32M", "--performance-schema=off",
		"--innodb-flush-log-at-trx-commit=0", // nothing of a lab has to outlive a crash
	}
	if os.Geteuid() == 0 {
		settings = append(settings, "--user=root") // it refuses to run as root unless told to
	}
	if err := os.MkdirAll(c.databaseFolder(), 0o700); err != nil {
		return err
	}
	install, err := findProgram("mariadb-install-db")
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, install, append(settings, "--skip-test-db", "--skip-name-resolve",
		"--auth-root-authentication-method=socket", "--auth-root-socket-user="+me.Username)...)
	cmd.Env = c.Env()
	cmd.Dir = c.databaseFolder()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("making the database: %w: %s", err, out)
	}
	d, err := c.startDaemon("mariadbd", "mariadbd", nil, append(settings, "--skip-networking",
		"--socket="+c.databaseSocket(), "--pid-file="+filepath.Join(c.dir, "run", "mariadbd.pid"), "--log-error="+c.Log("mariadbd"))...)
	if err != nil {
		return err
	}
	return c.await(ctx, d, func() bool {
		_, err := os.Stat(c.databaseSocket())
		return err == nil
	})
}

// slurmdbdConf is the text of slurmdbd.conf.
func (c *Cluster) slurmdbdConf() (string, error) {
	me, err := user.Current()
	if err != nil {
		return "", err
	}
	text := "# Written by slurmlab; changed at the next start or reload.\n"
	for _, s := range []setting{
		{"AuthType", "auth/munge"},
		{"AuthInfo", "socket=" + c.mungeSocket()},
		{"DbdHost", "localhost"},
		{"DbdPort", fmt.Sprint(c.ports.first + accountingPort)},
		{"SlurmUser", me.Username},
		{"LogFile", c.Log("slurmdbd")},
		{"PidFile", filepath.Join(c.dir, "run", "slurmdbd.pid")},
		{"StorageType", "accounting_storage/mysql"},
		{"StorageUser", me.Username},
		{"StorageLoc", "slurm_acct_db"},
	} {
		text += s.key + "=" + s.value + "\n"
	}
	return text, nil
}

// accountingSettings are those of slurm.conf, none without accounting.
func (c *Cluster) accountingSettings() []setting {
	if !c.cfg.Accounting {
		return nil
	}
	return []setting{
		{"AccountingStorageType", "accounting_storage/slurmdbd"},
		{"AccountingStorageHost", "localhost"},
		{"AccountingStoragePort", fmt.Sprint(c.ports.first + accountingPort)},
		// Without it a user may write any account.
		{"AccountingStorageEnforce", "associations"},
		// What asks slurmdbd takes the socket of munged from here, not from AuthInfo.
		{"AccountingStoragePass", c.mungeSocket()},
	}
}
