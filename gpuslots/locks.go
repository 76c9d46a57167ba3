package gpuslots

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxSlots bounds the slots of a card, and with them the records of a lock file.
const maxSlots = 1024

// recordSize is the bytes of one slot in a lock file: a line of JSON for people and other workers, padded.
const recordSize = 256

// lockFolder is the one folder of the machine in which every worker locks GPUs: <uuid>.lock, a record for each slot.
//
// The locks are the kernel's open file description locks: they belong to the descriptor and all its copies, so a
// child that inherits it keeps the lock when the parent dies, and they can be looked at without taking them. A file is
// never removed: two workers must not lock two files of one name.
type lockFolder struct{ dir string }

// gpuLock is what one allocation has locked of one GPU.
type gpuLock struct {
	file  *os.File
	slots []int // nil: the whole card
}

// record is what stands in a locked slot.
type record struct {
	Holder    string `json:"holder"`
	PromiseMB int64  `json:"mb,omitempty"`
	Exclusive bool   `json:"exclusive,omitempty"`
}

// openLockFolder makes the folder when it is new, for all users of the machine.
func openLockFolder(dir string) (*lockFolder, error) {
	_, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err = os.MkdirAll(dir, 0o755); err == nil {
			err = os.Chmod(dir, 0o777|fs.ModeSticky)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("folder for GPU locks %s: %w (every worker of this machine must be able to write there)", dir, err)
	}
	l := &lockFolder{dir: dir}
	f, err := l.open("probe")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, _, err := conflict(f, 0, 0); err != nil {
		return nil, fmt.Errorf("folder for GPU locks %s: %w (it must be on a local file system)", dir, err)
	}
	return l, nil
}

func (l *lockFolder) path(uuid string) string { return filepath.Join(l.dir, uuid+".lock") }

// open opens a GPU's file, making it when it is new. The descriptor closes on exec unless it is handed on.
func (l *lockFolder) open(uuid string) (*os.File, error) {
	path := l.path(uuid)
	f, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o666)
		if err == nil {
			_ = f.Chmod(0o666) // against the umask; it is the creator's to do, and another may have been
		}
	}
	if err != nil {
		return nil, fmt.Errorf("GPU lock %s: %w", path, err)
	}
	return f, nil
}

// take locks the records, or the whole file when n is 0: lowest free slots first, of so many. ErrLocked when somebody
// else has them.
func (l *lockFolder) take(uuid string, n, of int, rec record) (*gpuLock, error) {
	f, err := l.open(uuid)
	if err != nil {
		return nil, err
	}
	lock := &gpuLock{file: f}
	if n == 0 {
		err = setLock(f, unix.F_WRLCK, 0, 0)
	}
	for slot := 0; n > len(lock.slots) && slot < of && err == nil; slot++ {
		switch got := setLock(f, unix.F_WRLCK, slotAt(slot), recordSize); {
		case got == nil:
			lock.slots = append(lock.slots, slot)
		case !errors.Is(got, ErrLocked):
			err = got
		}
	}
	if err == nil && len(lock.slots) < n {
		err = ErrLocked
	}
	if err == nil {
		err = lock.write(rec)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("GPU lock %s: %w", l.path(uuid), err)
	}
	return lock, nil
}

// takeSlots locks exactly these records, or the whole file when there are none.
func (l *lockFolder) takeSlots(uuid string, slots []int, rec record) (*gpuLock, error) {
	if len(slots) == 0 {
		return l.take(uuid, 0, 0, rec)
	}
	f, err := l.open(uuid)
	if err != nil {
		return nil, err
	}
	lock := &gpuLock{file: f, slots: slots}
	for _, slot := range slots {
		err = errors.Join(err, setLock(f, unix.F_WRLCK, slotAt(slot), recordSize))
	}
	if err == nil {
		err = lock.write(rec)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("GPU lock %s: %w", l.path(uuid), err)
	}
	return lock, nil
}

// taken is one lock of somebody on a card.
type taken struct {
	record
	slots []int
}

// others lists the locks that others than the file's own descriptor hold on the card, without taking any.
func (l *lockFolder) others(uuid string) ([]taken, error) {
	f, err := os.OpenFile(l.path(uuid), os.O_RDWR|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("GPU lock %s: %w", l.path(uuid), err)
	}
	defer f.Close()
	return others(f, 0, maxSlots)
}

// others looks at the slots from and before to. The kernel names one lock in the way at a time, any one, so the
// rest is looked at on both sides of it.
func others(f *os.File, from, to int) ([]taken, error) {
	if from >= to {
		return nil, nil
	}
	start, length, err := conflict(f, slotAt(from), slotAt(to-from))
	if err != nil || length == 0 {
		return nil, err
	}
	if length < 0 { // without end: the whole card
		return []taken{{record: readRecord(f, 0, true)}}, nil
	}
	first, end := max(from, int(start/recordSize)), min(to, int((start+length)/recordSize)) // neighbours are one lock
	before, err := others(f, from, first)
	if err != nil {
		return nil, err
	}
	for slot := first; slot < end; slot++ {
		before = append(before, taken{record: readRecord(f, slot, false), slots: []int{slot}})
	}
	after, err := others(f, end, to)
	return append(before, after...), err
}

func slotAt(slot int) int64 { return int64(slot) * recordSize }

func setLock(f *os.File, kind int16, start, length int64) error {
	lk := unix.Flock_t{Type: kind, Whence: io.SeekStart, Start: start, Len: length}
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lk)
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
		return ErrLocked
	}
	return err
}

// conflict asks who would be in the way of a lock. length 0: nobody; negative: from start without end.
func conflict(f *os.File, start, length int64) (at, size int64, err error) {
	lk := unix.Flock_t{Type: unix.F_WRLCK, Whence: io.SeekStart, Start: start, Len: length}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lk); err != nil {
		return 0, 0, fmt.Errorf("GPU lock %s: %w", f.Name(), err)
	}
	switch {
	case lk.Type == unix.F_UNLCK:
		return 0, 0, nil
	case lk.Len == 0:
		return lk.Start, -1, nil
	}
	return lk.Start, lk.Len, nil
}

func (l *gpuLock) records() []int {
	if l.slots == nil {
		return []int{0}
	}
	return l.slots
}

func (l *gpuLock) write(rec record) error {
	rec.Exclusive = l.slots == nil
	line, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	if len(line) >= recordSize {
		return fmt.Errorf("the holder's name %.40q... is too long for it", rec.Holder)
	}
	text := fmt.Sprintf("%-*s\n", recordSize-1, line)
	for _, slot := range l.records() {
		if _, err := l.file.WriteAt([]byte(text), slotAt(slot)); err != nil {
			return err
		}
	}
	return nil
}

// readRecord is what the lock's owner wrote; empty when it has not yet, or wrote nonsense.
func readRecord(f *os.File, slot int, whole bool) record {
	buf := make([]byte, recordSize)
	n, _ := f.ReadAt(buf, slotAt(slot))
	var rec record
	_ = json.Unmarshal([]byte(strings.TrimSpace(string(buf[:n]))), &rec)
	rec.Exclusive = whole
	return rec
}

// unlock lets go, also of the copies that a shim about to exit still has.
func (l *gpuLock) unlock() error {
	blank := []byte(strings.Repeat(" ", recordSize-1) + "\n")
	for _, slot := range l.records() {
		_, _ = l.file.WriteAt(blank, slotAt(slot)) // for people; the lock is what counts
	}
	err := setLock(l.file, unix.F_UNLCK, 0, 0)
	return errors.Join(err, l.file.Close())
}

func unlockAll(locks []*gpuLock) []error {
	var errs []error
	for _, l := range locks {
		if err := l.unlock(); err != nil {
			errs = append(errs, fmt.Errorf("GPU lock %s: %w", l.file.Name(), err))
		}
	}
	return errs
}
