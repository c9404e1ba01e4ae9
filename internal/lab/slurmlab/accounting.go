package slurmlab

import (
	"context"
	"fmt"
	"os"
	"os/exec"
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
	_, err := c.startDaemon(ctx, "slurmdbd", []string{"MYSQL_UNIX_PORT=" + c.databaseSocket()}, func() bool {
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()

		_, err := c.Command(ctx, "sacctmgr", "--immediate", "add", "cluster", clusterName)

		return err == nil
	}, "-D")

	return err
}

// startDatabase makes an empty database and starts MariaDB on it: what an earlier cluster in this folder accounted for
// is forgotten with its jobs. It listens on its socket only, and lets in who owns the processes of the cluster.
func (c *Cluster) startDatabase(ctx context.Context) error {
	if err := os.RemoveAll(c.databaseFolder()); err != nil {
		return err
	}

	settings := []string{
		"--no-defaults", "--datadir=" + filepath.Join(c.databaseFolder(), "data"), "--tmpdir=" +
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
		"--auth-root-authentication-method=socket", "--auth-root-socket-user="+c.user)...)
	cmd.Env = c.Env()
	cmd.Dir = c.databaseFolder()
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("making the database: %w: %s", err, out)
	}

	_, err = c.startDaemon(ctx, "mariadbd", nil, func() bool {
		_, err := os.Stat(c.databaseSocket())
		return err == nil
	}, append(settings, "--skip-networking", "--socket="+c.databaseSocket(),
		"--pid-file="+filepath.Join(c.dir, "run", "mariadbd.pid"), "--log-error="+c.Log("mariadbd"))...)

	return err
}

// slurmdbdConf returns the text of slurmdbd.conf.
func (c *Cluster) slurmdbdConf() string {
	return fmt.Sprintf(`# Written by slurmlab; changed at the next start or reload.
AuthType=auth/munge
AuthInfo=socket=%[1]s
DbdHost=localhost
DbdPort=%[2]d
SlurmUser=%[3]s
LogFile=%[4]s
PidFile=%[5]s
StorageType=accounting_storage/mysql
StorageUser=%[3]s
StorageLoc=slurm_acct_db
`, c.mungeSocket(), c.firstPort+accountingPort, c.user, c.Log("slurmdbd"), filepath.Join(c.dir, "run", "slurmdbd.pid"))
}
