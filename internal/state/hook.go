package state

import "fmt"

// hookFile has the last power hook's access to AWS.
const hookFile = "hook.json"

// HookAccess tells whether a power hook, started by Slurm, had credentials of AWS.
type HookAccess struct {
	// Without is why it had none; "" if it had.
	Without string `json:"without,omitempty"`
	// Account is theirs, if they or the metadata of the instance say it. Source is where they were found, in
	// the AWS SDK's words, such as EC2RoleProvider.
	Account string `json:"account,omitempty"`
	Source  string `json:"source,omitempty"`
}

func (d Dir) hook() file[HookAccess] {
	return file[HookAccess]{dir: d, name: hookFile, public: true, keeping: "keeping what this hook got of AWS"}
}

// LastHook reads the access of the last hook; the error wraps fs.ErrNotExist if none has run.
func (d Dir) LastHook() (HookAccess, error) {
	var a HookAccess
	if err := d.hook().load(&a); err != nil {
		return a, fmt.Errorf("reading what the last hook got of AWS: %w", err)
	}
	return a, nil
}

// KeepHook writes it, if it is new.
func (d Dir) KeepHook(a HookAccess) error {
	if was, err := d.LastHook(); err == nil && was == a {
		return nil
	}
	return d.hook().write(a)
}
