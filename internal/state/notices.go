package state

import "time"

const noticesFile = "notices.json"

func (d Dir) notices() file[map[string]time.Time] {
	return file[map[string]time.Time]{dir: d, name: noticesFile, reading: "reading what people were told", keeping: "keeping what people were told"}
}

// Notices is what people have been told, with the times when; none if there is no file.
func (d Dir) Notices() (map[string]time.Time, error) { return d.notices().read() }

// KeepNotices keeps what people have been told.
func (d Dir) KeepNotices(told map[string]time.Time) error { return d.notices().write(told) }
