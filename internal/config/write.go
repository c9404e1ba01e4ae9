package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"
	"github.com/google/renameio/v2"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// header begins every file that WritePartition wrote. A file without it belongs to the administrator and is never
// rewritten.
const header = "# Written by pcs-capacity setup, which may write it again."

// PartitionPath returns the file in conf.d for a partition, beside the config.toml at path.
func PartitionPath(path, partition string) string {
	return filepath.Join(filepath.Dir(path), "conf.d", partition+".toml")
}

// WrittenBySetup reports whether WritePartition wrote the file, or may: there is none yet.
func WrittenBySetup(file string) (bool, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return true, nil
	}

	if err != nil {
		return false, fmt.Errorf("reading settings: %w", err)
	}

	return strings.HasPrefix(string(text), header), nil
}

// NewPartition returns a partition with one node group, and the defaults for everything that is left out.
func NewPartition(
	name string, provider capacity.Provider, groups ...capacity.GroupSettings,
) capacity.PartitionSettings {
	p := capacity.PartitionSettings{Name: name, Provider: provider, Groups: groups}
	applyDefaults(&p)
	return p
}

// PartitionText returns the partition as TOML, the whole content of its own file.
func PartitionText(p capacity.PartitionSettings) (string, error) {
	text, err := encodePartition("  ", p)
	return header + "\n# It keeps settings that you change here, but no comments. To have them your own way,\n" +
		"# move the partition to config.toml.\n\n" + text, err
}

// NodeGroupText returns a [[partition.node_group]] as TOML, to be added to a file by hand.
func NodeGroupText(g capacity.GroupSettings) (string, error) {
	type partition struct {
		Groups []capacity.GroupSettings `toml:"node_group"`
	}

	// A partition with nothing else in it, whose heading is then cut off.
	text, err := encodePartition("", partition{[]capacity.GroupSettings{g}})
	_, text, _ = strings.Cut(text, "[[partition]]\n")

	return strings.TrimLeft(text, "\n"), err
}

// encodePartition has one [[partition]].
func encodePartition[P any](indent string, p P) (string, error) {
	var b strings.Builder

	// In a list, so that the heading is [[partition]].
	encoder := toml.NewEncoder(&b)
	encoder.Indent = indent

	err := encoder.Encode(map[string][]P{"partition": {p}})
	if err != nil {
		err = fmt.Errorf("writing partitions: %w", err)
	}

	return b.String(), err
}

// wrapWrite adds to an error that it comes from writing settings.
func wrapWrite(err error) error {
	if err != nil {
		err = fmt.Errorf("writing settings: %w", err)
	}
	return err
}

// WritePartition writes a partition to its own file, whole or not at all; one without node groups loses its file. It
// leaves alone a file that it did not write.
func WritePartition(file string, p capacity.PartitionSettings) error {
	ours, err := WrittenBySetup(file)
	switch {
	case err != nil:
		return err
	case !ours:
		return fmt.Errorf("%s was not written by pcs-capacity setup; it is left as it is", file)
	case len(p.Groups) == 0:
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing settings: %w", err)
		}
		return nil
	}

	text, err := PartitionText(p)
	if err != nil {
		return err
	}

	return writeFile(file, text)
}

// writeFile writes a file of settings, and makes its folder. Users' commands read it, so that a new one is 0644
// whatever the umask is.
func writeFile(file, text string) error {
	err := makeFolder(filepath.Dir(file))
	if err == nil {
		err = renameio.WriteFile(file, []byte(text), 0o644, renameio.IgnoreUmask(), renameio.WithExistingPermissions(),
			renameio.WithTempDir(filepath.Dir(file)))
	}

	return wrapWrite(err)
}

// makeFolder makes a folder of settings if it is not there. Hooks read them as SlurmUser and commands as any user, so
// it is 0755 whatever the umask is.
func makeFolder(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}

	if err := os.MkdirAll(path, 0o755); err != nil {
		return err
	}

	return os.Chmod(path, 0o755)
}

// ValidateWith returns what would be wrong with the settings if they had the partition, instead of the
// one of that name. c may be nil.
func (c *Config) ValidateWith(p capacity.PartitionSettings) []error {
	with := Default()
	if c != nil {
		copied := *c
		with = &copied
	}

	if p.File == "" {
		p.File = PartitionPath(with.Path, p.Name)
	}

	// Instead of the one that it will replace: a name that stands twice is an error.
	others := slices.DeleteFunc(slices.Clone(with.Partitions),
		func(other capacity.PartitionSettings) bool { return other.Name == p.Name })
	with.Partitions = append(others, p)

	return with.validate()
}

// ClusterRef locates the cluster. Cluster is "" for self-managed Slurm.
type ClusterRef struct{ Region, Cluster string }

// WriteClusterRef writes where the cluster is into a config.toml, below the comment that it begins with, and changes
// nothing else. It makes a file that is not there, and refuses one that names another cluster or region.
func WriteClusterRef(path string, place ClusterRef) error {
	now := Default()
	text := "# Settings of pcs-capacity. `pcs-capacity config` shows all of them with their values.\n"
	real, err := filepath.EvalSymlinks(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		real = path
	case err != nil:
		return wrapWrite(err)
	default:
		there, err := os.ReadFile(real)
		if err != nil {
			return wrapWrite(err)
		}

		now, err = Load(real)
		if err != nil {
			return err
		}

		text = string(there)
	}

	// Somebody may have set them while setup was asking; then theirs hold.
	lines := ""
	for _, one := range []struct{ key, is, wanted string }{
		{"region", now.Region, place.Region},
		{"cluster", now.Cluster, place.Cluster},
	} {
		switch {
		case one.is != "" && one.is != one.wanted:
			return fmt.Errorf("writing settings: %s has %s = %q by now, not %q", path, one.key, one.is, one.wanted)
		case one.is != one.wanted:
			lines += fmt.Sprintf("%s = %q\n", one.key, one.wanted)
		}
	}

	// Keys of the top have to stand before the first [table].
	head := ""
	rest := text
	for strings.HasPrefix(rest, "#") {
		line, after, _ := strings.Cut(rest, "\n")
		head += line + "\n"
		rest = after
	}

	return writeFile(real, head+lines+rest)
}

// trialSize bounds the bytes written on trial: files of settings and state are a few KB.
const trialSize = 16 << 10

// TryFolder reports whether files can be written into a folder, which is made when they are: it writes one there, or
// into the folder that is to have it, and removes it.
func TryFolder(dir string) error {
	for {
		info, err := os.Stat(dir)
		if err == nil {
			if !info.IsDir() {
				return fmt.Errorf("%s is no folder", dir)
			}
			break
		}

		if !errors.Is(err, fs.ErrNotExist) {
			return err
		}

		if _, err := os.Lstat(dir); err == nil {
			return fmt.Errorf("%s is a symbolic link to nothing", dir)
		}

		dir = filepath.Dir(dir)
	}

	f, err := os.CreateTemp(dir, ".pcs-capacity-try-")
	if err != nil {
		return err
	}

	// A full disk still makes empty files.
	_, err = f.Write(make([]byte, trialSize))

	return errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
}
